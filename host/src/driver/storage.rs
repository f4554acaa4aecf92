//! What an attempt keeps, over the store: each write once, in the order the guest asks for them, within the tenant's
//! quota and its share of the store's time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leasehold_lease::id::{RunKey, Token};
use leasehold_lease::write::{Change, Quota, Write, Written};
use leasehold_sandbox::{Storage, StorageError};
use leasehold_store::{LeaseStore, StoreError};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::causes::chain;
use crate::throttle::Throttle;

/// Whose it is, and within which bounds.
pub(super) struct Keep {
    pub(super) store: Arc<dyn LeaseStore>,
    pub(super) run: RunKey,
    pub(super) token: Token,
    pub(super) quota: Quota,
    pub(super) throttle: Arc<Throttle>,
    /// How long it waits before a write that was not answered is sent again.
    pub(super) pause: Duration,
}

/// A storage for a guest, and the task that writes for it. Call it on the runtime of the store's calls.
pub(super) fn channel(keep: Keep) -> (RunStorage, Writer) {
    let keep = Arc::new(keep);
    let (orders, inbox) = mpsc::channel(1);
    (RunStorage { keep: keep.clone(), orders, runtime: Handle::current() }, Writer { keep, inbox })
}

/// The guest's end.
pub(super) struct RunStorage {
    keep: Arc<Keep>,
    orders: mpsc::Sender<Order>,
    runtime: Handle,
}

/// The other end: it lives until the guest is gone, whatever becomes of the guest's calls.
pub(super) struct Writer {
    keep: Arc<Keep>,
    inbox: mpsc::Receiver<Order>,
}

struct Order {
    change: Change,
    answer: oneshot::Sender<Result<Written, StorageError>>,
}

impl Writer {
    /// Writes until the guest is gone.
    pub(super) async fn run(mut self) {
        let mut number = 0;
        while let Some(Order { change, mut answer }) = self.inbox.recv().await {
            number += 1;
            let written = tokio::select! {
                written = self.keep.write(number, change) => written,
                // Nobody waits for the answer any more: the guest has ended. A call that was sent still ends by itself.
                () = answer.closed() => return,
            };
            // The guest may have ended just now.
            let _ = answer.send(written);
        }
    }
}

impl Keep {
    /// The same number is sent again until the answer is known (S13).
    async fn write(self: &Arc<Self>, number: u64, change: Change) -> Result<Written, StorageError> {
        let size = change.size() + change.key().map_or(0, |key| key.len() as u64);
        let write = Arc::new(Write { run: self.run.run.clone(), token: self.token, number, quota: self.quota, change });
        loop {
            // A copy costs the store as much as the first.
            self.throttle.call(size).await;
            match self.send(write.clone()).await {
                Ok(written) => return Ok(written),
                Err(error @ StoreError::Rejected { .. }) => {
                    return Err(StorageError::Other(chain(&error)));
                }
                Err(error) => {
                    tracing::debug!(run = %self.run, error = &error as &dyn std::error::Error, "a write waits for the store");
                    tokio::time::sleep(self.pause).await;
                }
            }
        }
    }

    /// In a task of its own: who waits for it may be dropped, the call never is.
    async fn send(self: &Arc<Self>, write: Arc<Write>) -> Result<Written, StoreError> {
        let keep = self.clone();
        let call = tokio::spawn(async move { keep.store.write(&keep.run.job, &write).await });
        let lost = |source: tokio::task::JoinError| StoreError::Unknown { doing: "writing", source: source.into() };
        Ok(call.await.map_err(lost)??.answer)
    }
}

impl RunStorage {
    async fn write(&self, change: Change) -> Result<bool, StorageError> {
        let (answer, answered) = oneshot::channel();
        let ended = |()| StorageError::Unavailable("the host is ending".to_owned());
        self.orders.send(Order { change, answer }).await.map_err(|_| ended(()))?;
        match answered.await.map_err(|_| ended(()))?? {
            Written::Done => Ok(true),
            Written::NotDone => Ok(false),
            Written::TooLarge => Err(StorageError::TooLarge(self.keep.quota.value)),
            Written::OverQuota => Err(StorageError::OverQuota(self.keep.quota.stored)),
            Written::Refused => Err(StorageError::Lost),
            // Numbers grow here, so the store has seen a newer one of somebody else's: nothing was written.
            Written::Past => Err(StorageError::Other("the store has newer writes of this attempt".to_owned())),
        }
    }

    /// Waits for the tenant's turn, then reads in a task of its own: who waits for it may be dropped, the call never is.
    async fn read<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
        size: impl FnOnce(&T) -> usize,
    ) -> Result<T, StorageError> {
        self.keep.throttle.call(0).await;
        let told = |why: String| StorageError::Unavailable(why);
        match self.runtime.spawn(call).await {
            Ok(Ok(found)) => {
                self.keep.throttle.answered(size(&found) as u64);
                Ok(found)
            }
            Ok(Err(error)) => Err(told(chain(&error))),
            Err(_) => Err(told("the host is ending".to_owned())),
        }
    }
}

#[async_trait]
impl Storage for RunStorage {
    async fn load_state(&self) -> Result<Option<Vec<u8>>, StorageError> {
        let keep = self.keep.clone();
        self.read(async move { keep.store.load_state(&keep.run).await }, |found| found.as_ref().map_or(0, Vec::len))
            .await
    }

    async fn save_state(&self, data: Vec<u8>) -> Result<(), StorageError> {
        self.write(Change::SaveState(data)).await.map(drop)
    }

    async fn kv_get(&self, key: &str) -> Result<Option<Vec<u8>>, StorageError> {
        let (keep, key) = (self.keep.clone(), key.to_owned());
        let get = async move { keep.store.kv_get(&keep.run.job.tenant, &key).await };
        self.read(get, |found| found.as_ref().map_or(0, Vec::len)).await
    }

    async fn kv_set(&self, key: String, value: Vec<u8>) -> Result<(), StorageError> {
        self.write(Change::KvSet { key, value }).await.map(drop)
    }

    async fn kv_delete(&self, key: String) -> Result<bool, StorageError> {
        self.write(Change::KvDelete { key }).await
    }

    async fn kv_list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>, StorageError> {
        let (keep, prefix, after) = (self.keep.clone(), prefix.to_owned(), after.map(str::to_owned));
        let list = async move { keep.store.kv_list(&keep.run.job.tenant, &prefix, after.as_deref(), limit).await };
        self.read(list, |found| found.iter().map(String::len).sum()).await
    }

    async fn kv_compare_and_set(
        &self,
        key: String,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<bool, StorageError> {
        self.write(Change::KvCompareAndSet { key, expected, value }).await
    }
}
