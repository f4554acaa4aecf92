//! What an attempt writes beside its run: checkpoints, the tenant's key-value space, log lines.

use crate::id::{RunId, Token};
use crate::log::LogLine;

/// Bytes that each stored thing counts besides its content.
pub const ENTRY: u64 = 64;

/// The longest key of the key-value space, in bytes.
pub const KV_KEY_MAX: usize = 512;

/// A write of an attempt. It is done while its token holds the run, in the same transaction, and renews nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Which run.
    pub run: RunId,
    /// The attempt's token.
    pub token: Token,
    /// Grows within the attempt and the [`Change::lane`]. The sender sends the next one when it knows the answer to
    /// the one before; a copy of the newest is answered as the first was, an older copy [`Written::Past`].
    pub number: u64,
    /// What the tenant may store.
    pub quota: Quota,
    /// What is written.
    pub change: Change,
}

/// What a tenant may store, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    /// The largest value, checkpoint or batch of log lines.
    pub value: u64,
    /// All keys, values, checkpoints, outputs and log lines of the tenant together, each with [`ENTRY`] bytes more.
    /// Nothing that grows beyond is written; outputs are always kept, they are bounded elsewhere.
    pub stored: u64,
}

impl Default for Quota {
    /// The contract's defaults.
    fn default() -> Quota {
        Quota { value: 1 << 20, stored: 256 << 20 }
    }
}

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Change {
    /// The run's checkpoint is replaced.
    SaveState(Vec<u8>),
    /// A value of the tenant is set.
    KvSet {
        /// Its key.
        key: String,
        /// Its value.
        value: Vec<u8>,
    },
    /// A value of the tenant is deleted.
    KvDelete {
        /// Its key.
        key: String,
    },
    /// A value of the tenant is set if it is as expected.
    KvCompareAndSet {
        /// Its key.
        key: String,
        /// The value that must be there; none: there must be none.
        expected: Option<Vec<u8>>,
        /// Its new value.
        value: Vec<u8>,
    },
    /// Log lines are appended to the run's log.
    AppendLog(Vec<LogLine>),
}

/// Writes of one lane follow each other; those of two lanes may overtake one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// What the handler asks for, one after the other.
    Effects,
    /// Its log, which the host sends in batches beside it.
    Log,
}

impl Change {
    /// Which numbers it follows.
    pub fn lane(&self) -> Lane {
        match self {
            Change::AppendLog(_) => Lane::Log,
            _ => Lane::Effects,
        }
    }

    /// The key of the key-value space that it concerns.
    pub fn key(&self) -> Option<&str> {
        match self {
            Change::KvSet { key, .. } | Change::KvDelete { key } | Change::KvCompareAndSet { key, .. } => Some(key),
            Change::SaveState(_) | Change::AppendLog(_) => None,
        }
    }

    /// The bytes it brings, without [`ENTRY`].
    pub fn size(&self) -> u64 {
        match self {
            Change::SaveState(value) | Change::KvSet { value, .. } | Change::KvCompareAndSet { value, .. } => {
                value.len() as u64
            }
            Change::KvDelete { .. } => 0,
            Change::AppendLog(lines) => lines.iter().map(LogLine::size).sum(),
        }
    }

    /// Larger than any quota of the tenant allows, whatever is stored: its content, or its key.
    pub fn too_large(&self, quota: &Quota) -> bool {
        self.size() > quota.value || self.key().is_some_and(|key| key.len() > KV_KEY_MAX)
    }
}

/// What a write needs to know of the tenant besides the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Around {
    /// All bytes that the tenant stores, as [`Quota::stored`] counts them.
    pub stored: u64,
    /// The present value of the key that the write concerns.
    pub present: Option<Vec<u8>>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Written {
    /// It is done, now or when it was sent the first time.
    Done,
    /// There was nothing to delete, or the present value was not the expected one.
    NotDone,
    /// Nothing was written: it is larger than [`Quota::value`], or its key longer than [`KV_KEY_MAX`].
    TooLarge,
    /// Nothing was written: the tenant would store more than [`Quota::stored`].
    OverQuota,
    /// Nothing was written: a copy of a write that is older than the newest of its lane.
    Past,
    /// The attempt has lost the run: nothing changed.
    Refused,
}

impl Written {
    /// The word that records use.
    pub fn word(self) -> &'static str {
        match self {
            Written::Done => "done",
            Written::NotDone => "not-done",
            Written::TooLarge => "too-large",
            Written::OverQuota => "over-quota",
            Written::Past => "past",
            Written::Refused => "refused",
        }
    }

    /// The answer that this word stands for.
    pub fn from_word(word: &str) -> Option<Written> {
        use Written::{Done, NotDone, OverQuota, Past, Refused, TooLarge};
        [Done, NotDone, TooLarge, OverQuota, Past, Refused].into_iter().find(|written| written.word() == word)
    }
}

/// The newest write of a lane of an attempt, and what it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LastWrite {
    /// Its number, 0 before the first.
    pub number: u64,
    /// Its answer.
    pub written: Written,
}

impl Default for LastWrite {
    fn default() -> LastWrite {
        LastWrite { number: 0, written: Written::Done }
    }
}
