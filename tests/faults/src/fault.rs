//! What is done to hosts, to their store, to the network and to clocks.

use std::fmt;
use std::time::Duration;

use leasehold_test_servers::Direction;
use rustix::process::Signal;

use crate::board::Setup;
use crate::clock;
use crate::cluster::{Cluster, PATIENCE};
use crate::draw::Draw;
use crate::record::{Heard, Whom};
use crate::store::Kind;

/// How long a host is watched for the step at which it is to die; then it dies where it stands.
const AIMING: Duration = Duration::from_secs(3);

/// How long a clock that was set takes until all have seen it.
const CLOCK_SEEN: Duration = Duration::from_millis(1_300);

const HOUR: i64 = 3_600;

/// At which step a host is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// At any.
    Any,
    /// So long after a whole second, when slots are due: before its claims, or while they are on their way.
    Due(Duration),
    /// So long after it told this event.
    Told(&'static str, Duration),
    /// So long after the witness heard this act of a run of its.
    Act(u32, Duration),
}

/// Which way nothing gets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Neither.
    Both,
    /// No question reaches the store.
    There,
    /// No answer comes back.
    Back,
}

/// Something that goes wrong, and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A host is stopped where it is, and goes on later.
    Freeze(usize, Duration),
    /// A host is killed, and started again after a while.
    Kill(usize, Aim, Duration),
    /// A host is asked to end, and started again.
    Stop(usize),
    /// A deploy: all hosts, one after the other.
    Roll,
    /// A host does not reach the store. Connections are reset at the end, or what was held back arrives.
    Cut(usize, Way, Duration, bool),
    /// The store's server is killed, and started again after a while.
    StoreDies(Duration),
    /// The store answers nobody for a while.
    StoreFreezes(Duration),
    /// The store's server is restarted in good order.
    StoreRestarts,
    /// Redis forgets all scripts.
    ScriptsForgotten,
    /// Redis forgets everything.
    DataForgotten,
    /// A host's wall clock is an hour off for a while, ahead or behind. On SQLite it is everybody's.
    Clock(usize, bool, Duration),
}

impl Fault {
    /// One that this cluster can suffer, and that takes nothing away that was acknowledged.
    pub fn draw(draw: &mut Draw, setup: &Setup) -> Fault {
        let host = draw.below(setup.hosts);
        let leases = |draw: &mut Draw, from: u32, to: u32| {
            let lease = u64::try_from(setup.policy.lease.as_millis()).expect("a lease is no age");
            draw.ms(lease * u64::from(from) / 10, lease * u64::from(to) / 10)
        };
        let server = setup.kind != Kind::Sqlite;
        loop {
            return match draw.below(20) {
                0..=2 => Fault::Freeze(host, setup.policy.lease * 2),
                3..=8 => Fault::Kill(host, Aim::draw(draw, setup), draw.ms(0, 1_500)),
                9 | 10 => Fault::Stop(host),
                11 => Fault::Roll,
                12..=14 if server => {
                    let way = draw.one(&[Way::Both, Way::There, Way::Back]);
                    Fault::Cut(host, way, leases(draw, 3, 30), draw.one_in(2))
                }
                15 if server => Fault::StoreDies(draw.ms(0, 2_000)),
                16 => Fault::StoreFreezes(leases(draw, 2, 25)),
                17 if server => Fault::StoreRestarts,
                18 if setup.kind == Kind::Redis => Fault::ScriptsForgotten,
                19 if setup.clocks => Fault::Clock(host, draw.one_in(2), draw.ms(2_000, 4_000)),
                _ => continue,
            };
        }
    }

    /// The host that it concerns, when it is one alone.
    pub fn host(&self) -> Option<usize> {
        match *self {
            Fault::Freeze(host, _) | Fault::Kill(host, ..) | Fault::Stop(host) | Fault::Cut(host, ..) => Some(host),
            _ => None,
        }
    }

    /// What kind of fault it is, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Fault::Freeze(..) => "freezes",
            Fault::Kill(..) => "kills",
            Fault::Stop(_) => "stops",
            Fault::Roll => "deploys",
            Fault::Cut(..) => "cuts",
            Fault::StoreDies(_) => "stores killed",
            Fault::StoreFreezes(_) => "stores frozen",
            Fault::StoreRestarts => "stores restarted",
            Fault::ScriptsForgotten => "scripts forgotten",
            Fault::DataForgotten => "data forgotten",
            Fault::Clock(..) => "clock steps",
        }
    }

    /// Does it, and waits until it is over.
    pub async fn strike(&self, cluster: &Cluster) {
        let (from, what) = (clock::mono(), self.to_string());
        match *self {
            Fault::Freeze(host, time) => {
                cluster.signal_host(host, Signal::STOP).await;
                tokio::time::sleep(time).await;
                cluster.signal_host(host, Signal::CONT).await;
                cluster.note(Whom::Host(host), from, &what);
                // On SQLite it may have been writing, and then nobody could.
                if cluster.setup.kind == Kind::Sqlite && cluster.record().lock().store_down_since(from) {
                    cluster.note(Whom::Store, from, &what);
                }
            }
            Fault::Kill(host, aim, down) => {
                aim.wait(cluster, host).await;
                let from = clock::mono();
                cluster.kill_host(host).await;
                tokio::time::sleep(down).await;
                cluster.start_host_and_wait(host).await;
                cluster.note(Whom::Host(host), from, &what);
            }
            Fault::Stop(host) => stop(cluster, host, &what).await,
            Fault::Roll => {
                for host in 0..cluster.setup.hosts {
                    stop(cluster, host, &what).await;
                }
            }
            Fault::Cut(host, way, time, reset) => {
                cut(cluster, host, way, time, reset).await;
                cluster.note(Whom::Host(host), from, &what);
            }
            Fault::Clock(host, ahead, time) => set_clock(cluster, host, ahead, time, &what).await,
            Fault::StoreDies(down) => cluster.store().await.die(down).await,
            Fault::StoreFreezes(time) => cluster.store().await.freeze(time).await,
            Fault::StoreRestarts => cluster.store().await.restart().await,
            Fault::ScriptsForgotten => cluster.store().await.tell("SCRIPT FLUSH").await,
            Fault::DataForgotten => cluster.store().await.tell("FLUSHALL").await,
        }
        match self {
            Fault::StoreDies(_) | Fault::StoreFreezes(_) | Fault::StoreRestarts => {
                cluster.note(Whom::Store, from, &what)
            }
            Fault::DataForgotten => cluster.note(Whom::StoreData, from, &what),
            _ => {}
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Freeze(host, time) => write!(f, "h{host} is frozen for {time:?}"),
            Fault::Kill(host, aim, down) => write!(f, "h{host} is killed ({aim:?}) and is down for {down:?}"),
            Fault::Stop(host) => write!(f, "h{host} is stopped and started"),
            Fault::Roll => f.write_str("all hosts are stopped and started, one after the other"),
            Fault::Cut(host, way, time, reset) => {
                let end = if *reset { "then connections are reset" } else { "then all of it arrives" };
                write!(f, "h{host} is cut off from the store ({way:?}) for {time:?}, {end}")
            }
            Fault::StoreDies(down) => write!(f, "the store is killed and is down for {down:?}"),
            Fault::StoreFreezes(time) => write!(f, "the store is frozen for {time:?}"),
            Fault::StoreRestarts => f.write_str("the store is restarted"),
            Fault::ScriptsForgotten => f.write_str("the store forgets its scripts"),
            Fault::DataForgotten => f.write_str("the store forgets its data"),
            Fault::Clock(host, ahead, time) => {
                let side = if *ahead { "ahead" } else { "behind" };
                write!(f, "the wall clock of h{host} is an hour {side} for {time:?}")
            }
        }
    }
}

impl Aim {
    fn draw(draw: &mut Draw, setup: &Setup) -> Aim {
        let delay = draw.ms(0, 6);
        match draw.below(8) {
            0 => Aim::Any,
            1 | 2 => Aim::Due(draw.ms(0, 280)),
            3 => Aim::Told("claimed", delay),
            4 => Aim::Act(0, delay),
            // What follows its last act is its finish.
            5 => Aim::Act(setup.acts - 1, delay),
            6 => Aim::Told("success", delay),
            _ => Aim::Told("backup", delay),
        }
    }

    async fn wait(self, cluster: &Cluster, host: usize) {
        let (told, effects) = cluster.record().lengths();
        let delay = match self {
            Aim::Any => return,
            Aim::Due(after) => {
                let into = u64::try_from(clock::wall().rem_euclid(1_000)).expect("not negative");
                Duration::from_millis(1_000 - into) + after
            }
            Aim::Told(word, delay) => {
                // In vain where it does no such thing; then it dies where it stands.
                let fits = |told: &crate::Told| told.host == host && told.word == word;
                cluster.record().wait_told(told, AIMING, fits).await;
                delay
            }
            Aim::Act(act, delay) => {
                let look = |heard: &Heard| heard.act_of(host, act, effects).then_some(());
                cluster.record().wait(AIMING, look).await;
                delay
            }
        };
        tokio::time::sleep(delay).await;
    }
}

async fn stop(cluster: &Cluster, host: usize, what: &str) {
    let from = clock::mono();
    cluster.signal_host(host, Signal::TERM).await;
    cluster.host_ended(host).await;
    cluster.start_host_and_wait(host).await;
    cluster.note(Whom::Host(host), from, what);
}

async fn cut(cluster: &Cluster, host: usize, way: Way, time: Duration, reset: bool) {
    let proxy = cluster.proxy(host);
    match way {
        Way::Both => proxy.blackhole(),
        Way::There => proxy.hold(Direction::ToServer),
        Way::Back => proxy.hold(Direction::ToClient),
    }
    tokio::time::sleep(time).await;
    if reset {
        proxy.drop_connections();
    }
    proxy.heal().await;
}

async fn set_clock(cluster: &Cluster, host: usize, ahead: bool, time: Duration, what: &str) {
    let from = clock::mono();
    let shared = cluster.setup.kind == Kind::Sqlite;
    // Where all clocks are one, the harness's own must be right at the end, or nothing could be said of slots.
    cluster.set_clock(host, if ahead { HOUR } else { -HOUR });
    tokio::time::sleep(time + CLOCK_SEEN).await;
    cluster.set_clock(host, 0);
    tokio::time::sleep(CLOCK_SEEN).await;
    if shared {
        unblock_all(cluster).await;
    }
    cluster.note(if shared { Whom::StoreClock } else { Whom::Host(host) }, from, what);
}

/// Slots that started an hour ahead hold their jobs up until an operator frees them.
async fn unblock_all(cluster: &Cluster) {
    cluster.record().unblocked();
    for job in 0..cluster.setup.jobs {
        let end = clock::mono() + PATIENCE;
        // Refused while a run of a slot ahead lives, which ends soon.
        while let Err(refused) = cluster.leasehold(&["unblock", &format!("j{job}")]).await {
            assert!(clock::mono() < end, "j{job} stays blocked: {refused}");
        }
    }
}
