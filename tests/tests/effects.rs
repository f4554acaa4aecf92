//! What a handler does to the world outside: kept across attempts, within its tenant, at the tenant's pace, and never after
//! its lease.

use leasehold_test_servers::{Redis, RedisKind, RedisOptions, or_skip};
use leasehold_tests::{Effect, HostProcess, SHORT_LEASE, Witness, Workplace, soon_then_rarely};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn a_checkpoint_and_the_key_value_space_survive_a_takeover() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("unruly", "job.wasm");
    w.write("plugins/job.toml", soon_then_rarely("job", "payload = { do = \"count\", ms = 60000 }"));
    let mut host = w.serve();
    let claimed = host.wait_for("claimed", "default/job");
    logged(&w, "job", "waiting");
    host.kill();
    let mut again = w.serve();
    again.wait_for("takeover", "default/job");
    again.wait_for("success", "default/job");
    let run = w.show("job", text(&claimed["run"]));
    assert_eq!(said(&run), "state 2 counter 2");
}

#[test]
fn a_tenant_reads_its_own_keys_only_and_stores_what_it_may() {
    let w = Workplace::new(&format!("{SHORT_LEASE}timeout = \"20s\"\n[tenants.a]\nstored_max = \"64KiB\"\n"));
    for tenant in ["a", "b"] {
        w.install("unruly", &format!("{tenant}/job.wasm"));
    }
    let flood = "{ do = \"kv-flood\", size = 10000 }";
    w.write(
        "plugins/a/job.toml",
        once("flood", flood, "") + &once("get", "{ do = \"kv-get\", key = \"flood/0\" }", ""),
    );
    w.write("plugins/b/job.toml", once("get", "{ do = \"kv-get\", key = \"flood/0\" }", ""));
    let mut host = w.serve();
    let flooded = host.wait_for("success", "a/flood");
    let run = w.show("a/flood", text(&flooded["run"]));
    let (count, why) =
        said(&run).split_once(" written: ").map(|(n, why)| (n.to_owned(), why.to_owned())).expect("a count");
    assert_eq!(why, "the tenant would keep more than the 65536 bytes it may");
    // Six fit; outputs and logs of other runs count as well.
    assert!(["4", "5", "6"].contains(&count.as_str()), "{count}");
    // Runs that began before the flood may have found nothing.
    let after = |host: &mut HostProcess, job: &str| {
        let later = host.wait_until("a later run", |event| {
            event["event"] == "success" && event["job"] == job && text(&event["run"]) > text(&flooded["at"])
        });
        said(&w.show(job, text(&later["run"])))
    };
    assert_eq!(after(&mut host, "a/get").len(), 10_000);
    assert_eq!(after(&mut host, "b/get"), "none");
}

#[test]
fn a_flood_of_writes_is_slowed_and_no_neighbour_misses_a_heartbeat() {
    let w = Workplace::new(&format!("{SHORT_LEASE}timeout = \"8s\"\n"));
    w.install("unruly", "a/job.wasm");
    let flood = |name| once(name, "{ do = \"kv-flood\", size = 10 }", "");
    w.write("plugins/a/job.toml", ["one", "two", "three", "four"].map(flood).concat());
    w.install("unruly", "b/job.wasm");
    w.write("plugins/b/job.toml", once("wait", "{ do = \"wait\", ms = 7000 }", ""));
    let mut host = w.serve();
    let mut written = 0;
    for name in ["one", "two", "three", "four"] {
        let ended = host.wait_for("success", &format!("a/{name}"));
        let run = w.show(&format!("a/{name}"), text(&ended["run"]));
        let count = said(&run);
        written += count.split(' ').next().and_then(|n| n.parse::<u32>().ok()).expect("a count");
    }
    host.wait_for("success", "b/wait");
    // All four share 200 calls a second; they ran within some nine seconds of each other, the burst comes on top.
    assert!((200..=2_400).contains(&written), "{written} calls of the store");
    let missed = |event: &&Value| matches!(event["event"].as_str(), Some("uncertain" | "lost" | "takeover"));
    assert_eq!(host.events().iter().filter(missed).count(), 0);
}

#[test]
fn a_frozen_host_s_effect_is_refused_after_its_run_was_taken_over() {
    let w = Workplace::new(SHORT_LEASE);
    let server = Witness::start();
    w.write("leasehold.toml", format!("{SHORT_LEASE}[tenants.default.http]\nallow = [\"{}\"]\n", server.origin()));
    w.install("unruly", "job.wasm");
    let wish = format!("{{ do = \"send\", url = \"{}/\", times = 1000, ms = 20 }}", server.origin());
    let rest = format!("payload = {wish}\nhttp = [\"{}\"]\ntimeout = \"1m\"", server.origin());
    w.write("plugins/job.toml", soon_then_rarely("job", &rest));
    let mut first = w.serve();
    let claimed = first.wait_for("claimed", "default/job");
    let of = |heard: &[Effect], n| heard.iter().any(|effect| effect.attempt == n);
    server.until(|heard| of(heard, 1));
    first.signal(Signal::STOP);
    let mut second = w.serve();
    second.wait_until("a takeover", |event| event["event"] == "takeover" && event["run"] == claimed["run"]);
    server.until(|heard| of(heard, 2));
    let before = server.heard().len();
    first.signal(Signal::CONT);
    first.wait_for("lost", "default/job");
    // The second attempt goes on sending; of the first, nothing comes any more.
    server.until(|heard| heard.len() > before + 50);
    let heard = server.heard();
    let taken_over = heard.iter().position(|effect| effect.attempt == 2).expect("the second attempt sends");
    assert!(heard[taken_over..].iter().all(|effect| effect.attempt == 2), "{heard:?}");
}

/// S13: a write whose answer was lost is sent again with its number, and is not done twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_go_on_where_they_were_when_the_store_dies_and_comes_back() {
    let options = RedisOptions { persistent: true, ..RedisOptions::default() };
    let Some(mut server) = or_skip(Redis::start_with(RedisKind::Redis, options).await) else { return };
    let defaults = "lease = \"30s\"\nheartbeat = \"500ms\"\ntimeout = \"2m\"\nmin_interval = \"1s\"";
    let w = Workplace::new(&format!("[store]\nurl = \"{}\"\n[defaults]\n{defaults}\n", server.url()));
    w.install("unruly", "job.wasm");
    w.write("plugins/job.toml", soon_then_rarely("job", "payload = { do = \"tally\", times = 600 }"));
    let mut host = w.serve();
    let claimed = host.wait_for("claimed", "default/job");
    for n in 0..3 {
        server.kill().await.expect("it is killed");
        nth(&mut host, n, "store-down");
        server.restart().await.expect("it is back");
        nth(&mut host, n, "store-up");
    }
    host.wait_until("the end", |event| event["event"] == "success" && event["run"] == claimed["run"]);
    assert_eq!(said(&w.show("job", text(&claimed["run"]))), "600 counted");
}

#[test]
fn a_secret_is_shown_nowhere_and_a_setting_is_read() {
    let w = Workplace::new("");
    w.write(
        "leasehold.toml",
        format!(
            "{SHORT_LEASE}[tenants.default.config]\nregion = \"eu\"\n[tenants.default.secrets]\n\
             TOKEN = {{ file = \"token\", origin = \"https://api.example.com\", header = \"authorization\" }}\n"
        ),
    );
    w.install("unruly", "job.wasm");
    let asks = "config = [\"region\", \"TOKEN\"]";
    let jobs = once("region", "{ do = \"config\", key = \"region\" }", asks)
        + &once("secret", "{ do = \"config\", key = \"TOKEN\" }", asks)
        + &once("unasked", "{ do = \"config\", key = \"region\" }", "");
    w.write("plugins/job.toml", jobs);
    let missing = w.leasehold(&["serve"]);
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.stderr.contains("tenants.default.secrets.TOKEN: the file"), "{missing:?}");
    w.write("token", "hunter2\n");
    assert_eq!(w.leasehold(&["check"]).stdout, "");

    let mut host = w.serve();
    let mut output = |job: &str| {
        let ended = host.wait_for("success", &format!("default/{job}"));
        w.show(job, text(&ended["run"]))["outcome"]["output"]["said"].clone()
    };
    assert_eq!(output("region"), "eu");
    assert_eq!(output("unasked"), Value::Null);
    let placeholder = output("secret");
    assert!(text(&placeholder).starts_with("leasehold-secret-"), "{placeholder}");
    host.terminate();
    let (status, stderr) = host.ended();
    assert!(status.success(), "{stderr}");
    let all = [
        stderr,
        format!("{:?}", w.leasehold(&["show", "secret", "latest"])),
        format!("{:?}", w.leasehold(&["logs", "secret"])),
        format!("{:?}", w.leasehold(&["jobs", "--json"])),
        format!("{:?}", w.leasehold(&["inspect", "plugins/job.wasm"])),
    ];
    assert!(all.iter().all(|text| !text.contains("hunter2")), "{all:?}");
}

#[test]
fn what_a_job_asks_for_in_vain_is_told_and_denied() {
    let w = Workplace::new(&format!("{SHORT_LEASE}[tenants.default.http]\nallow = [\"https://granted.example\"]\n"));
    w.install("unruly", "job.wasm");
    let asks = "http = [\"https://granted.example\", \"http://127.0.0.1:1\"]\nconfig = [\"nothing\"]";
    w.write(
        "plugins/job.toml",
        once("job", "{ do = \"send\", url = \"http://127.0.0.1:1/\", times = 1, ms = 0 }", asks),
    );
    let checked = w.leasehold(&["check"]);
    assert_eq!(checked.code, Some(2), "{checked:?}");
    assert_eq!(checked.stdout.lines().count(), 2, "{checked:?}");
    assert!(checked.stdout.contains("http://127.0.0.1:1 is not granted to the tenant"), "{checked:?}");
    let inspected = w.leasehold(&["inspect", "plugins/job.wasm"]);
    assert!(inspected.stdout.contains("https://granted.example"), "{inspected:?}");
    assert!(inspected.stdout.contains("not granted"), "{inspected:?}");
    let mut host = w.serve();
    let ended = host.wait_for("success", "default/job");
    let denied = said(&w.show("job", text(&ended["run"])));
    assert!(denied.starts_with("denied: http://127.0.0.1:1 is not granted"), "{denied}");
}

/// Waits for the n-th event of this kind, from 0, or for the end of what the host does.
fn nth(host: &mut HostProcess, n: usize, kind: &str) {
    let seen = std::cell::Cell::new(0);
    host.wait_until(kind, |event| {
        seen.set(seen.get() + usize::from(event["event"] == kind));
        seen.get() > n || event["event"] == "success"
    });
}

/// A job that is due every four seconds; the first run is what a test looks at.
fn once(name: &str, wish: &str, rest: &str) -> String {
    format!("[[jobs]]\nname = \"{name}\"\nevery = \"4s\"\npayload = {wish}\n{rest}\n")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// What the handler's output says.
fn said(run: &Value) -> String {
    text(&run["outcome"]["output"]["said"]).to_owned()
}

/// Waits until a run of the job has logged this.
fn logged(w: &Workplace, job: &str, words: &str) {
    // Each look starts a process: these are minutes.
    let found = (0..1_000).any(|_| w.leasehold(&["logs", job]).stdout.contains(words));
    assert!(found, "{job} never logged {words:?}");
}
