//! What a tenant is granted beside its own code: origins, settings and secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http::HeaderName;
use ipnet::IpNet;
use leasehold_sandbox::{Origin, header_is_the_hosts};

use super::problem::{Place, Problem, Problems};
use super::reader::{self, Section, Wrong};
use super::tree::{Node, Table, Value};

/// Characters of the key of a setting or secret.
const KEY_MAX: usize = 128;
/// Origins of one tenant.
const ORIGINS_MAX: usize = 10_000;
/// Characters of a setting.
const VALUE_MAX: usize = 64 * 1024;

/// What the operator grants a tenant. A job gets of it what its manifest asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantGrants {
    /// Where requests may go, and to which addresses besides public ones.
    pub http: BTreeMap<Origin, Vec<IpNet>>,
    /// Settings, as they are.
    pub config: BTreeMap<String, String>,
    /// Secrets: where they lie and where they may go.
    pub secrets: BTreeMap<String, SecretGrant>,
}

/// A secret before it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretGrant {
    /// Where it lies.
    pub source: SecretSource,
    /// The one https origin it may go to.
    pub origin: Origin,
    /// The one header it may stand in.
    pub header: HeaderName,
    /// Where the configuration says so.
    pub(super) place: Place,
}

/// Where a secret lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// In an environment variable of the host.
    Env(String),
    /// In a file.
    File(PathBuf),
}

impl TenantGrants {
    /// Takes the grants out of a tenant's section. `folder` says where a relative path starts that was written there.
    pub(super) fn take<'a>(
        tenant: &mut Section,
        folder: impl Fn(&Place) -> &'a Path,
        problems: &mut Problems,
    ) -> TenantGrants {
        let mut http = tenant.section("http");
        let origins = http.take_list("allow", ORIGINS, ORIGINS_MAX, granted_origin).into_iter().collect();
        problems.append(http.finish());
        let config = read_config(tenant.section("config"), problems);
        let secrets = read_secrets(tenant.section("secrets"), folder, problems);
        for key in secrets.keys().filter(|key| config.contains_key(*key)) {
            let reason = format!("{key} is both a setting and a secret");
            problems.push(Problem::of(secrets[key].place.clone(), reason).hint("give one of them another name"));
        }
        TenantGrants { http: origins, config, secrets }
    }
}

/// An origin as configurations and manifests write it.
pub(crate) fn origin(text: &str) -> Result<Origin, Wrong> {
    text.parse::<Origin>().map_err(|error| {
        Wrong::new(format!("it is not an origin: {error}"))
            .hint("write \"https://api.example.com\", with a port or without")
    })
}

/// The key of a setting or secret.
pub(crate) fn is_key(key: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !key.is_empty() && key.len() <= KEY_MAX && key.chars().all(plain)
}

/// What [`is_key`] wants, for people.
pub(crate) const KEY_HINT: &str = "use 1 to 128 of A-Z a-z 0-9 . _ -";

const ORIGINS: &str =
    "a list such as [\"https://api.example.com\", { origin = \"http://db.inside\", addresses = [\"10.0.0.0/8\"] }]";

/// An origin, which may come with addresses that its name may lead to and that are not public.
fn granted_origin(item: &Node, before: &[(Origin, Vec<IpNet>)]) -> Result<(Origin, Vec<IpNet>), Wrong> {
    let (origin, addresses) = match &item.value {
        Value::Table(table) => with_addresses(table)?,
        _ => (origin(&reader::text(item)?)?, Vec::new()),
    };
    if before.iter().any(|(other, _)| *other == origin) {
        return Err(Wrong::new(format!("{origin} is listed twice")));
    }
    Ok((origin, addresses))
}

fn with_addresses(table: &Table) -> Result<(Origin, Vec<IpNet>), Wrong> {
    let hint = "write { origin = \"http://db.inside\", addresses = [\"10.0.0.0/8\"] }";
    let known = |key: &String| key == "origin" || key == "addresses";
    if let Some(key) = table.keys().find(|key| !known(key)) {
        let key = super::problem::plain(key);
        return Err(Wrong::new(format!("an origin has no key {key}")).hint(hint));
    }
    let named = table.get("origin").ok_or_else(|| Wrong::new("an entry names no origin").hint(hint))?;
    let origin = origin(&reader::text(named)?)?;
    let addresses = match table.get("addresses").map(|node| &node.value) {
        Some(Value::Array(items)) => items.iter().map(range).collect::<Result<_, _>>()?,
        _ => return Err(Wrong::new(format!("the addresses that {origin} may lead to are missing")).hint(hint)),
    };
    Ok((origin, addresses))
}

/// "10.0.0.0/8", or one address.
fn range(node: &Node) -> Result<IpNet, Wrong> {
    let text = reader::text(node)?;
    let one = || text.parse::<std::net::IpAddr>().ok().map(IpNet::from);
    let range = text.parse::<IpNet>().ok().or_else(one).ok_or_else(|| {
        Wrong::new(format!("{} is not a range of addresses", super::problem::quoted(&text)))
            .hint("write \"10.0.0.0/8\"")
    })?;
    if range.trunc() != range {
        return Err(
            Wrong::new(format!("{range} has bits behind its prefix")).hint(format!("write \"{}\"", range.trunc()))
        );
    }
    Ok(range)
}

fn read_config(mut section: Section, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (key, node) in section.take_all() {
        let problem = |wrong: Wrong| Problem {
            place: node.place.clone(),
            key: section.full(&key),
            value: None,
            reason: wrong.reason,
            hint: wrong.hint,
        };
        let value = match &node.value {
            _ if !is_key(&key) => Err(Wrong::new("it is not a setting's key").hint(KEY_HINT)),
            Value::Text(text) if text.len() > VALUE_MAX => Err(Wrong::new("it is longer than 64KiB")),
            Value::Text(text) => Ok(text.clone()),
            Value::Integer(n) => Ok(n.to_string()),
            Value::Float(n) => Ok(n.to_string()),
            Value::Boolean(b) => Ok(b.to_string()),
            _ => Err(Wrong::new(format!("expected text, a number or true or false, found {}", node.kind()))),
        };
        match value {
            Ok(value) => drop(found.insert(key, value)),
            Err(wrong) => problems.push(problem(wrong)),
        }
    }
    problems.append(section.finish());
    found
}

fn read_secrets<'a>(
    mut section: Section,
    folder: impl Fn(&Place) -> &'a Path,
    problems: &mut Problems,
) -> BTreeMap<String, SecretGrant> {
    let mut found = BTreeMap::new();
    for (key, node) in section.take_all() {
        let place = node.place.clone();
        let title = section.full(&key);
        let mut refuse = |reason: &str, hint: &str| {
            // No value: whoever writes a secret where its name belongs must not find it in a log.
            let problem = Problem { key: title.clone(), ..Problem::of(place.clone(), reason) };
            problems.push(problem.hint(hint));
        };
        if !is_key(&key) {
            refuse("it is not a secret's key", KEY_HINT);
            continue;
        }
        let Value::Table(table) = node.value else {
            refuse("a secret is not written here", SECRET_HINT);
            continue;
        };
        let mut secret = Section::new(title.clone(), place.clone(), table);
        let grant = read_secret(&mut secret, &place, &folder, &mut refuse);
        problems.append(secret.finish());
        if let Some(grant) = grant {
            found.insert(key, grant);
        }
    }
    problems.append(section.finish());
    found
}

const SECRET_HINT: &str = "write { env = \"API_TOKEN\", origin = \"https://api.example.com\", header = \"authorization\" }, \
                           or file = \"path\" instead of env";

fn read_secret<'a>(
    secret: &mut Section,
    place: &Place,
    folder: &impl Fn(&Place) -> &'a Path,
    refuse: &mut impl FnMut(&str, &str),
) -> Option<SecretGrant> {
    // None of its values is repeated: whoever writes a secret in the wrong place must not find it in a log.
    let name = |node: Option<Node>| match node {
        Some(Node { value: Value::Text(text), place }) if !text.is_empty() => Some((text, place)),
        _ => None,
    };
    let (env, file) = (secret.take_node("env"), secret.take_node("file"));
    let source = match (env.is_some(), file.is_some()) {
        (true, false) => name(env).map(|(text, _)| SecretSource::Env(text)),
        (false, true) => name(file).map(|(text, at)| SecretSource::File(folder(&at).join(text))),
        _ => None,
    };
    if source.is_none() {
        refuse("a secret lies either in a variable (env) or in a file (file)", SECRET_HINT);
    }
    let origin = secret.take_hidden("origin", |node| match origin(&reader::text(node)?)? {
        origin if origin.is_https() => Ok(origin),
        _ => Err(Wrong::new("a secret goes to an https origin only")),
    });
    let header = secret.take_hidden("header", |node| {
        let header = reader::text(node)?.parse::<HeaderName>().map_err(|_| Wrong::new("it is not a header's name"))?;
        if header_is_the_hosts(header.as_str()) {
            return Err(Wrong::new("only the host sets this header"));
        }
        Ok(header)
    });
    let written = |key| secret.place_of(key).is_some();
    if !written("origin") || !written("header") {
        refuse("a secret names the one origin and the one header it may go to", SECRET_HINT);
    }
    Some(SecretGrant { source: source?, origin: origin?, header: header?, place: place.clone() })
}

#[cfg(test)]
mod tests;
