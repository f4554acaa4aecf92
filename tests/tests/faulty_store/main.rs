//! The driver of real hosts on a store that fails before and after its effects, hangs and answers late, and that ends with its
//! host at any place where it waits. The store's record is judged step by step, and handlers' effects by who hears them.
//!
//! A storm is drawn from a seed, which is printed; `LEASEHOLD_STORM_SEED` asks for another one.

mod cluster;
mod judged;
mod store;
mod weather;

use std::time::Duration;

use leasehold::{Host, clock};
use leasehold_lease::agent::EventKind;
use leasehold_lease::dice::Dice;
use leasehold_test_servers::since_boot;
use leasehold_tests::PATIENCE;

use cluster::{Cluster, Work, key};
use store::{Side, Verb};
use weather::Weather;

/// The lease of every job here.
const LEASE: Duration = Duration::from_secs(1);

const DEFAULTS: &str = "[defaults]\nlease = \"1s\"\nheartbeat = \"150ms\"\nmin_interval = \"1s\"\njitter = \"50ms\"\n\
                        history_size = 1000\nstop_timeout = \"3s\"\n";

/// Storms where no seed is asked for. The remainders choose the policy.
const SEEDS: [u64; 2] = [2, 3];

/// Effects of one handler that goes on for longer than a lease.
const EFFECTS: usize = 90;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_on_a_store_that_fails_hangs_and_comes_late_break_no_promise_and_lose_no_later_slot() {
    let asked = std::env::var("LEASEHOLD_STORM_SEED").ok();
    let asked = asked.map(|seed| vec![seed.parse().expect("LEASEHOLD_STORM_SEED is a number")]);
    for seed in asked.unwrap_or(SEEDS.into()) {
        storm(seed).await;
    }
}

async fn storm(seed: u64) {
    let uncertain = if seed.is_multiple_of(2) { "hold" } else { "stop" };
    let fence = if seed.is_multiple_of(3) { "strict" } else { "held" };
    let policy = format!("{DEFAULTS}on_uncertain = \"{uncertain}\"\nfence = \"{fence}\"\n");
    eprintln!(
        "seed {seed} ({uncertain}, {fence}): LEASEHOLD_STORM_SEED={seed} cargo test -p leasehold-tests --test faulty_store"
    );
    let acts = format!("{{ do = \"send\", url = \"URL\", times = {EFFECTS}, ms = 20 }}");
    let work = [("acts", 5, acts.as_str()), ("writes", 1, "{ do = \"count\", ms = 100 }")];
    let cluster = Cluster::new(seed, &policy, &work.map(job)).await;
    let mut hosts = Vec::new();
    for number in 0..2 {
        hosts.push(cluster.host(&format!("host-{number}"), cluster.store(number)).await);
    }
    let mut dice = Dice::new(seed);
    for weather in forecast(&mut dice) {
        if !matches!(weather, Weather::Errors | Weather::Sluggish) {
            // Whoever is cut off then has a handler that acts, for longer than its lease lasts.
            cluster.sky.turn(Weather::Calm);
            starts(&cluster, "acts").await;
        }
        cluster.sky.turn(weather);
        let lasts = dice.between(1_600, 2_800).unsigned_abs();
        eprintln!("{weather:?} for {lasts} ms");
        tokio::time::sleep(Duration::from_millis(lasts)).await;
        let number = dice.below(4);
        if let Some(host) = hosts.get_mut(number) {
            // Half of them without a hand-over. Another one takes its place.
            end(host, dice.percent(50)).await;
            *host = cluster.host(&format!("host-{number}"), cluster.store(number)).await;
        }
    }
    cluster.recovers().await;
    cluster.effects_were_in_time("acts", EFFECTS);
    let told = |kind| cluster.heard.count(kind);
    let [doubts, losses, takeovers] = [EventKind::Uncertain, EventKind::Lost, EventKind::Takeover].map(told);
    eprintln!("leases in doubt {doubts}, lost {losses}, runs taken over {takeovers}");
    // It has seen what it is about, or it proves nothing.
    assert!(doubts + losses > 0 && told(EventKind::StoreDown) > 0, "no lease was in doubt");
    for host in &mut hosts {
        end(host, false).await;
    }
}

/// Each weather once and errors twice, in an order of the seed's.
fn forecast(dice: &mut Dice) -> Vec<Weather> {
    use Weather::{CutOff, Errors, Outage, Sluggish};
    let mut left = vec![Errors, Errors, Sluggish, Outage, CutOff(0), CutOff(1)];
    std::iter::from_fn(|| (!left.is_empty()).then(|| left.swap_remove(dice.below(left.len())))).collect()
}

/// All that a host asks of its store but what an orphan alone is asked for, which takes a minute to become one.
const VERBS: [Verb; 17] = [
    Verb::Announce,
    Verb::Unfinished,
    Verb::Jobs,
    Verb::Report,
    Verb::Hosts,
    Verb::Claim,
    Verb::Check,
    Verb::Heartbeats,
    Verb::LoadState,
    Verb::Write,
    Verb::KvGet,
    Verb::Finish,
    Verb::Release,
    Verb::Prune,
    Verb::KeepAnswers,
    Verb::KeepOffers,
    Verb::HostOffers,
];

/// A call is cut off before it has had its effect, and behind that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_ends_wherever_it_waits_for_the_store_breaks_no_promise_and_loses_no_slot() {
    let count = "{ do = \"count\", ms = 400 }";
    let work = [("a", 1, count), ("b", 1, count), ("c", 1, count), ("d", 1, count)];
    let cluster = Cluster::new(0, DEFAULTS, &work.map(job)).await;
    let mut steady = cluster.host("steady", cluster.store(0)).await;
    starts(&cluster, "a").await;
    let (from, began) = (clock::wall(), since_boot());
    for verb in VERBS {
        for side in [Side::There, Side::Back] {
            // One that is to hand over may have nothing to hand over any more when it is asked to.
            let mut tries = 0;
            while !ends_at(&cluster, verb, side).await {
                tries += 1;
                assert!(tries < 10, "no host has waited at {verb:?}, {side:?}");
            }
        }
    }
    cluster.recovers().await;
    cluster.accounts_for_all(from, began);
    end(&mut steady, false).await;
}

/// Starts a host that ends there; false where it has ended before.
async fn ends_at(cluster: &Cluster, verb: Verb, side: Side) -> bool {
    let (store, name) = (cluster.store(1), format!("ends at {verb:?} {side:?}"));
    let heard = cluster.heard.len();
    store.trap(verb, side);
    let mut host = cluster.host(&name, store.clone()).await;
    if verb == Verb::Release {
        let runs = |event: &leasehold::event::HostEvent| event.host == name && event.event.kind == EventKind::Claimed;
        cluster.heard.until(heard, "a run of its own", runs).await;
        host.stop().await;
    }
    tokio::select! {
        () = store.sprung() => {}
        ended = host.ended() => {
            ended.unwrap_or_else(|why| panic!("{why}"));
            return false;
        }
        () = tokio::time::sleep(PATIENCE) => panic!("{name}: it has not waited there in {PATIENCE:?}"),
    }
    end(&mut host, true).await;
    true
}

/// What is not answered in time is asked again, while the first copy is on its way: a store that takes ten times as long as it
/// may is not asked ten times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_store_slower_than_its_deadline_two_copies_of_a_call_are_on_their_way_and_runs_go_on() {
    let count = "{ do = \"count\", ms = 100 }";
    let work = ["a", "b", "c", "d", "e", "f"].map(|name| (name, 2, count));
    let cluster = Cluster::new(0, DEFAULTS, &work.map(job)).await;
    let stores = [0, 1].map(|number| cluster.store(number));
    let mut hosts = Vec::new();
    for store in &stores {
        hosts.push(cluster.host(&format!("host-{}", store.host), store.clone()).await);
    }
    starts(&cluster, "a").await;
    // Half a heartbeat is 75 ms, and a claim that takes longer to arrive wins nothing.
    cluster.sky.turn(Weather::Slow(Duration::from_millis(30), Duration::from_millis(670)));
    let from = cluster.heard.len();
    for (name, ..) in work {
        let ended = |event: &leasehold::event::HostEvent| {
            event.job == Some(key(name)) && event.event.kind == EventKind::Success
        };
        cluster.heard.until(from, "an end in spite of it", ended).await;
    }
    for store in &stores {
        let most = store.most();
        eprintln!("host {}, on their way at once: {most:?}", store.host);
        for verb in [Verb::Claim, Verb::Finish, Verb::Release] {
            assert!(most.of_token.get(&verb).is_none_or(|copies| *copies <= 2), "{verb:?}: {most:?}");
        }
        for verb in [Verb::Unfinished, Verb::Announce] {
            assert!(most.of_verb.get(&verb).is_none_or(|calls| *calls <= 1), "{verb:?}: {most:?}");
        }
        // Some fifty are usual: heartbeats and checks are sent by the clock, and older calls end by themselves.
        assert!(most.all <= 100, "{most:?}");
    }
    let copies = stores.iter().filter_map(|store| store.most().of_token.get(&Verb::Claim).copied()).max();
    assert_eq!(copies, Some(2), "nothing was asked twice");
    cluster.recovers().await;
    for host in &mut hosts {
        end(host, false).await;
    }
}

fn job((name, every, wish): (&'static str, u64, &str)) -> Work {
    Work { name, every: Duration::from_secs(every), wish: wish.to_owned() }
}

/// Waits until some host starts a run of this job.
async fn starts(cluster: &Cluster, name: &str) {
    let won = |event: &leasehold::event::HostEvent| {
        let wins = matches!(event.event.kind, EventKind::Claimed | EventKind::Takeover);
        wins && event.job == Some(key(name))
    };
    cluster.heard.until(cluster.heard.len(), "a start", won).await;
}

/// Ends a host, with a hand-over or on the spot: not by a fault of its own.
async fn end(host: &mut Host, at_once: bool) {
    if at_once {
        host.end_now().await;
    } else {
        host.stop().await;
    }
    let ended = tokio::time::timeout(PATIENCE, host.ended()).await;
    ended.expect("it ends").unwrap_or_else(|why| panic!("{why}"));
}
