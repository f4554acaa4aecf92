//! Many questions at once: grouped by tenant, in pieces that do not hold up the server, sent side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_lease::id::TenantName;
use redis::Value;
use tokio::task::JoinSet;

use super::call::Call;
use super::link::{Limit, Link};
use crate::error::StoreError;

/// A part of a batch: the tenant, and which items it has.
pub(super) struct Piece {
    pub(super) tenant: TenantName,
    pub(super) items: Vec<usize>,
}

/// Groups items by tenant, at most `most` in a piece: a script runs alone on the server while it runs.
pub(super) fn pieces<'a>(tenants: impl Iterator<Item = &'a TenantName>, most: usize) -> Vec<Piece> {
    let mut by_tenant: BTreeMap<&TenantName, Vec<usize>> = BTreeMap::new();
    for (item, tenant) in tenants.enumerate() {
        by_tenant.entry(tenant).or_default().push(item);
    }
    let mut pieces = Vec::new();
    for (tenant, items) in by_tenant {
        for part in items.chunks(most) {
            pieces.push(Piece { tenant: tenant.clone(), items: part.to_vec() });
        }
    }
    pieces
}

/// Sends calls side by side; in a cluster they go to different servers. The answers stand in their order.
pub(super) async fn side_by_side(
    link: &Arc<Link>,
    doing: &'static str,
    calls: Vec<Call>,
) -> Vec<Result<Value, StoreError>> {
    side_by_side_by(Limit::of_a_call(), link, doing, calls).await
}

/// The same, by this limit.
pub(super) async fn side_by_side_by(
    limit: Limit,
    link: &Arc<Link>,
    doing: &'static str,
    calls: Vec<Call>,
) -> Vec<Result<Value, StoreError>> {
    if let [only] = &calls[..] {
        return vec![link.call_by(limit, doing, only).await];
    }
    let mut under_way = JoinSet::new();
    let many = calls.len();
    for (at, call) in calls.into_iter().enumerate() {
        let link = link.clone();
        under_way.spawn(async move { (at, link.call_by(limit, doing, &call).await) });
    }
    let mut answers: Vec<Option<Result<Value, StoreError>>> = (0..many).map(|_| None).collect();
    while let Some(ended) = under_way.join_next().await {
        // A call does not panic and nobody aborts it but this set.
        let (at, answer) = ended.expect("a call ends with its answer");
        answers[at] = Some(answer);
    }
    answers.into_iter().map(|answer| answer.expect("every call has ended")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_in_one_piece_of_its_tenant() {
        let tenants: Vec<TenantName> = (0..1_000).map(|i| format!("t{}", i % 3).parse().expect("a name")).collect();
        let pieces = pieces(tenants.iter(), 100);
        let mut seen: Vec<usize> = pieces.iter().flat_map(|piece| piece.items.clone()).collect();
        assert!(pieces.iter().all(|piece| piece.items.len() <= 100));
        assert!(pieces.iter().all(|piece| piece.items.iter().all(|item| tenants[*item] == piece.tenant)));
        seen.sort_unstable();
        assert_eq!(seen, (0..1_000).collect::<Vec<_>>());
    }
}
