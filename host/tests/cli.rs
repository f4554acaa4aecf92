//! The command line, as people and scripts meet it: the real binary, its output and its exit codes.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use leasehold_store::sqlite::SqliteStore;
use serde_json::Value;
use tempfile::TempDir;

/// The binary in this folder, with nothing of the environment that could be configuration.
fn leasehold(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command.args(arguments).current_dir(folder).env_clear().stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    leasehold(folder, arguments).output().expect("the binary starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn objects(bytes: &[u8]) -> Vec<Value> {
    let object = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text(bytes).lines().map(object).collect()
}

fn empty() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn write(folder: &Path, path: &str, content: &[u8]) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, content).expect("a file");
}

const BAD_JOBS: &str = r#"
    [[jobs]]
    name = "unknown-key"
    shedule = "@daily"
    [[jobs]]
    name = "impossible"
    schedule = "0 0 31 2 *"
    [[jobs]]
    name = "zone"
    schedule = "@daily"
    timezone = "Europe/Berlyn"
    [[jobs]]
    name = "a/b"
    [[jobs]]
    name = "a}"
    [[jobs]]
    name = "parent"
    payload_file = "../secret.json"
    [[jobs]]
    name = "absolute"
    payload_file = "/etc/passwd"
    [[jobs]]
    name = "linked"
    payload_file = "link.json"
"#;

/// A folder in which everything is wrong.
fn bad_things() -> TempDir {
    let dir = empty();
    let folder = dir.path();
    write(folder, "leasehold.toml", b"[host]\nspeed = 9\n[defaults]\nlease = \"30s\"\nheartbeat = \"20s\"\n");
    write(folder, "plugins/broken.toml", b"[[jobs]\nname = \n");
    write(folder, "plugins/broken.wasm", b"");
    write(folder, "secret.json", b"{\"hunter2\": 1}");
    std::os::unix::fs::symlink(folder.join("secret.json"), folder.join("plugins/link.json")).expect("a link");
    write(folder, "plugins/jobs.toml", BAD_JOBS.as_bytes());
    write(folder, "plugins/jobs.wasm", b"this is text");
    write(folder, "plugins/truncated.wasm", b"\0asm\x0d\0\x01");
    // An empty core module, and a component without exports.
    write(folder, "plugins/module.wasm", b"\0asm\x01\0\0\0");
    write(folder, "plugins/world.wasm", b"\0asm\x0d\0\x01\0");
    dir
}

#[test]
fn next_tells_slots_at_a_change_of_the_clock_in_utc_and_local() {
    let folder = empty();
    let from = "2025-03-08T12:00:00-05:00";
    let arguments = ["next", "--cron", "30 2 * * *", "--tz", "America/New_York", "--from", from, "-n", "2"];
    let json = run(folder.path(), &[&arguments[..], &["--json"]].concat());
    let slots = objects(&json.stdout);
    assert_eq!(json.status.code(), Some(0), "{}", text(&json.stderr));
    assert_eq!(slots.len(), 2);
    assert_eq!(slots[0]["utc"], "2025-03-09T07:00:00.000Z");
    assert_eq!(slots[0]["local"], "2025-03-09T03:00:00.000-04:00");
    assert!(slots[0]["notes"][0].as_str().is_some_and(|note| note.contains("does not exist")), "{}", slots[0]);
    assert_eq!(slots[1]["utc"], "2025-03-10T06:30:00.000Z");
    assert_eq!(slots[1]["notes"], Value::Array(vec![]));

    let lines = text(&run(folder.path(), &arguments).stdout);
    let first = "Sun 2025-03-09 03:00:00 -04:00  America/New_York  2025-03-09T07:00:00.000Z  ";
    assert!(lines.starts_with(first), "{lines}");
}

#[test]
fn the_machines_own_zone_has_no_influence() {
    let folder = empty();
    let arguments = ["next", "--cron", "0 12 * * *", "--from", "2025-01-01T00:00:00Z", "-n", "1"];
    let mut command = leasehold(folder.path(), &arguments);
    let output = command.env("TZ", "America/New_York").output().expect("the binary starts");
    assert_eq!(text(&output.stdout), "Wed 2025-01-01 12:00:00 +00:00  UTC  2025-01-01T12:00:00.000Z\n");
}

#[test]
fn check_says_everything_that_is_wrong_at_once() {
    let folder = bad_things();
    let output = run(folder.path(), &["check"]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{told}{}", text(&output.stderr));
    for (place, what) in [
        ("leasehold.toml:2:", "host.speed"),
        ("leasehold.toml:5:", "20 s"),
        ("plugins/broken.toml:1:", "not TOML"),
        ("plugins/broken.wasm:", "empty"),
        ("plugins/jobs.toml:4:", "shedule"),
        ("plugins/jobs.toml:7:", "never comes"),
        ("plugins/jobs.toml:11:", "Europe/Berlin"),
        ("plugins/jobs.toml:13:", "\"a/b\" is not a name"),
        ("plugins/jobs.toml:15:", "\"a}\" is not a name"),
        ("plugins/jobs.toml:18:", "with .. leads out"),
        ("plugins/jobs.toml:21:", "absolute path"),
        ("plugins/jobs.toml:", "jobs.linked.payload_file"),
        ("plugins/jobs.wasm:", "is text"),
        ("plugins/truncated.wasm:", "truncated"),
        ("plugins/module.wasm:", "core WebAssembly module"),
        ("plugins/world.wasm:", "exports neither leasehold:job/handler"),
    ] {
        let found = told.lines().any(|line| line.contains(place) && line.contains(what));
        assert!(found, "nothing is said about {place} {what}:\n{told}");
    }
    assert!(!told.contains("root:") && !told.contains("hunter2"), "the content of a file is told:\n{told}");

    let json = run(folder.path(), &["check", "--json"]);
    assert_eq!(json.status.code(), Some(2));
    let problems = objects(&json.stdout);
    assert_eq!(problems.len(), told.lines().count());
    assert!(problems.iter().any(|problem| problem["key"] == "host.speed" && problem["line"] == 2), "{problems:?}");
}

#[test]
fn check_says_nothing_when_nothing_is_wrong() {
    let folder = empty();
    fs::create_dir(folder.path().join("plugins")).expect("a folder");
    let output = run(folder.path(), &["check"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()), "{}", text(&output.stderr));
    assert!(!folder.path().join(".leasehold").exists(), "checking leaves nothing behind");
}

#[test]
fn a_wrong_configuration_is_told_whole_and_ends_with_2() {
    let folder = bad_things();
    for arguments in [&["serve"][..], &["runs"], &["jobs"], &["show", "x"], &["logs", "x"], &["next", "x"]] {
        let output = run(folder.path(), arguments);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains("host.speed") && told.contains("heartbeat"), "{arguments:?}: {told}");
        assert!(told.lines().all(|line| line.starts_with("leasehold: ")), "{told}");
    }
}

#[test]
fn a_flag_is_stronger_than_the_environment_and_that_than_the_file() {
    let folder = empty();
    write(folder.path(), "leasehold.toml", b"[host]\nplugins = \"from-file\"\n");
    let told = |arguments: &[&str], env: &[(&str, &str)]| {
        let output = leasehold(folder.path(), arguments).envs(env.iter().copied()).output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(2));
        let told = text(&output.stderr);
        assert!(told.contains("no plugins directory"), "{told}");
        told
    };
    let env = [("LEASEHOLD_HOST__PLUGINS", "from-environment")];
    assert!(told(&["serve"], &[]).contains("from-file"));
    assert!(told(&["serve"], &env).contains("from-environment"));
    assert!(told(&["serve", "--plugins", "from-flag"], &env).contains("from-flag"));
}

#[test]
fn reading_makes_no_store() {
    let folder = empty();
    fs::create_dir(folder.path().join("plugins")).expect("a folder");
    for arguments in [&["runs"][..], &["show", "x"], &["logs", "x"]] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).contains("there is no record yet"), "{}", text(&output.stderr));
    }
    let jobs = run(folder.path(), &["jobs"]);
    assert_eq!((jobs.status.code(), text(&jobs.stdout)), (Some(0), String::new()), "{}", text(&jobs.stderr));
    assert!(!folder.path().join(".leasehold").exists());
}

#[test]
fn jobs_shows_what_is_refused_with_the_reason() {
    let folder = bad_things();
    fs::remove_file(folder.path().join("leasehold.toml")).expect("it is there");
    let output = run(folder.path(), &["jobs", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rows = objects(&output.stdout);
    let impossible = rows.iter().find(|row| row["job"] == "default/impossible").expect("it is told");
    assert_eq!(impossible["state"], "refused");
    assert!(impossible["problems"][0].as_str().is_some_and(|text| text.contains("never comes")), "{impossible}");
}

#[test]
fn inspect_and_exec_say_why_a_file_is_no_plugin_and_end_with_1() {
    let folder = bad_things();
    let inspect = run(folder.path(), &["inspect", "plugins/module.wasm", "--json"]);
    assert_eq!(inspect.status.code(), Some(1));
    let found = &objects(&inspect.stdout)[0];
    assert_eq!((found["plugin"].as_bool(), found["kind"].as_str()), (Some(false), Some("core module")));
    assert!(found["problem"].as_str().is_some_and(|text| text.contains("wasm32-wasip2")), "{found}");

    let exec = run(folder.path(), &["exec", "plugins/jobs.wasm"]);
    assert_eq!((exec.status.code(), text(&exec.stdout)), (Some(1), String::new()));
    let told = text(&exec.stderr);
    assert!(told.starts_with("leasehold: plugins/jobs.wasm cannot be run: the file is text"), "{told}");

    for arguments in [&["inspect", "missing.wasm"][..], &["exec", "missing.wasm"]] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(1));
        let verb = if arguments[0] == "inspect" { "inspected" } else { "run" };
        let expected = format!("leasehold: missing.wasm cannot be {verb}: ");
        assert!(text(&output.stderr).starts_with(&expected), "{}", text(&output.stderr));
    }
    let payload = run(folder.path(), &["exec", "plugins/jobs.wasm", "--payload", "{"]);
    assert_eq!(payload.status.code(), Some(2), "{}", text(&payload.stderr));
}

#[test]
fn a_closed_pipe_ends_quietly_with_the_usual_code() {
    let folder = empty();
    let mut child = leasehold(folder.path(), &["next", "--every", "1s", "-n", "100000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_exact(&mut [0; 10]).expect("the first slot");
    drop(stdout);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn results_in_a_pipe_have_no_colour_and_no_titles() {
    let folder = empty();
    let output = text(&run(folder.path(), &["next", "--every", "90s", "-n", "2"]).stdout);
    assert!(!output.contains('\u{1b}') && !output.contains("LOCAL"), "{output:?}");
    assert_eq!(output.lines().count(), 2);
}

/// A folder with an empty store in a place of its own, and the flag that names it.
fn with_store() -> (TempDir, &'static str) {
    let folder = empty();
    fs::create_dir(folder.path().join("plugins")).expect("a folder");
    drop(SqliteStore::open(&folder.path().join("own/runs.db")).expect("a store"));
    (folder, "sqlite://own/runs.db")
}

#[test]
fn what_was_served_with_flags_can_be_looked_at_with_the_same_flags() {
    let (folder, store) = with_store();
    for command in ["runs", "jobs"] {
        let output = run(folder.path(), &[command, "--store", store, "--plugins", "plugins"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    assert!(text(&run(folder.path(), &["runs"]).stderr).contains("there is no record yet"));
    let check = run(folder.path(), &["check", "--store", "mysql://here", "--plugins", "nowhere"]);
    let told = text(&check.stdout);
    assert_eq!(check.status.code(), Some(2), "{told}");
    assert!(told.contains("--store: ") && told.contains("nowhere"), "{told}");
}

#[test]
fn a_command_without_a_configuration_refuses_its_flags() {
    let folder = bad_things();
    for (command, flag) in [("exec", "--config"), ("exec", "--store"), ("exec", "--plugins")] {
        let output = run(folder.path(), &[command, "plugins/module.wasm", flag, "x"]);
        assert_eq!(output.status.code(), Some(2));
        let told = text(&output.stderr);
        assert!(told.starts_with(&format!("leasehold: {flag} means nothing to `leasehold {command}`")), "{told}");
    }
}

#[test]
fn a_job_nobody_knows_and_a_run_nobody_can_name_are_told_as_such() {
    let (folder, store) = with_store();
    for arguments in [&["show", "nope"][..], &["logs", "nope", "2026-11-29T17:09:00Z"], &["runs", "--job", "nope"]] {
        let output = run(folder.path(), &[arguments, &["--store", store]].concat());
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        let expected = "leasehold: there is no job default/nope in the store: hosts tell it of the jobs that they offer, all of \
                        them every 30 s; `leasehold jobs` lists them, and what is refused\n";
        assert_eq!(told, expected, "{arguments:?}");
    }
    let output = run(folder.path(), &["show", "nope", "last week"]);
    let told = text(&output.stderr);
    assert!(output.status.code() == Some(2) && told.contains("neither a slot") && told.contains("last week"), "{told}");
}

#[test]
fn jobs_tells_what_it_can_when_store_or_directory_cannot_be_read() {
    let folder = bad_things();
    fs::remove_file(folder.path().join("leasehold.toml")).expect("it is there");
    write(folder.path(), ".leasehold/leasehold.db", "this is no database ".repeat(100).as_bytes());
    let output = run(folder.path(), &["jobs"]);
    let (told, why) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{why}");
    assert!(told.contains("default/impossible") && why.contains("not an SQLite database"), "{told}{why}");

    let folder = empty();
    // As for `serve` and `check`: the configuration names a directory that is not there.
    assert_eq!(run(folder.path(), &["plugins"]).status.code(), Some(2));
    let output = run(folder.path(), &["jobs"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("the plugin directory cannot be read"), "{}", text(&output.stdout));
}

#[test]
fn a_configuration_that_cannot_be_read_names_no_directory_to_check() {
    let folder = bad_things();
    let made = Command::new("mkfifo").arg(folder.path().join("pipe")).status().expect("mkfifo is there");
    assert!(made.success());
    for (file, why) in [("missing.toml", "cannot be read"), ("pipe", "not a regular file"), ("secret.json", "not TOML")]
    {
        let output = run(folder.path(), &["check", "--config", file]);
        let told = text(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(why) && told.lines().all(|line| line.starts_with(file)), "{told}");
    }
}

#[test]
fn a_time_beyond_the_calendar_is_told_as_such() {
    let folder = empty();
    for (from, code, why) in
        [("9999-12-31T00:00:00Z", 2, "beyond the calendar"), ("9999-12-30T21:59:00Z", 1, "there is no slot later than")]
    {
        let output = run(folder.path(), &["next", "--cron", "@daily", "--from", from]);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(code) && told.contains(why), "{told}");
    }
}

#[test]
fn who_waits_for_an_object_gets_one_also_when_the_command_fails() {
    let (folder, store) = with_store();
    write(folder.path(), "bad.wasm", b"this is text");
    for (arguments, code, why) in [
        (&["exec", "bad.wasm", "--json"][..], 1, "bad.wasm cannot be run: the file is text"),
        (&["exec", "bad.wasm", "--json", "--payload", "{"], 2, "the payload is not JSON"),
        (&["inspect", "missing.wasm", "--json"], 1, "missing.wasm cannot be inspected"),
        (&["show", "nope", "--json", "--store", store], 1, "there is no job default/nope in the store"),
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let told = objects(&output.stdout);
        assert_eq!(told.len(), 1, "{arguments:?}: {told:?}");
        assert!(told[0]["error"]["message"].as_str().is_some_and(|text| text.starts_with(why)), "{told:?}");
        assert!(text(&output.stderr).starts_with(&format!("leasehold: {why}")), "{}", text(&output.stderr));
    }
}

#[test]
fn a_variable_that_is_no_setting_for_want_of_an_underscore_is_told() {
    let folder = empty();
    fs::create_dir(folder.path().join("plugins")).expect("a folder");
    let mut command = leasehold(folder.path(), &["check"]);
    let output = command.env("LEASEHOLD_DEFAULTS_LEASE", "10s").output().expect("the binary starts");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()));
    let told = text(&output.stderr);
    assert!(told.contains("LEASEHOLD_DEFAULTS_LEASE is no setting: write two underscores"), "{told}");
}

#[test]
fn the_log_s_level_is_one_of_its_words() {
    let folder = empty();
    let told = |level: &str| {
        let mut command = leasehold(folder.path(), &["next", "--every", "1m", "-n", "1"]);
        text(&command.env("LEASEHOLD_LOG", level).output().expect("the binary starts").stderr)
    };
    assert!(told("foo").contains("LEASEHOLD_LOG is not used: write one of off, error"), "{}", told("foo"));
    assert_eq!(told("info"), "");
}
