//! A store that is frozen for longer than a lease, under a handler that acts on a witness outside.

use std::time::Duration;

use leasehold::clock;
use leasehold_lease::time::Mono;
use leasehold_test_servers::{IN_TIME, Redis, RedisKind, Watchdog, or_skip};
use leasehold_tests::{Effect, HostProcess, Witness, Workplace, soon_then_rarely};
use serde_json::Value;

const LEASE: Duration = Duration::from_secs(1);

/// What a handler does, one every 20 ms: longer than a store is frozen here.
const EFFECTS: usize = 200;

/// A host whose handler acts, and the store it cannot reach.
struct Frozen {
    w: Workplace,
    witness: Witness,
    watchdog: Watchdog,
    host: HostProcess,
    store: Redis,
    claimed: Value,
    /// When the store had stopped.
    at: Mono,
}

impl Frozen {
    /// Freezes the store while the handler acts, and waits until the host tells what it makes of that. None where there is no
    /// Redis, which is said.
    async fn until(on_uncertain: &str, told: &str) -> Option<Frozen> {
        let mut store = or_skip(Redis::start(RedisKind::Redis).await)?;
        let witness = Witness::start();
        let origin = witness.origin();
        let w = Workplace::new(&format!(
            "[store]\nurl = \"{}\"\n[defaults]\nlease = \"1s\"\nheartbeat = \"150ms\"\nmin_interval = \"1s\"\n\
             on_uncertain = \"{on_uncertain}\"\n[tenants.default.http]\nallow = [\"{origin}\"]\n",
            store.url()
        ));
        w.install("unruly", "job.wasm");
        let wish = format!("{{ do = \"send\", url = \"{origin}/\", times = {EFFECTS}, ms = 20 }}");
        w.write("plugins/job.toml", soon_then_rarely("job", &format!("payload = {wish}\nhttp = [\"{origin}\"]")));
        let mut host = w.serve();
        let claimed = host.wait_for("claimed", "default/job");
        witness.until(|heard| heard.len() > 5);
        let watchdog = Watchdog::start();
        store.freeze().await.expect("it can be frozen");
        let at = clock::mono();
        let said = host.wait_for(told, "default/job");
        assert_eq!(said["run"], claimed["run"], "{said}");
        Some(Frozen { w, witness, watchdog, host, store, claimed, at })
    }

    /// Leaves the store frozen for two more leases, and lets it go on. Answers how many effects there were by then: none came
    /// after the end of the lease, which nobody could renew.
    async fn thaw(&mut self) -> usize {
        tokio::time::sleep(2 * LEASE).await;
        let heard = self.witness.heard_at();
        // From the gate to the witness it may wait for the processor.
        let slack = 2 * IN_TIME + self.watchdog.latest();
        let late = |(at, _): &&(Mono, Effect)| *at > self.at + LEASE + slack;
        let late: Vec<_> = heard.iter().filter(late).collect();
        assert!(late.is_empty(), "frozen at {:?}, and yet: {late:?}", self.at);
        self.store.thaw().expect("it can go on");
        heard.len()
    }

    fn run(&self) -> Value {
        self.w.show("job", self.claimed["run"].as_str().expect("a run"))
    }

    fn ends(&mut self) -> Value {
        let run = self.claimed["run"].clone();
        self.host.wait_until("the end of its run", |event| event["event"] == "success" && event["run"] == run)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_hold_effects_wait_for_a_frozen_store_and_the_same_attempt_goes_on() {
    let Some(mut frozen) = Frozen::until("hold", "uncertain").await else { return };
    let before = frozen.thaw().await;
    let success = frozen.ends();
    assert_eq!(success["attempt"], 1, "{success}");
    let heard = frozen.witness.heard();
    assert!(before < EFFECTS, "it was done before the store was frozen");
    assert_eq!(heard.len(), EFFECTS, "what was held goes on, once");
    assert!(heard.iter().all(|effect| effect.attempt == 1 && effect.fence == heard[0].fence), "{heard:?}");
    assert_eq!((&frozen.run()["starts"], &frozen.run()["status"]), (&1.into(), &"success".into()), "{}", frozen.run());
    assert!(!frozen.host.events().iter().any(|event| event["event"] == "lost"), "{:?}", frozen.host.events());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_stop_a_frozen_store_ends_the_attempt_with_its_lease_and_the_next_one_does_all_again() {
    let Some(mut frozen) = Frozen::until("stop", "lost").await else { return };
    let before = frozen.thaw().await;
    let taken = frozen.host.wait_for("takeover", "default/job");
    assert_eq!((&taken["run"], &taken["attempt"]), (&frozen.claimed["run"], &2.into()), "{taken}");
    let success = frozen.ends();
    assert_eq!(success["attempt"], 2, "{success}");
    let heard = frozen.witness.heard();
    let (first, second) = heard.split_at(before);
    assert!(first.iter().all(|effect| effect.attempt == 1), "{heard:?}");
    assert_eq!(second.len(), EFFECTS);
    assert!(second.iter().all(|effect| effect.attempt == 2 && effect.fence > heard[0].fence), "{heard:?}");
    assert_eq!((&frozen.run()["starts"], &frozen.run()["hand_overs"]), (&2.into(), &0.into()), "{}", frozen.run());
}
