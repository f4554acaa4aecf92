//! Three hosts on each kind of store, while one of them is frozen, killed or stopped. A witness outside keeps which attempt did
//! what to it, and with which fence.

use std::time::Duration;

use leasehold::clock;
use leasehold_test_servers::{Postgres, Redis, RedisKind, RedisOptions, Watchdog, or_skip};
use leasehold_tests::{Effect, HostProcess, PATIENCE, Witness, Workplace, millis, soon_then_rarely};
use rustix::process::Signal;
use serde_json::Value;

const LEASE: Duration = Duration::from_secs(3);
const HEARTBEAT: Duration = Duration::from_millis(500);

/// Beyond what is promised: for the handler, which does not listen and is stopped by force, and for a machine that does other
/// things.
const DELTA: Duration = Duration::from_millis(300);

/// Three hosts with a job that goes on telling the witness, every 20 ms.
struct Cluster {
    w: Workplace,
    witness: Witness,
    hosts: Vec<(String, HostProcess)>,
    /// The run that is told of.
    run: String,
}

impl Cluster {
    fn start(url: Option<&str>, more: &str) -> Cluster {
        let witness = Witness::start();
        let origin = witness.origin();
        let store = url.map_or(String::new(), |url| format!("[store]\nurl = \"{url}\"\nnamespace = \"cluster\"\n"));
        let w = Workplace::new(&format!(
            "{store}[defaults]\nlease = \"3s\"\nheartbeat = \"500ms\"\nmin_interval = \"1s\"\nstop_force = \"50ms\"\n{more}\
             [tenants.default.http]\nallow = [\"{origin}\"]\n"
        ));
        w.install("unruly", "job.wasm");
        let wish = format!("{{ do = \"send\", url = \"{origin}/\", times = 100000, ms = 20 }}");
        w.write("plugins/job.toml", soon_then_rarely("job", &format!("payload = {wish}\nhttp = [\"{origin}\"]")));
        let start = |name: &str| (name.to_owned(), w.serve_with("LEASEHOLD_HOST__NAME", name));
        let mut hosts: Vec<_> = ["one", "two", "three"].map(start).into();
        let run = text(&any(&mut hosts, |event| event["event"] == "claimed")["run"]).to_owned();
        witness.until(|heard| sent(heard, 1) > 0);
        // L1, L2: hosts that could have seen the run for two heartbeats back it up.
        for (name, host) in &mut hosts {
            let part = |event: &Value| ["claimed", "backup"].iter().any(|kind| event["event"] == *kind);
            host.wait_until(&format!("{name}'s part"), |event| part(event) && event["run"] == run.as_str());
        }
        Cluster { w, witness, hosts, run }
    }

    /// Takes out the host that executes the run.
    fn runner(&mut self, attempt: u32) -> (String, HostProcess) {
        let claimed = |event: &Value| event["event"] == "claimed" && event["attempt"] == attempt;
        let name =
            text(&any(&mut self.hosts, |event| claimed(event) && event["run"] == self.run.as_str())["host"]).to_owned();
        let at = self.hosts.iter().position(|(host, _)| *host == name).expect("it is one of them");
        self.hosts.remove(at)
    }

    /// When another host had taken the run over as this attempt, ms since the epoch.
    fn taken_over(&mut self, attempt: u32) -> i64 {
        let taken = |event: &Value| event["event"] == "takeover" && event["attempt"] == attempt;
        let event = any(&mut self.hosts, |event| taken(event) && event["run"] == self.run.as_str());
        self.witness.until(|heard| sent(heard, attempt) > 0);
        millis(text(&event["at"]))
    }

    /// What an older attempt does, it does before a newer one begins; fences grow from one to the next.
    fn effects_are_in_order(&self) {
        let heard = self.witness.heard();
        assert!(heard.is_sorted_by_key(|effect| effect.attempt), "{:?}", changes(&heard));
        let changes = changes(&heard);
        assert!(changes.is_sorted_by(|a, b| a.attempt < b.attempt && a.fence < b.fence), "{changes:?}");
        let run = self.w.show("job", &self.run);
        let fences: Vec<u64> = run["attempts"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|attempt| attempt["fence"].as_u64())
            .collect();
        assert!(changes.iter().all(|effect| fences.contains(&effect.fence)), "{changes:?} {run}");
    }
}

/// The first effect of each attempt, and of each return to one.
fn changes(heard: &[Effect]) -> Vec<Effect> {
    let mut changes: Vec<Effect> = heard.to_vec();
    changes.dedup();
    changes
}

fn sent(heard: &[Effect], attempt: u32) -> usize {
    heard.iter().filter(|effect| effect.attempt == attempt).count()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// Waits until one of the hosts tells of this.
fn any(hosts: &mut [(String, HostProcess)], fits: impl Fn(&Value) -> bool) -> Value {
    let end = clock::mono() + PATIENCE;
    loop {
        if let Some(event) =
            hosts.iter_mut().find_map(|(_, host)| host.events().iter().find(|event| fits(event)).cloned())
        {
            return event;
        }
        if clock::mono() >= end {
            let told: Vec<_> = hosts.iter_mut().flat_map(|(_, host)| host.events().to_vec()).collect();
            panic!("no host tells of it: {told:#?}");
        }
        hosts.iter_mut().for_each(|(_, host)| host.listen());
    }
}

/// The runner sleeps for two leases and more. Awake, it finds its run taken over: of what it still wanted to do, nothing comes.
fn a_frozen_runner_does_nothing_more(url: Option<&str>, more: &str) {
    let mut cluster = Cluster::start(url, more);
    let (_, mut frozen) = cluster.runner(1);
    frozen.signal(Signal::STOP);
    let began = clock::mono();
    cluster.taken_over(2);
    while clock::mono().since(began) < LEASE * 2 {
        std::thread::yield_now();
    }
    let before = sent(&cluster.witness.heard(), 1);
    frozen.signal(Signal::CONT);
    frozen.wait_for("lost", "default/job");
    let heard = cluster.witness.heard().len();
    cluster.witness.until(|all| all.len() > heard + 50);
    assert_eq!(sent(&cluster.witness.heard(), 1), before, "it acted after its lease");
    cluster.effects_are_in_order();
}

/// The runner is killed, and the next one stopped: each time another goes on within the bound.
fn a_run_goes_on_when_its_host_is_killed_and_at_once_when_it_is_stopped(url: Option<&str>) {
    let mut cluster = Cluster::start(url, "");
    let watchdog = Watchdog::start();
    let (_, killed) = cluster.runner(1);
    let at = clock::wall().0;
    killed.kill();
    let takeover = cluster.taken_over(2) - at;

    let (_, stopped) = cluster.runner(2);
    // L2: the other host could have seen the run for two heartbeats. It sends every 20 ms at the most.
    let two_heartbeats = usize::try_from(HEARTBEAT.as_millis() * 2 / 20).expect("small");
    cluster.witness.until(|heard| sent(heard, 2) > two_heartbeats);
    let at = clock::wall().0;
    stopped.terminate();
    let hand_over = cluster.taken_over(3) - at;
    let (status, stderr) = stopped.ended();
    assert!(status.success(), "{stderr}");
    let stall = watchdog.latest();
    eprintln!(
        "takeover {takeover} ms after SIGKILL, {hand_over} ms after SIGTERM; this process waited {stall:?} at most"
    );

    cluster.effects_are_in_order();
    let run = cluster.w.show("job", &cluster.run);
    assert_eq!((&run["starts"], &run["hand_overs"]), (&3.into(), &1.into()), "{run}");
    // Both host and test may have waited for the processor, more than once.
    let slack = i64::try_from((DELTA + stall * 4).as_millis()).expect("small");
    let within = |bound: Duration| i64::try_from(bound.as_millis()).expect("small") + slack;
    assert!(takeover <= within(LEASE + HEARTBEAT * 2), "{takeover} ms");
    assert!(hand_over <= within(HEARTBEAT * 2), "{hand_over} ms");
}

/// What the disk of a killed server would keep.
fn keeping() -> RedisOptions {
    RedisOptions { persistent: true, ..RedisOptions::default() }
}

#[test]
fn on_sqlite_a_frozen_runner_does_nothing_more() {
    a_frozen_runner_does_nothing_more(None, "");
}

#[test]
fn on_sqlite_under_a_strict_fence_a_frozen_runner_does_nothing_more() {
    a_frozen_runner_does_nothing_more(None, "fence = \"strict\"\n");
}

#[test]
fn on_sqlite_a_run_outlives_its_hosts() {
    a_run_goes_on_when_its_host_is_killed_and_at_once_when_it_is_stopped(None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgresql_a_frozen_runner_does_nothing_more() {
    if let Some(server) = or_skip(Postgres::start().await) {
        a_frozen_runner_does_nothing_more(Some(&server.url()), "");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgresql_a_run_outlives_its_hosts() {
    if let Some(server) = or_skip(Postgres::start().await) {
        a_run_goes_on_when_its_host_is_killed_and_at_once_when_it_is_stopped(Some(&server.url()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_a_frozen_runner_does_nothing_more() {
    if let Some(server) = or_skip(Redis::start_with(RedisKind::Redis, keeping()).await) {
        a_frozen_runner_does_nothing_more(Some(&server.url()), "");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_a_run_outlives_its_hosts() {
    if let Some(server) = or_skip(Redis::start_with(RedisKind::Redis, keeping()).await) {
        a_run_goes_on_when_its_host_is_killed_and_at_once_when_it_is_stopped(Some(&server.url()));
    }
}
