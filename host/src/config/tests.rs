//! The configuration as a whole: layers, defaults, and everything that is wrong told at once.

use std::time::Duration;

use super::*;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A folder with `text` as its leasehold.toml.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(text: &str) -> Folder {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE_NAME), text).unwrap();
        Folder(folder)
    }

    fn sources(&self, env: &[(&str, &str)]) -> Sources {
        let env = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Sources { folder: self.0.path().into(), env, ..Sources::default() }
    }

    fn load(&self, env: &[(&str, &str)]) -> Result<Config, Problems> {
        Config::load(&self.sources(env))
    }

    /// Every problem, without the folder in front.
    fn wrong(&self, env: &[(&str, &str)]) -> Vec<String> {
        let folder = format!("{}/", self.0.path().display());
        self.load(env).unwrap_err().iter().map(|problem| problem.to_string().replace(&folder, "")).collect()
    }
}

fn tenant(name: &str) -> TenantName {
    name.parse().unwrap()
}

#[test]
fn without_a_file_the_defaults_hold_and_paths_start_in_the_working_folder() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::load(&Sources { folder: folder.path().into(), ..Sources::default() }).unwrap();
    assert_eq!(config.file, None);
    assert_eq!(config.host.plugins, folder.path().join("plugins"));
    assert_eq!(config.store, StoreUrl::Sqlite(folder.path().join(".leasehold/leasehold.db")));
    assert_eq!(config.host.concurrency, 256);
    assert_eq!(config.defaults(), &TenantSettings::default());
    assert_eq!(config.defaults().policy.heartbeat, s(5));
}

#[test]
fn a_file_that_was_named_must_exist() {
    let folder = tempfile::tempdir().unwrap();
    let file = Some(folder.path().join("gone.toml"));
    let problems = Config::load(&Sources { file, folder: folder.path().into(), ..Sources::default() }).unwrap_err();
    assert!(problems.to_string().contains("gone.toml: the configuration cannot be read: "), "{problems}");
}

#[test]
fn a_flag_is_over_the_environment_over_the_file_over_the_default() {
    let folder =
        Folder::new("[host]\nplugins = \"from-file\"\ndata_dir = \"d\"\nconcurrency = 4\n[defaults]\nlease = \"9s\"\n");
    let env = [("LEASEHOLD_HOST__PLUGINS", "from-env"), ("LEASEHOLD_HOST__CONCURRENCY", "5"), ("LEASEHOLD_LOG", "x")];
    let config = folder.load(&env).unwrap();
    let root = folder.0.path();
    assert_eq!((config.host.plugins, config.host.concurrency), (root.join("from-env"), 5));
    assert_eq!(config.store, StoreUrl::Sqlite(root.join("d/leasehold.db")));
    assert_eq!((config.defaults.policy.lease, config.defaults.policy.heartbeat), (s(9), Duration::from_millis(1500)));

    let mut sources = folder.sources(&env);
    sources.flags = Flags { plugins: Some("/from/flag".into()), store: Some("memory:".into()) };
    let config = Config::load(&sources).unwrap();
    assert_eq!((config.host.plugins, config.store), (PathBuf::from("/from/flag"), StoreUrl::Memory));
}

#[test]
fn paths_in_a_file_start_at_its_folder_and_those_of_flags_at_the_working_folder() {
    let elsewhere = Folder::new("[host]\nplugins = \"p\"\n");
    let mut sources = Folder::new("").sources(&[]);
    sources.file = Some(elsewhere.0.path().join(FILE_NAME));
    assert_eq!(Config::load(&sources).unwrap().host.plugins, elsewhere.0.path().join("p"));
    sources.flags.plugins = Some("q".into());
    let config = Config::load(&sources).unwrap();
    assert_eq!(config.host.plugins, sources.folder.join("q"));
    assert_eq!(config.host.data_dir, elsewhere.0.path().join(".leasehold"));
}

#[test]
fn a_tenants_section_lies_over_the_defaults_and_derived_keys_follow() {
    let folder = Folder::new(
        "[defaults]\nlease = \"1m\"\nmemory = \"32MiB\"\n[tenants.acme]\nlease = \"3s\"\ntimeout = \"10s\"\nmin_interval = \"1s\"\n\
         [tenants.\"b.c\"]\nconcurrency = 2\n",
    );
    let config = folder.load(&[("LEASEHOLD_TENANTS__ACME__OUTPUT_KEPT", "1KiB")]).unwrap();
    let acme = config.tenant(&tenant("acme"));
    assert_eq!((acme.policy.lease, acme.policy.heartbeat), (s(3), Duration::from_millis(500)));
    assert_eq!((acme.limits.timeout, acme.limits.memory, acme.limits.output_kept), (s(10), 32 << 20, 1024));
    assert_eq!(acme.quota.min_interval, s(1));
    assert_eq!(config.tenant(&tenant("b.c")).quota.concurrency, 2);
    assert_eq!(config.tenant(&tenant("other")).policy.lease, s(60));
}

#[test]
fn everything_that_is_wrong_is_told_at_once_in_order() {
    let folder = Folder::new(
        "[host]\nconcurency = 3\nlisten = \"127.0.0.1:7070\"\n[store]\nurl = \"mysql://me:hunter2@db/x\"\n\
         [defaults]\nlease = \"30s\"\nheartbeat = \"20s\"\njitter = 5\noverlap = \"maybe\"\n[tenants.Acme]\n\
         [tenants.ok.secrets]\nkey = \"hunter2\"\n[surprise]\n",
    );
    let wrong = folder.wrong(&[("LEASEHOLD_DEFAULTS__MEMORY", "12"), ("LEASEHOLD___X", "1")]);
    let expected = [
        "leasehold.toml:2: host.concurency: there is no such key; did you mean \"concurrency\"?",
        "leasehold.toml:3: host.listen: it is not available in this version",
        "leasehold.toml:5: store.url = \"mysql://***@db/x\": there is no store of that kind; write an address that \
         begins with sqlite://, postgres://, redis:// or rediss://",
        "leasehold.toml:8: defaults.heartbeat = \"20s\": a heartbeat of 20 s must be under half the lease of 30 s",
        "leasehold.toml:9: defaults.jitter = 5: the number has no unit; write \"5s\" or \"5ms\"",
        "leasehold.toml:10: defaults.overlap = \"maybe\": there is no such choice; write \"skip\" or \"allow\"",
        "leasehold.toml:11: tenant \"Acme\" is not a name: ",
        "leasehold.toml:13: tenants.ok.secrets.key: a secret is not written here; write { env = ",
        "leasehold.toml:14: surprise: there is no such key",
        "environment LEASEHOLD_DEFAULTS__MEMORY: defaults.memory = \"12\": the number has no unit",
        "environment LEASEHOLD___X: the variable names no key",
    ];
    assert_eq!(wrong.len(), expected.len(), "{wrong:#?}");
    for (found, expected) in wrong.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    assert!(!format!("{wrong:?}").contains("hunter2"));
}

#[test]
fn a_heartbeat_that_is_wrong_in_the_defaults_is_told_once() {
    let wrong = Folder::new("[defaults]\nheartbeat = \"20s\"\n[tenants.a]\n[tenants.b]\nlease = \"8s\"\n").wrong(&[]);
    assert_eq!(wrong.len(), 2, "{wrong:#?}");
    assert!(wrong[0].starts_with("leasehold.toml:2: defaults.heartbeat = \"20s\": "), "{wrong:#?}");
    assert!(wrong[1].starts_with("leasehold.toml:4: tenants.b.heartbeat: a heartbeat of 20 s"), "{wrong:#?}");
}

#[test]
fn broken_syntax_does_not_hide_what_is_wrong_elsewhere() {
    let wrong = Folder::new("[host\n").wrong(&[("LEASEHOLD_HOST__NAME", "a b")]);
    assert_eq!(wrong.len(), 2, "{wrong:#?}");
    assert!(wrong[0].starts_with("leasehold.toml:1: this is not TOML: "), "{wrong:#?}");
    assert!(wrong[1].starts_with("environment LEASEHOLD_HOST__NAME: host.name = \"a b\": it is not a host's name"));
}

#[test]
fn a_value_where_a_section_belongs_is_told() {
    let wrong = Folder::new("host = 3\n[tenants]\nacme = 1\n").wrong(&[]);
    assert!(wrong[0].starts_with("leasehold.toml:1: host = 3: expected a table, found a whole number"), "{wrong:#?}");
    assert!(wrong[1].starts_with("leasehold.toml:3: tenants.acme = 1: expected a table"), "{wrong:#?}");
}

#[test]
fn a_file_that_is_too_large_or_not_text_is_refused() {
    let folder = Folder::new(&"#".repeat(2 << 20));
    assert!(folder.wrong(&[])[0].contains("larger than 1MiB"));
    std::fs::write(folder.0.path().join(FILE_NAME), [0xff, 0xfe]).unwrap();
    assert!(folder.wrong(&[])[0].contains("not UTF-8"));
}

#[test]
fn stop_force_may_be_never() {
    let config =
        Folder::new("[defaults]\nstop_timeout = \"12s\"\n[tenants.a]\nstop_force = \"never\"\n").load(&[]).unwrap();
    use leasehold_lease::policy::StopForce;
    assert_eq!(config.defaults().policy.stop_force, StopForce::After(s(10)));
    assert_eq!(config.tenant(&tenant("a")).policy.stop_force, StopForce::Never);
    let wrong = Folder::new("[defaults]\nstop_force = \"soon\"\n").wrong(&[]);
    assert!(wrong[0].contains("or \"never\""), "{wrong:#?}");
}

#[test]
fn fence_and_pending_max_are_read_and_wrong_ones_are_told() {
    use leasehold_lease::policy::Fencing;
    let config = Folder::new("[defaults]\nfence = \"strict\"\n[tenants.a]\nfence = \"held\"\npending_max = 5\n");
    let config = config.load(&[]).unwrap();
    let (defaults, a) = (&config.defaults().policy, &config.tenant(&tenant("a")).policy);
    assert_eq!((defaults.fence, defaults.pending_max), (Fencing::Strict, 1_000));
    assert_eq!((a.fence, a.pending_max), (Fencing::Held, 5));
    let wrong = Folder::new("[defaults]\nfence = \"loose\"\npending_max = 0\n").wrong(&[]);
    assert!(wrong.len() == 2 && wrong[0].contains("write \"held\" or \"strict\""), "{wrong:#?}");
}

#[test]
fn limits_of_memory_time_fuel_and_calls_are_read_and_a_tenant_s_stand_above_the_defaults() {
    let text = "[host]\nmemory = \"8GiB\"\n[defaults]\ncpu = \"10s\"\nhost_calls = 1000\ntenant_memory = \"1GiB\"\n\
                [tenants.acme]\nfuel = 9000000000\ntenant_memory = \"2GiB\"\nhandles_max = 100\nrandom_max = \"1KiB\"\n";
    let config = Folder::new(text).load(&[]).unwrap();
    assert_eq!(config.host.memory, Some(8 << 30));
    let TenantSettings { limits, quota, .. } = config.defaults();
    assert_eq!((limits.cpu, limits.fuel, limits.host_calls), (Some(s(10)), None, 1_000));
    assert_eq!((limits.handles_max, limits.random_max, quota.memory), (10_000, 64 << 10, Some(1 << 30)));
    let TenantSettings { limits, quota, .. } = config.tenant(&tenant("acme"));
    assert_eq!((limits.cpu, limits.fuel, limits.host_calls), (Some(s(10)), Some(9_000_000_000), 1_000));
    assert_eq!((limits.handles_max, limits.random_max, quota.memory), (100, 1 << 10, Some(2 << 30)));
}

#[test]
fn a_variable_with_one_underscore_too_few_is_noticed_and_other_programs_variables_are_not() {
    let names = [
        "LEASEHOLD_DEFAULTS_LEASE",
        "LEASEHOLD_DEFAULTS__LEASE",
        "LEASEHOLD_STORE_URL",
        "LEASEHOLD_STORE_SERVICE_HOST",
        "LEASEHOLD_STORE_PORT_6379_TCP",
        "LEASEHOLD_LOG",
        "LEASEHOLD_TOKEN",
        "HOST_NAME",
    ];
    let env: Vec<_> = names.map(|name| (name.into(), "x".into())).into();
    assert_eq!(super::almost_variables(&env).collect::<Vec<_>>(), ["LEASEHOLD_DEFAULTS_LEASE", "LEASEHOLD_STORE_URL"]);
}
