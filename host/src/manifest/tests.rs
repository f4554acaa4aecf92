//! What a manifest may say, and each refusal with its reason.

use std::time::Duration;

use leasehold_lease::policy::Overlap;

use super::*;
use crate::config::Quota;

fn read_with(text: &str, tenant: &TenantSettings) -> Result<Vec<Result<JobDraft, RefusedJob>>, String> {
    read(Path::new("acme/x.toml"), text, tenant, &Zones::bundled()).map_err(|problems| problems.to_string())
}

fn read_all(text: &str) -> Vec<Result<JobDraft, RefusedJob>> {
    read_with(text, &TenantSettings::default()).unwrap()
}

/// The one job of a manifest, which must be taken.
fn job(body: &str) -> JobDraft {
    let mut jobs = read_all(&format!("[[jobs]]\nname = \"j\"\n{body}\n"));
    jobs.remove(0).unwrap_or_else(|refused| panic!("{}", refused.problems))
}

/// Why the one job of a manifest is refused.
fn refused(body: &str) -> String {
    let mut jobs = read_all(&format!("[[jobs]]\nname = \"j\"\n{body}\n"));
    let refused = jobs.remove(0).err().unwrap_or_else(|| panic!("taken: {body}"));
    assert_eq!(refused.name.map(|name| name.to_string()).as_deref(), Some("j"));
    refused.problems.to_string()
}

#[test]
fn a_job_has_a_schedule_an_interval_or_neither() {
    let cron = job("schedule = \"0 2 * * *\"\ntimezone = \"Europe/Berlin\"");
    assert_eq!(cron.schedule.unwrap().to_string(), "0 2 * * * (Europe/Berlin)");
    assert_eq!(job("every = \"90s\"").schedule.unwrap().least_gap(), Duration::from_secs(90));
    let demand = job("");
    assert!(demand.schedule.is_none());
    assert_eq!(demand.payload, Payload::Inline(vec![]));
    assert!(refused("schedule = \"@daily\"\nevery = \"1h\"").contains("either a schedule or an interval"));
    assert!(refused("every = \"1h\"\ntimezone = \"UTC\"").contains("means nothing without a schedule"));
}

#[test]
fn a_job_sets_its_own_policy_and_lowers_its_limits() {
    let job = job("overlap = \"allow\"\nmax_attempts = 1\ncatch_up = \"0s\"\nmax_late = \"5s\"\nhistory_size = 7\n\
                   timeout = \"2s\"\nmemory = \"1MiB\"\npayload = { kind = \"daily\" }");
    assert_eq!((job.policy.overlap, job.policy.max_attempts, job.policy.history_size), (Overlap::Allow, 1, 7));
    assert_eq!((job.policy.catch_up, job.policy.max_late), (Duration::ZERO, Duration::from_secs(5)));
    assert_eq!(job.policy.lease, Duration::from_secs(30));
    assert_eq!((job.limits.timeout, job.limits.memory), (Duration::from_secs(2), 1 << 20));
    assert_eq!(job.limits.output_max, 1 << 20);
    assert_eq!(job.payload, Payload::Inline(b"{\"kind\":\"daily\"}".to_vec()));
}

#[test]
fn limits_go_only_downwards() {
    assert!(
        refused("timeout = \"10m\"")
            .contains("acme/x.toml:3: jobs.j.timeout = \"10m\": it is above the tenant's limit of 5m")
    );
    assert!(refused("memory = \"1GiB\"").contains("above the tenant's limit of 128MiB"));
    assert!(refused("history_size = 100000").contains("at most 1000"));
    assert!(refused("max_attempts = 21").contains("at most 20"));
    assert!(refused("catch_up = \"8days\"").contains("at most 7days"));
}

#[test]
fn operators_keys_are_refused_as_such() {
    for key in [
        "lease = \"1m\"",
        "heartbeat = \"1s\"",
        "jitter = \"0s\"",
        "stop_timeout = \"1s\"",
        "on_uncertain = \"stop\"",
        "fence = \"strict\"",
        "stop_force = \"never\"",
        "concurrency = 9",
        "min_interval = \"1s\"",
    ] {
        assert!(refused(key).contains("only the operator sets this key"), "{key}");
    }
    assert!(refused("shedule = \"@daily\"").contains("there is no such key; did you mean \"schedule\"?"));
}

/// A manifest may be a link to any file of the tenant's, or one that a mistake has put there: what it holds is nobody's
/// business. Only the keys and values that are named as wrong in a well-formed manifest are repeated.
#[test]
fn what_is_not_toml_is_refused_without_a_word_of_its_content() {
    let secret = "hunter2";
    let shapes = [
        "§",
        "§ = ",
        "= §",
        "a = §",
        "a = \"§",
        "a = '§",
        "a = \"\"\"§",
        "a = [§",
        "a = [\"§\"",
        "[§",
        "[[§]",
        "[a]\n§ x = 1",
        "a.§. = 1",
        "a = { § }",
        "a = { b = §",
        "a = \"\\§\"",
        "a = \"\\u§\"",
        "a = 0x§",
        "a = 1_§",
        "a = 2026-11-§",
        "a = 1\na.§ = 2",
        "§: x\n",
        "-----BEGIN §-----\nabc\n",
        "root:x:0:0:§:/root:/bin/sh",
        "\0§",
        "a = \"\u{1b}§\"",
        "§ = 1\n§ = 2",
        "[x.§]\n[x.§]",
        "a = true§",
        "a = inf§",
        "a = §# ]",
    ];
    for shape in shapes {
        let text = shape.replace('§', secret);
        let told = read_with(&text, &TenantSettings::default()).expect_err(&text);
        assert!(told.contains("this is not TOML") && !told.contains(secret), "{text:?}: {told}");
    }
}

#[test]
fn a_folder_without_a_section_has_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[defaults]\ntimeout = \"7s\"\n[tenants.acme]\ntimeout = \"1h\"\njobs_max = 5\n";
    std::fs::write(folder.path().join("leasehold.toml"), text).unwrap();
    let sources = crate::config::Sources { folder: folder.path().into(), ..Default::default() };
    let config = crate::config::Config::load(&sources).unwrap();
    let tenant = |name: &str| config.tenant(&name.parse().unwrap());
    assert_eq!(tenant("acme").limits.timeout, Duration::from_secs(3_600));
    for name in ["other", "acme.b", "acm", "default"] {
        assert_eq!(tenant(name), config.defaults(), "{name}");
        assert_eq!((tenant(name).limits.timeout, tenant(name).quota.jobs_max), (Duration::from_secs(7), 100));
    }
}

#[test]
fn a_job_asks_for_origins_and_settings() {
    let job = job("http = [\"https://API.example.com:443\", \"http://127.1:81\"]\nconfig = [\"TOKEN\", \"region\"]");
    let origins: Vec<String> = job.wishes.http.iter().map(|wish| wish.what.to_string()).collect();
    assert_eq!(origins, ["https://api.example.com", "http://127.0.0.1:81"]);
    assert_eq!(job.wishes.config.iter().map(|wish| wish.what.as_str()).collect::<Vec<_>>(), ["TOKEN", "region"]);
    for (body, reason) in [
        ("http = \"https://x\"", "expected a list of origins, found text"),
        ("http = [\"https://x/path\"]", "http[1]: it is not an origin: it has a path"),
        ("http = [\"https://x\", \"https://X:443\"]", "http[2]: https://x is listed twice"),
        ("config = [\"a b\"]", "jobs.j.config[1]: it is no key"),
        ("config = [3]", "expected text in quotes"),
    ] {
        assert!(refused(body).contains(reason), "{body}: {}", refused(body));
    }
}

#[test]
fn schedules_and_zones_are_checked_when_they_are_read() {
    for bad in ["* * * *", "60 * * * *", "0 0 31 2 *", "@reboot"] {
        let text = refused(&format!("schedule = \"{bad}\""));
        assert!(text.starts_with(&format!("acme/x.toml:3: jobs.j.schedule = \"{bad}\": ")), "{text}");
    }
    let text = refused("schedule = \"61 * * * *\"\ntimezone = \"Mars/Olympus\"");
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("acme/x.toml:4: jobs.j.timezone = \"Mars/Olympus\""), "{text}");
}

#[test]
fn slots_keep_their_distance_unless_the_operator_says_otherwise() {
    assert!(refused("every = \"9s\"").contains("10s must lie between two slots"));
    assert!(refused("schedule = \"*/5 * * * * *\"").contains("it is due every 5s"));
    let quota = Quota { min_interval: Duration::from_millis(1), ..Quota::default() };
    let mut tenant = TenantSettings { quota, ..TenantSettings::default() };
    let text = "[[jobs]]\nname = \"j\"\nevery = \"1s\"\n";
    assert!(read_with(text, &tenant).unwrap()[0].is_ok());
    tenant.policy.jitter = Duration::from_secs(1);
    let jobs = read_with(text, &tenant).unwrap();
    let text = jobs[0].as_ref().unwrap_err().problems.to_string();
    assert!(text.contains("acme/x.toml:3: jobs.j.every = \"1s\": the policy cannot be kept: jitter: 1 s"), "{text}");
}

#[test]
fn max_late_must_leave_room_for_the_operators_jitter() {
    let text = refused("max_late = \"200ms\"");
    assert!(text.contains("acme/x.toml:3: jobs.j.max_late = \"200ms\": ") && text.contains("jitter"), "{text}");
}

#[test]
fn a_bad_job_does_not_stop_the_others() {
    let jobs = read_all(
        "[[jobs]]\nname = \"a/b\"\n[[jobs]]\nname = \"ok\"\n[[jobs]]\n[[jobs]]\nname = \"x}\"\nevery = 5\n[[jobs]]\nname = \"ok\"\n",
    );
    let told: Vec<_> = jobs.iter().map(|job| job.as_ref().map_err(|e| e.problems.to_string()).map(|_| ())).collect();
    assert!(told[1].is_ok());
    assert!(
        told[0].as_ref().unwrap_err().starts_with("acme/x.toml:2: jobs[1].name: job \"a/b\" is not a name"),
        "{told:?}"
    );
    assert!(told[2].as_ref().unwrap_err().starts_with("acme/x.toml:5: jobs[3].name: the job has no name"), "{told:?}");
    let both = told[3].as_ref().unwrap_err();
    assert!(
        both.contains("\"x}\" is not a name") && both.contains("jobs[4].every = 5: the number has no unit"),
        "{both}"
    );
    assert!(told[4].as_ref().unwrap_err().contains("the job ok is defined twice in this file"), "{told:?}");
}

#[test]
fn a_payload_file_stays_in_the_folder() {
    assert!(
        matches!(job("payload_file = \"logs/access.log\"").payload, Payload::File { path, .. } if path == "logs/access.log")
    );
    for (path, reason) in [
        ("/etc/passwd", "an absolute path"),
        ("../b/secret", "a path with .."),
        ("a/../../b", "a path with .."),
        ("", "not a path"),
    ] {
        assert!(refused(&format!("payload_file = \"{path}\"")).contains(reason), "{path}");
    }
    assert!(refused("payload_file = \"a\"\npayload = 1").contains("one payload"));
}

#[test]
fn an_inline_payload_is_bounded() {
    assert!(refused("payload_max = \"8B\"\npayload = \"0123456789\"").contains("larger than payload_max (8B)"));
}

#[test]
fn a_manifest_that_is_wrong_as_a_whole_is_refused_as_a_whole() {
    let whole = |text| read_with(text, &TenantSettings::default()).unwrap_err();
    assert!(whole("[[jobs]\n").contains("acme/x.toml:1: this is not TOML"));
    assert!(whole("").contains("the manifest has no jobs"));
    assert!(whole("jobs = 3").contains("not a list of jobs"));
    assert!(whole("[jobs]\nname = \"a\"").contains("write [[jobs]]"));
    assert!(whole("[[job]]\nname = \"a\"").contains("job: there is no such key; did you mean \"jobs\"?"));
    assert!(whole(&"[[jobs]]\n".repeat(101)).contains("has 101 jobs, and the tenant may have 100"));
    assert!(read_all("jobs = [3]")[0].as_ref().unwrap_err().problems.to_string().contains("a job is a table"));
}
