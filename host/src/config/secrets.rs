//! Reads secrets where they lie. No message repeats one.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use leasehold_lease::id::TenantName;
use leasehold_sandbox::{Secret, SecretText, is_header_value};

use super::Config;
use super::grants::{SecretGrant, SecretSource};
use super::problem::{Problem, Problems};
use crate::regular_file;

/// Bytes of the longest secret.
const SECRET_MAX: u64 = 16 * 1024;

/// The secrets of all tenants. They print as `***`.
#[derive(Debug, Clone, Default)]
pub struct Secrets(BTreeMap<TenantName, Arc<BTreeMap<String, Secret>>>);

impl Secrets {
    /// Those of a tenant.
    pub fn of(&self, tenant: &TenantName) -> Arc<BTreeMap<String, Secret>> {
        self.0.get(tenant).cloned().unwrap_or_default()
    }
}

impl Config {
    /// Reads every secret: what a host needs before it starts, and nobody else does.
    ///
    /// # Errors
    /// All that are missing or cannot be sent, by key and never by value.
    pub fn secrets(&self, env: &[(OsString, OsString)]) -> Result<Secrets, Problems> {
        let mut problems = Problems::default();
        let mut all = BTreeMap::new();
        for (tenant, grants) in &self.grants {
            let mut secrets = BTreeMap::new();
            for (key, grant) in &grants.secrets {
                match read(grant, env) {
                    Ok(value) => {
                        let (origin, header) = (grant.origin.clone(), grant.header.clone());
                        secrets.insert(key.clone(), Secret { value, origin, header });
                    }
                    Err(reason) => {
                        let key = format!("tenants.{tenant}.secrets.{key}");
                        problems.push(Problem { key, ..Problem::of(grant.place.clone(), reason) });
                    }
                }
            }
            all.insert(tenant.clone(), Arc::new(secrets));
        }
        problems.or(Secrets(all))
    }
}

fn read(grant: &SecretGrant, env: &[(OsString, OsString)]) -> Result<SecretText, String> {
    let text = match &grant.source {
        SecretSource::Env(name) => from_env(name, env),
        SecretSource::File(path) => from_file(path),
    }?;
    if text.is_empty() {
        return Err("the secret is empty".to_owned());
    }
    if !is_header_value(&text) {
        return Err("the secret has characters that no header can hold, such as a line break in its middle".to_owned());
    }
    Ok(SecretText::new(text))
}

/// The variable's name is not told either: it may be the secret itself, written in the wrong place.
fn from_env(name: &str, env: &[(OsString, OsString)]) -> Result<String, String> {
    let (_, value) = env
        .iter()
        .find(|(known, _)| known == OsStr::new(name))
        .ok_or("the environment variable that env names is not set")?;
    let text = value.to_str().ok_or("the environment variable that env names is not UTF-8 text")?;
    if text.len() as u64 > SECRET_MAX { Err("the secret is longer than 16KiB".to_owned()) } else { Ok(text.to_owned()) }
}

fn from_file(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    regular_file::open(path)
        .and_then(|file| file.take(SECRET_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("the file that it lies in cannot be read: {}", error.kind()))?;
    if bytes.len() as u64 > SECRET_MAX {
        return Err("the secret is longer than 16KiB".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|_| "the file that it lies in is not UTF-8 text".to_owned())?;
    // Editors and `echo` end a file with a line break.
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}
