//! The one suite.

use std::sync::Arc;

use leasehold_test_servers::{ServerError, or_skip, shared_redis, shared_valkey};

use super::support::namespace;
use crate::conformance::{Bench, TestClock, one_of_many_claimers_wins_on};
use crate::redis::RedisStore;
use crate::store::LeaseStore;

/// As many hosts, each with connections of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_eight_hosts_wins_on_redis() {
    one_of_eight_hosts_wins(shared_redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_eight_hosts_wins_on_valkey() {
    one_of_eight_hosts_wins(shared_valkey().await).await;
}

async fn one_of_eight_hosts_wins(server: Result<String, ServerError>) {
    let Some(url) = or_skip(server) else { return };
    let (namespace, mut hosts) = (namespace(), Vec::<Arc<dyn LeaseStore>>::new());
    for _ in 0..8 {
        hosts.push(Arc::new(RedisStore::connect(&url, &namespace).await.expect("a store")));
    }
    let bench = Bench::new(hosts[0].clone(), TestClock::Real, ());
    one_of_many_claimers_wins_on(&bench, &hosts, 100).await;
}

mod redis_on_a_set_clock {
    async fn make() -> Option<crate::conformance::Bench> {
        super::super::support::on_a_set_clock(leasehold_test_servers::shared_redis().await).await
    }

    crate::conformance_tests!(make);
}

mod redis_on_its_own_clock {
    async fn make() -> Option<crate::conformance::Bench> {
        super::super::support::on_its_own_clock(leasehold_test_servers::shared_redis().await).await
    }

    crate::conformance_tests!(make);
}

mod valkey_on_a_set_clock {
    async fn make() -> Option<crate::conformance::Bench> {
        super::super::support::on_a_set_clock(leasehold_test_servers::shared_valkey().await).await
    }

    crate::conformance_tests!(make);
}

mod valkey_on_its_own_clock {
    async fn make() -> Option<crate::conformance::Bench> {
        super::super::support::on_its_own_clock(leasehold_test_servers::shared_valkey().await).await
    }

    crate::conformance_tests!(make);
}
