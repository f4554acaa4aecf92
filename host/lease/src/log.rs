//! What a handler logs, as it is kept beside its run.

use serde::{Deserialize, Serialize};

use crate::time::Millis;

/// How severe a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Finest.
    Trace,
    /// For those who look for a fault.
    Debug,
    /// What happens normally.
    Info,
    /// Worth a look.
    Warn,
    /// Went wrong.
    Error,
}

/// One line that a handler logged.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogLine {
    /// When, by the host's wall clock.
    pub at: Millis,
    /// How severe.
    pub level: LogLevel,
    /// Which part of the handler said it; `stdout` and `stderr` for what it printed.
    pub target: String,
    /// The text, as the guest gave it: escape it where it is shown.
    pub message: String,
    /// Named values.
    pub fields: Vec<(String, String)>,
}

impl LogLine {
    /// Bytes that count against the tenant's quota, [`crate::write::ENTRY`] aside.
    pub fn size(&self) -> u64 {
        let fields: usize = self.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        (self.target.len() + self.message.len() + fields) as u64
    }
}
