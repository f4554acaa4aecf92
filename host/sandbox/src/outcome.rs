//! What came of an attempt.

use std::fmt;
use std::time::Duration;

use crate::signal::StopReason;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// What the guest did.
    pub end: GuestEnd,
    /// Why it had been asked to stop, if it had: decides, together with `end`, what is recorded. After
    /// [`StopReason::Lost`] nothing is.
    pub stop: Option<StopReason>,
    /// What the attempt used.
    pub usage: Usage,
}

/// What the guest did in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestEnd {
    /// Returned its output, at most [`Limits::output`](crate::Limits::output) bytes.
    Output(Vec<u8>),
    /// Returned an error.
    Error(HandlerError),
    /// Did not return.
    Failure(Failure),
}

/// An error the handler returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandlerError {
    /// Worth another try, says the handler.
    Retryable(ErrorInfo),
    /// Never to be tried again, says the handler.
    Permanent(ErrorInfo),
    /// The handler saw the signal and stopped.
    Cancelled,
}

/// What a handler says about its error. Bounded by the attempt's limits but otherwise the guest's: [`escape`](crate::escape)
/// it where people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorInfo {
    /// Short and stable.
    pub code: String,
    /// For people.
    pub message: String,
    /// Further facts, as pairs.
    pub details: Vec<(String, String)>,
}

/// Why a guest did not return. All texts are bounded and escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure, one word.
    pub kind: FailureKind,
    /// What happened, for people.
    pub message: String,
    /// Where the guest was: the names of functions, innermost first, at most 20; empty where that is not known. A function
    /// without a name is told by its index.
    pub backtrace: Vec<String>,
    /// The last lines of the guest's standard error: a panic's message is there.
    pub stderr: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// Trapped; a panic ends here too.
    Trap,
    /// Overflowed its stack.
    Stack,
    /// Called `exit`.
    Exit,
    /// Trapped after it was refused memory.
    Memory,
    /// Was interrupted at its timeout.
    Timeout,
    /// Used more processor time than it may.
    Cpu,
    /// Burnt all its fuel.
    Fuel,
    /// Called the host more often than it may.
    Budget,
    /// Held more handles at a time than it may.
    Handles,
    /// Asked for more random bytes in one call than it may.
    Random,
    /// Handed the host more in one call than is even looked at.
    CallTooLarge,
    /// Was interrupted by [`Signal::force`](crate::Signal::force).
    Interrupted,
    /// Called the host after its lease was lost.
    Lost,
    /// Returned more than it may.
    OutputTooLarge,
    /// Could not be started, for a reason that lies in the plugin or its input.
    Start,
    /// Could not be started, or not go on, for want of the host's resources, none of which it had too much of: another host,
    /// or a later try, may succeed.
    NoResources,
    /// The host itself failed while it executed the guest.
    Host,
}

impl FailureKind {
    /// All kinds.
    pub const ALL: [FailureKind; 17] = [
        FailureKind::Trap,
        FailureKind::Stack,
        FailureKind::Exit,
        FailureKind::Memory,
        FailureKind::Timeout,
        FailureKind::Cpu,
        FailureKind::Fuel,
        FailureKind::Budget,
        FailureKind::Handles,
        FailureKind::Random,
        FailureKind::CallTooLarge,
        FailureKind::Interrupted,
        FailureKind::Lost,
        FailureKind::OutputTooLarge,
        FailureKind::Start,
        FailureKind::NoResources,
        FailureKind::Host,
    ];

    /// The word that is recorded.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureKind::Trap => "trap",
            FailureKind::Stack => "stack",
            FailureKind::Exit => "exit",
            FailureKind::Memory => "memory",
            FailureKind::Timeout => "timeout",
            FailureKind::Cpu => "cpu",
            FailureKind::Fuel => "fuel",
            FailureKind::Budget => "budget",
            FailureKind::Handles => "handles",
            FailureKind::Random => "random",
            FailureKind::CallTooLarge => "call-too-large",
            FailureKind::Interrupted => "interrupted",
            FailureKind::Lost => "lost",
            FailureKind::OutputTooLarge => "output-too-large",
            FailureKind::Start => "start",
            FailureKind::NoResources => "no-resources",
            FailureKind::Host => "host",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an attempt used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// From the start to the end, by the caller's clock.
    pub wall: Duration,
    /// Time on a processor: the guest's own code and the host functions it called.
    pub cpu: Duration,
    /// The most bytes that all memories and tables held together.
    pub peak_memory: usize,
    /// Bytes of log kept, with 64 for each line.
    pub log_bytes: usize,
    /// How often the guest called the host.
    pub host_calls: u64,
    /// Fuel burnt, where the plugin is metered. Of a guest that was interrupted it is the least: code counts what it burns
    /// when it calls something or its fuel runs out.
    pub fuel: Option<u64>,
    /// Bytes of its HTTP requests, heads included, as they were before encryption.
    pub http_sent: u64,
    /// Bytes of the responses, likewise.
    pub http_received: u64,
}
