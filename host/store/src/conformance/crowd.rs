//! Many clients at once.

use std::sync::Arc;

use leasehold_lease::id::JobKey;
use leasehold_lease::op::{Accepted, Claim, ClaimAnswer, ClaimKind, Finish};
use leasehold_lease::run::Usage;

use super::bench::{Bench, job, ms, slot, success};
use crate::store::LeaseStore;

/// Clients of each slot.
const CLIENTS: usize = 8;

/// S1: of eight claims of each slot, sent together, exactly one wins; the others are told who runs it.
pub async fn one_of_many_claimers_wins(bench: &Bench) {
    let stores = vec![bench.store.clone(); CLIENTS];
    one_of_many_claimers_wins_on(bench, &stores, 100).await;
}

/// The same through several doors to one store.
pub async fn one_of_many_claimers_wins_on(bench: &Bench, stores: &[Arc<dyn LeaseStore>], slots: u64) {
    let job = job("crowd");
    let start = bench.now().await;
    let mut last = None;
    for n in 0..slots {
        let run = slot(start + ms(n));
        let asks = stores.iter().map(|_| bench.ask(&run, ClaimKind::Slot, &bench.terms()));
        let answers = claim_together(stores, &job, asks.collect()).await;
        let won: Vec<usize> = (0..answers.len()).filter(|i| matches!(answers[*i].1, ClaimAnswer::Won { .. })).collect();
        assert_eq!(won.len(), 1, "{run}: {answers:?}");
        for (i, (_, answer)) in answers.iter().enumerate() {
            assert!(i == won[0] || matches!(answer, ClaimAnswer::Running { .. }), "{run}: {answers:?}");
        }
        let (ask, answer) = &answers[won[0]];
        let ClaimAnswer::Won { fence, .. } = answer else { unreachable!("filtered above") };
        assert!(last.replace(*fence) < Some(*fence), "S8: fences grow");
        let finish = Finish { run, token: ask.token, outcome: success(), usage: Usage::default() };
        let finished = stores[won[0]].finish(&job, &finish).await.expect("an answer");
        assert_eq!(finished.answer, Accepted::Done);
    }
    assert_eq!(bench.revision(&job).await, 2 * slots, "nothing else has changed the job");
}

async fn claim_together(stores: &[Arc<dyn LeaseStore>], job: &JobKey, asks: Vec<Claim>) -> Vec<(Claim, ClaimAnswer)> {
    let tasks: Vec<_> = stores
        .iter()
        .cloned()
        .zip(asks)
        .map(|(store, ask)| {
            let job = job.clone();
            tokio::spawn(async move {
                let answer = store.claim(&job, &ask).await.expect("an answer").answer;
                (ask, answer)
            })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("a client does not panic"));
    }
    answers
}
