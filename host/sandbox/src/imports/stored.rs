//! How a guest waits for its storage: reads at once, writes behind the gate, and neither longer than the lease.

use crate::attempt::Attempt;
use crate::gate::{self, Gate};
use crate::storage::StorageError;

/// Waits for a read.
pub(super) async fn read<T>(
    attempt: &Attempt,
    read: impl Future<Output = Result<T, StorageError>>,
) -> Result<T, StorageError> {
    tokio::select! {
        biased;
        () = attempt.signal.lost() => Err(StorageError::Lost),
        done = read => done,
    }
}

/// Waits for the gate, then for a write, which is not begun before.
pub(super) async fn write<T>(
    attempt: &Attempt,
    gate: &dyn Gate,
    write: impl Future<Output = Result<T, StorageError>>,
) -> Result<T, StorageError> {
    if gate::pass_fenced(attempt, gate).await.is_err() {
        return Err(StorageError::Lost);
    }
    tokio::select! {
        biased;
        done = write => done,
        () = attempt.signal.lost() => {
            Err(StorageError::Other("the lease was lost before the store answered: it may or may not be written".to_owned()))
        }
    }
}
