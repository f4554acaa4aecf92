//! The one suite.

mod on_a_set_clock {
    async fn make() -> Option<crate::conformance::Bench> {
        super::super::support::on_a_set_clock("").await
    }

    crate::conformance_tests!(make);
}

mod on_the_servers_clock {
    async fn make() -> Option<crate::conformance::Bench> {
        super::super::support::on_the_servers_clock().await
    }

    crate::conformance_tests!(make);
}

/// Each verb as one simple query, as behind a pooler.
mod in_simple_queries {
    async fn make() -> Option<crate::conformance::Bench> {
        super::super::support::on_a_set_clock("?pooler=transaction").await
    }

    crate::conformance_tests!(make);
}
