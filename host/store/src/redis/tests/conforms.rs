//! The one suite.

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
