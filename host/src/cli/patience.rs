//! Asking a store that is away for a moment.

use std::time::Duration;

use leasehold::clock;
use leasehold_store::StoreError;

use super::error::CliError;

/// How long a store that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(250);

/// The same question until it is answered. What was asked for is done once, however often it is asked (S13); a store that
/// refuses is not asked again.
///
/// # Errors
/// The store refuses, or has not answered for ten seconds.
pub(super) async fn patiently<A, F>(mut ask: impl FnMut() -> F) -> Result<A, CliError>
where
    F: Future<Output = Result<A, StoreError>>,
{
    let give_up = clock::mono() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error @ StoreError::Rejected { .. }) => return Err(error.into()),
            Err(error) if clock::mono() >= give_up => return Err(error.into()),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
