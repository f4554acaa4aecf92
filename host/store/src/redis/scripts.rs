//! The scripts, one a verb, with the clock in front.

use std::sync::LazyLock;

use leasehold_lease::run::ATTEMPTS_KEPT;
use leasehold_lease::write::ENTRY;
use redis::Script as Hashed;

// The scripts have these as numbers.
const _: () = assert!(ENTRY == 64 && ATTEMPTS_KEPT == 1_000);

/// The layout of the keys that these scripts work on. A change that an older script cannot live with raises it.
pub(super) const LAYOUT: u64 = 1;

/// The scripts on the server's own clock.
pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts::new(include_str!("lib/clock.lua")));

/// The scripts on a clock that tests set.
#[cfg(test)]
pub(super) static ON_A_SET_CLOCK: LazyLock<Scripts> =
    LazyLock::new(|| Scripts::new(include_str!("lib/test_clock.lua")));

/// A script and the name by which the server knows it.
pub(super) struct Script {
    pub(super) source: String,
    pub(super) hash: String,
}

impl Script {
    fn new(clock: &str, body: &str) -> Script {
        let source = [clock, body].concat();
        let hash = Hashed::new(&source).get_hash().to_owned();
        Script { source, hash }
    }
}

macro_rules! scripts {
    ($($verb:ident: $($file:literal)+;)*) => {
        /// All scripts.
        pub(super) struct Scripts {
            $(pub(super) $verb: Script,)*
        }

        impl Scripts {
            fn new(clock: &str) -> Scripts {
                Scripts { $($verb: Script::new(clock, concat!($(include_str!($file)),+)),)* }
            }
        }
    };
}

scripts! {
    about: "about.lua";
    announce: "lib/job.lua" "announce.lua";
    cancel: "lib/job.lua" "lib/settle.lua" "cancel.lua";
    check: "lib/job.lua" "lib/view.lua" "check.lua";
    claim: "lib/job.lua" "lib/settle.lua" "claim.lua";
    close: "lib/job.lua" "lib/settle.lua" "close.lua";
    drain: "drain.lua";
    finish: "lib/job.lua" "lib/settle.lua" "finish.lua";
    heartbeats: "lib/job.lua" "heartbeats.lua";
    history: "lib/job.lua" "lib/view.lua" "history.lua";
    hold: "lib/job.lua" "hold.lua";
    hosts: "hosts.lua";
    jobs: "lib/job.lua" "lib/view.lua" "jobs.lua";
    now: "now.lua";
    prune: "lib/job.lua" "prune.lua";
    release: "lib/job.lua" "release.lua";
    report: "report.lua";
    show: "lib/job.lua" "lib/view.lua" "show.lua";
    told: "lib/job.lua" "told.lua";
    trigger: "lib/job.lua" "trigger.lua";
    unblock: "lib/job.lua" "lib/settle.lua" "unblock.lua";
    unfinished: "lib/job.lua" "lib/view.lua" "unfinished.lua";
    write: "lib/job.lua" "write.lua";
}
