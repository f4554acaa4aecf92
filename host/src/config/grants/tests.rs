//! What an operator may grant, and how every mistake in it is told without the secrets.

use super::super::{Config, FILE_NAME, Sources};
use super::*;

fn sources(folder: &Path, env: &[(&str, &str)]) -> Sources {
    let env = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Sources { folder: folder.into(), env, ..Sources::default() }
}

fn read(text: &str, env: &[(&str, &str)]) -> (tempfile::TempDir, Result<Config, String>) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE_NAME), text).unwrap();
    let config = Config::load(&sources(folder.path(), env)).map_err(|problems| problems.to_string());
    (folder, config)
}

fn wrong(text: &str) -> Vec<String> {
    let (folder, config) = read(text, &[]);
    let prefix = format!("{}/{FILE_NAME}:", folder.path().display());
    config.unwrap_err().lines().map(|line| line.replace(&prefix, "")).collect()
}

const GRANTS: &str = "
[tenants.acme.http]
allow = [\"https://API.example.com:443\", { origin = \"http://db.inside\", addresses = [\"10.0.0.0/8\", \"::1\"] }]
[tenants.acme.config]
region = \"eu\"
retries = 3
[tenants.acme.secrets]
TOKEN = { env = \"API_TOKEN\", origin = \"https://api.example.com\", header = \"Authorization\" }
KEY = { file = \"key\", origin = \"https://api.example.com\", header = \"x-key\" }
";

#[test]
fn grants_belong_to_the_tenant_that_they_are_written_for() {
    let (_folder, config) = read(GRANTS, &[("LEASEHOLD_TENANTS__ACME__CONFIG__ZONE", "b")]);
    let config = config.unwrap();
    let acme = config.grants(&"acme".parse().unwrap());
    let origins: Vec<(String, usize)> = acme.http.iter().map(|(o, a)| (o.to_string(), a.len())).collect();
    assert_eq!(origins, [("http://db.inside".to_owned(), 2), ("https://api.example.com".to_owned(), 0)]);
    let settings = [("region", "eu"), ("retries", "3"), ("zone", "b")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(acme.config, settings.into());
    assert_eq!(acme.secrets["TOKEN"].source, SecretSource::Env("API_TOKEN".to_owned()));
    assert_eq!(config.grants(&"other".parse().unwrap()), &TenantGrants::default());
}

#[test]
fn every_mistake_is_told_and_no_secret_is() {
    let told = wrong(
        "[tenants.a.http]\nallow = [\"https://x.example/path\"]\nallowed = []\n\
         [tenants.b.http]\nallow = [{ origin = \"http://x\", addresses = [\"10.0.0.1/8\"] }]\n\
         [tenants.c.http]\nallow = [{ origin = \"http://x\" }]\n\
         [tenants.d.http]\nallow = \"https://x.example\"\n\
         [tenants.e.config]\n\"a b\" = \"x\"\nlist = [1]\n\
         [tenants.f.secrets]\nA = \"hunter2\"\nB = { env = \"hunter2\", file = \"x\", origin = \"https://x\", header = \"y\" }\n\
         C = { env = \"E\", origin = \"http://x\", header = \"y\" }\nD = { env = \"E\", origin = \"https://x\", header = \"host\" }\n\
         E = { value = \"hunter2\", origin = \"https://x\", header = \"y\" }\nF = { env = \"E\", origin = \"https://x\" }\n\
         G = { env = \"E\", origin = \"https://x\", header = \"authorization: Bearer hunter2\" }\n\
         [tenants.g.config]\nK = \"x\"\n[tenants.g.secrets]\nK = { env = \"E\", origin = \"https://x\", header = \"y\" }\n",
    );
    let expected = [
        "2: tenants.a.http.allow[1]: it is not an origin: it has a path",
        "3: tenants.a.http.allowed: there is no such key; did you mean \"allow\"?",
        "5: tenants.b.http.allow[1]: 10.0.0.1/8 has bits behind its prefix; write \"10.0.0.0/8\"",
        "7: tenants.c.http.allow[1]: the addresses that http://x may lead to are missing",
        "9: tenants.d.http.allow = \"https://x.example\": expected a list such as [",
        "11: tenants.e.config.a b: it is not a setting's key",
        "12: tenants.e.config.list: expected text, a number or true or false, found a list",
        "14: tenants.f.secrets.A: a secret is not written here; write { env",
        "15: tenants.f.secrets.B: a secret lies either in a variable (env) or in a file (file)",
        "16: tenants.f.secrets.C.origin: a secret goes to an https origin only",
        "17: tenants.f.secrets.D.header: only the host sets this header",
        "18: tenants.f.secrets.E: a secret lies either in a variable (env) or in a file (file)",
        "18: tenants.f.secrets.E.value: there is no such key",
        "19: tenants.f.secrets.F: a secret names the one origin and the one header it may go to",
        "20: tenants.f.secrets.G.header: it is not a header's name",
        "24: K is both a setting and a secret",
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (found, expected) in told.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    assert!(!told.join("\n").contains("hunter2"), "{told:#?}");
}

#[test]
fn secrets_are_read_where_they_lie_and_never_printed() {
    let (folder, config) = read(GRANTS, &[]);
    let config = config.unwrap();
    let env = sources(folder.path(), &[("API_TOKEN", "hunter2")]).env;
    let missing = config.secrets(&env).unwrap_err().to_string();
    assert!(missing.contains(":9: tenants.acme.secrets.KEY: the file that it lies in cannot be read"), "{missing}");
    std::fs::write(folder.path().join("key"), "hunter3\n").unwrap();
    let missing = config.secrets(&[]).unwrap_err().to_string();
    assert!(missing.contains(":8: tenants.acme.secrets.TOKEN: the environment variable that env names is not set"));
    let secrets = config.secrets(&env).unwrap();
    assert_eq!(secrets.of(&"acme".parse().unwrap()).len(), 2);
    assert!(secrets.of(&"other".parse().unwrap()).is_empty());
    assert!(!format!("{secrets:?} {config:?}").contains("hunter"), "{secrets:?}");
    for bad in ["", "two\nlines", "nul\0", &"x".repeat(20_000)] {
        std::fs::write(folder.path().join("key"), bad).unwrap();
        let told = config.secrets(&env).unwrap_err().to_string();
        assert!(told.contains("tenants.acme.secrets.KEY: the secret "), "{told}");
    }
}

#[test]
fn each_bad_entry_of_a_list_is_told_with_its_number_and_none_is_repeated() {
    let told = wrong(
        "[tenants.a.http]\nallow = [\"https://u:hunter2@a\", \"https://a\", 7,\n  \"https://A:443\", { origin = \"x\" }]\n",
    );
    let expected = ["allow[1]: it is not an origin", "allow[3]: expected text", "allow[4]: https://a is listed twice"];
    assert_eq!(told.len(), expected.len() + 1, "{told:#?}");
    for expected in expected {
        assert!(told.iter().any(|told| told.contains(expected)), "{expected}: {told:#?}");
    }
    assert!(!told.join("\n").contains("hunter2"), "{told:#?}");
}
