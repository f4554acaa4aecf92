//! `leasehold:job/control`: the host's signal as the guest sees it.

use std::time::Duration;

use hmac::digest::InvalidLength;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use wasmtime::Result;

use super::bindings::leasehold::job::control;
use crate::guest::Guest;

impl control::Host for Guest {
    fn should_continue(&mut self) -> Result<bool> {
        Ok(self.attempt.signal.reason().is_none())
    }

    fn stop_reason(&mut self) -> Result<Option<String>> {
        Ok(self.attempt.signal.reason().map(|reason| reason.as_str().to_owned()))
    }

    fn remaining_ms(&mut self) -> Result<Option<u64>> {
        Ok(Some(u64::try_from(self.attempt.remaining().as_millis()).unwrap_or(u64::MAX)))
    }

    async fn sleep(&mut self, ms: u64) -> Result<bool> {
        let signal = &self.attempt.signal;
        tokio::select! {
            // A stop that is known already ends even a sleep of no time.
            biased;
            () = signal.stopped() => Ok(false),
            () = tokio::time::sleep(Duration::from_millis(ms)) => Ok(true),
        }
    }

    fn idempotency_key(&mut self, operation: String) -> Result<String> {
        Ok(idempotency_key(&self.idempotency_secret, &self.run_id, &operation)?)
    }
}

/// Depends on the run and the operation, not on the attempt; without the secret it can be neither computed nor linked.
fn idempotency_key(secret: &[u8; 32], run_id: &str, operation: &str) -> Result<String, InvalidLength> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret)?;
    // The length keeps ("a", "bc") and ("ab", "c") apart.
    mac.update(&(run_id.len() as u64).to_le_bytes());
    mac.update(run_id.as_bytes());
    mac.update(operation.as_bytes());
    Ok(mac.finalize().into_bytes()[..16].iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idempotency_key_depends_on_secret_run_and_operation() {
        let key_of = |secret, run, operation| idempotency_key(secret, run, operation).expect("any key length is valid");
        let secret = [1; 32];
        let key = key_of(&secret, "run", "charge-42");
        assert_eq!(key, key_of(&secret, "run", "charge-42"));
        assert_eq!(key.len(), 32);
        for other in [
            key_of(&[2; 32], "run", "charge-42"),
            key_of(&secret, "ru", "ncharge-42"),
            key_of(&secret, "run", "charge-43"),
        ] {
            assert_ne!(key, other);
        }
    }
}
