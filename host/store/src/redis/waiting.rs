//! Waiting for replicas, together.
//!
//! WAIT holds up its connection, and whatever comes behind it there. So changes that wait have a connection for
//! themselves, away from what is only read; and those that wait at the same time share one WAIT, or each of them would
//! wait for all those before it.

use std::sync::atomic::{AtomicU64, Ordering};

use redis::{ErrorKind, RedisError, RedisResult, Value};
use tokio::sync::Mutex;

use super::call::Call;
use super::link::Connection;

/// How long one WAIT may wait for replicas. A change may come to stand behind two that are not its own, and all of it
/// fits into the limit of a call.
const WAIT_LIMIT_MS: u64 = 500;

/// The waits of one link.
#[derive(Default)]
pub(super) struct Together {
    /// Changes that have been answered and wait.
    asked: AtomicU64,
    last: Mutex<Last>,
}

/// The newest WAIT that was answered.
#[derive(Default)]
struct Last {
    /// It was sent behind the answers to this many changes.
    covers: u64,
    /// On this connection.
    line: u64,
    /// Replicas that knew.
    acknowledged: i64,
}

impl Together {
    /// Waits until `wanted` replicas know of a change that was answered on this connection, for a while, and answers how
    /// many do.
    pub(super) async fn wait(&self, line: u64, connection: &mut Connection, wanted: u32) -> RedisResult<i64> {
        let place = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut last = self.last.lock().await;
        // One that was sent on the same connection after this change was answered has waited for it too.
        if last.covers < place || last.line != line {
            let covers = self.asked.load(Ordering::SeqCst);
            let wait = Call::plain("WAIT").arg(wanted).arg(WAIT_LIMIT_MS);
            let Value::Int(acknowledged) = connection.run(&wait).await? else {
                return Err(RedisError::from((ErrorKind::UnexpectedReturnType, "WAIT has answered no number")));
            };
            *last = Last { covers, line, acknowledged };
        }
        Ok(last.acknowledged)
    }
}
