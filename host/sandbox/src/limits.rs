//! What one attempt may use.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// What one attempt may use. [`Limits::default`] holds the values that are documented for people.
///
/// A guest's stack is the same for all, 512 KiB, because it belongs to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long the attempt may take, from its start. The guest is asked to stop [a little earlier](Limits::soft_deadline).
    pub timeout: Duration,
    /// Processor time: the guest's own code and the host functions it calls. None is as much as the timeout lets it have.
    pub cpu: Option<Duration>,
    /// Fuel, about one for each instruction executed: the same for the same work on every machine. None is without end.
    /// Only a plugin that was loaded [metered](crate::Sandbox::load_bytes_metered) can be given a limit.
    pub fuel: Option<u64>,
    /// Bytes of all memories and tables of the attempt together.
    pub memory: usize,
    /// Calls of the host a second, averaged from the start: [a minute's worth](Limits::host_calls_within) may come at once.
    pub host_calls: u32,
    /// Live handles of components, and entries of the host's own table.
    pub handles: usize,
    /// Random bytes in one call.
    pub random: u64,
    /// Bytes of input.
    pub payload: usize,
    /// Bytes of output.
    pub output: usize,
    /// Bytes of log kept of the attempt; each line counts 64 bytes more than its text.
    pub log: usize,
    /// Bytes of one log line: target, message and fields together.
    pub log_line: usize,
    /// Bytes of an error's code.
    pub error_code: usize,
    /// Bytes of an error's message.
    pub error_message: usize,
    /// How many details an error may have.
    pub error_details: usize,
    /// Bytes of one detail, its key and its value together.
    pub error_detail: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            timeout: Duration::from_secs(5 * 60),
            cpu: None,
            fuel: None,
            memory: 128 * MIB,
            // A call costs the host 0.1 to 1 µs and carries work of the guest's own: who makes two million a second for more
            // than a minute does nothing but call.
            host_calls: 2_000_000,
            handles: 10_000,
            random: 64 * KIB as u64,
            payload: MIB,
            output: MIB,
            log: MIB,
            log_line: 8 * KIB,
            error_code: 64,
            error_message: 8 * KIB,
            error_details: 32,
            error_detail: KIB,
        }
    }
}

/// How much of its calls a guest may make at once, in seconds' worth.
const CALLS_AT_ONCE: u64 = 60;

impl Limits {
    /// When the guest is asked to stop: the smaller of a second and a tenth of the timeout before it.
    pub fn soft_deadline(&self) -> Duration {
        self.timeout - (self.timeout / 10).min(Duration::from_secs(1))
    }

    /// How many calls of the host an attempt may have made this long after its start: a minute's worth and what has
    /// accrued since.
    pub fn host_calls_within(&self, elapsed: Duration) -> u64 {
        let rate = u64::from(self.host_calls);
        let accrued = u128::from(rate) * elapsed.as_millis() / 1_000;
        (rate * CALLS_AT_ONCE).saturating_add(u64::try_from(accrued).unwrap_or(u64::MAX))
    }

    /// Bytes a guest may hand to the host in one call before nothing of it is even looked at. It is several times what any
    /// call takes, so that a call which is too large is answered as that: a checkpoint of a mebibyte is four as a list of
    /// numbers in JSON.
    pub(crate) fn hostcall_fuel(&self) -> usize {
        self.payload.max(7 * MIB).saturating_add(MIB)
    }

    /// Bytes a handler's result may have before it is not even copied out of the guest.
    pub(crate) fn result_fuel(&self) -> usize {
        self.output.saturating_add(MIB)
    }
}

/// A limit that the host itself watches was broken: the guest traps with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Breach {
    /// [`Limits::cpu`].
    #[error("the guest used more processor time than the {limit:?} it may have")]
    Cpu {
        /// How much that is.
        limit: Duration,
    },
    /// [`Limits::host_calls`].
    #[error("the guest called the host more often than {rate} times a second and a minute's worth at once")]
    Budget {
        /// The limit.
        rate: u32,
    },
    /// [`Limits::output`], on standard output.
    #[error("the guest wrote more than the {limit} bytes of output that it may have to standard output")]
    Output {
        /// The limit.
        limit: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_deadline_is_a_tenth_but_at_most_a_second_early() {
        let soft = |timeout| Limits { timeout, ..Limits::default() }.soft_deadline();
        assert_eq!(soft(Duration::from_secs(5)), Duration::from_millis(4_500));
        assert_eq!(soft(Duration::from_secs(300)), Duration::from_secs(299));
    }

    #[test]
    fn a_minute_s_worth_of_calls_may_come_at_once_and_more_accrue() {
        let limits = Limits { host_calls: 10, ..Limits::default() };
        assert_eq!(limits.host_calls_within(Duration::ZERO), 600);
        assert_eq!(limits.host_calls_within(Duration::from_millis(1_500)), 615);
        let most = Limits { host_calls: u32::MAX, ..limits };
        assert_eq!(most.host_calls_within(Duration::MAX), u64::MAX);
    }
}
