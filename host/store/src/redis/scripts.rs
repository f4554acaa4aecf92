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
pub(super) static SCRIPTS: LazyLock<Scripts> =
    LazyLock::new(|| Scripts::new(include_str!("lib/clock.lua"), ToOwned::to_owned));

/// The scripts on a clock that tests set.
#[cfg(test)]
pub(super) static ON_A_SET_CLOCK: LazyLock<Scripts> =
    LazyLock::new(|| Scripts::new(include_str!("lib/test_clock.lua"), ToOwned::to_owned));

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

#[cfg(test)]
impl Scripts {
    /// The scripts with a fault in one place, on a clock that tests set.
    pub(super) fn with_fault(right: &str, wrong: &str) -> &'static Scripts {
        let places = std::cell::Cell::new(0);
        let edit = |body: &str| {
            places.set(places.get() + body.matches(right).count());
            body.replace(right, wrong)
        };
        let scripts = Scripts::new(include_str!("lib/test_clock.lua"), edit);
        assert!(places.get() > 0, "there is no {right:?}");
        Box::leak(Box::new(scripts))
    }
}

macro_rules! scripts {
    ($($verb:ident: $($file:literal)+;)*) => {
        /// All scripts.
        pub(super) struct Scripts {
            $(pub(super) $verb: Script,)*
        }

        impl Scripts {
            /// `edit` is for tests, which put faults into the scripts.
            fn new(clock: &str, edit: impl Fn(&str) -> String) -> Scripts {
                Scripts { $($verb: Script::new(clock, &edit(concat!($(include_str!($file)),+))),)* }
            }
        }
    };
}

scripts! {
    about: "about.lua";
    announce: "lib/job.lua" "lib/apart.lua" "announce.lua";
    cancel: "lib/job.lua" "lib/tail.lua" "lib/find.lua" "lib/interrupt.lua" "cancel.lua";
    check: "lib/job.lua" "lib/apart.lua" "lib/tail.lua" "lib/find.lua" "lib/view.lua" "check.lua";
    claim: "claim_first.lua" "lib/job.lua" "lib/tail.lua" "lib/find.lua" "lib/order.lua" "lib/interrupt.lua"
        "claim.lua";
    close: "lib/job.lua" "lib/tail.lua" "lib/find.lua" "lib/interrupt.lua" "close.lua";
    drain: "drain.lua";
    finish: "finish.lua";
    heartbeats: "lib/job.lua" "lib/apart.lua" "lib/tail.lua" "heartbeats.lua";
    history: "lib/job.lua" "lib/tail.lua" "lib/find.lua" "lib/view.lua" "history.lua";
    hold: "lib/job.lua" "hold.lua";
    hosts: "hosts.lua";
    jobs: "lib/job.lua" "lib/apart.lua" "lib/tail.lua" "lib/find.lua" "lib/order.lua" "lib/view.lua" "jobs.lua";
    now: "now.lua";
    prune: "lib/job.lua" "lib/find.lua" "prune.lua";
    release: "lib/job.lua" "lib/tail.lua" "lib/find.lua" "release.lua";
    offers: "offers.lua";
    report: "report.lua";
    show: "lib/job.lua" "lib/tail.lua" "lib/find.lua" "lib/view.lua" "show.lua";
    told: "told.lua";
    trigger: "lib/job.lua" "lib/find.lua" "trigger.lua";
    unblock: "lib/job.lua" "lib/tail.lua" "lib/order.lua" "lib/interrupt.lua" "unblock.lua";
    unfinished: "lib/job.lua" "lib/apart.lua" "lib/tail.lua" "lib/view.lua" "unfinished.lua";
    write: "lib/job.lua" "lib/tail.lua" "write.lua";
}
