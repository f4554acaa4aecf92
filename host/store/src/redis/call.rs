//! One question to the server: a script with its arguments, or a plain command.

use redis::{Cmd, ToRedisArgs};

use super::scripts::Script;

/// A question.
pub(super) struct Call {
    cmd: Cmd,
    /// What is run, where it is not a plain command.
    script: Option<&'static Script>,
}

/// How many keys a script is told of.
const KEYS: usize = 2;

/// What stands before the number of keys in a call of a script: the command, and the script.
const BEFORE_KEYS: usize = 2;

impl Call {
    /// Runs this script on the keys that begin with `prefix`.
    ///
    /// Two keys are declared, and neither ever exists. While a cluster moves a slot, the server that gives it away has
    /// neither and sends the call on, and the one that takes it serves no call of several keys of which it lacks one:
    /// so no script runs, and finds half of a job, before the slot has moved.
    pub(super) fn script(script: &'static Script, prefix: &str) -> Call {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&script.hash).arg(KEYS).arg(prefix).arg([prefix, "never"].concat());
        Call { cmd, script: Some(script) }
    }

    /// A command of the server.
    pub(super) fn plain(name: &str) -> Call {
        Call { cmd: redis::cmd(name), script: None }
    }

    /// The same with one more argument.
    pub(super) fn arg(mut self, arg: impl ToRedisArgs) -> Call {
        self.cmd.arg(arg);
        self
    }

    /// What is sent.
    pub(super) fn cmd(&self) -> &Cmd {
        &self.cmd
    }

    /// The same with the script's text in it, for a server that has lost its scripts. The server keeps it then. In a
    /// cluster it reaches the server that wants it, which SCRIPT LOAD would not.
    pub(super) fn in_full(&self) -> Option<Cmd> {
        let script = self.script?;
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(&script.source);
        for arg in self.cmd.args_iter().skip(BEFORE_KEYS) {
            if let redis::Arg::Simple(bytes) = arg {
                cmd.arg(bytes);
            }
        }
        Some(cmd)
    }
}

/// The largest number that goes to a script: it can add two of them and stay exact.
const LARGEST: u64 = 1 << 52;

/// A number as a script can hold it. Nothing that is compared with the store's clock is larger in earnest: this is some
/// 140 000 years.
pub(super) fn bounded(number: u64) -> u64 {
    number.min(LARGEST)
}

/// The same for an instant.
pub(super) fn instant(ms: i64) -> i64 {
    ms.clamp(-LARGEST.cast_signed(), LARGEST.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::scripts::SCRIPTS;

    #[test]
    fn a_script_in_full_has_the_same_keys_and_arguments() {
        let call = Call::script(&SCRIPTS.now, "k:").arg("a").arg(7);
        let full = call.in_full().expect("it is a script");
        let words: Vec<_> = full.args_iter().collect();
        let expected = ["EVAL", &SCRIPTS.now.source, "2", "k:", "k:never", "a", "7"];
        assert_eq!(words.len(), expected.len());
        for (word, expected) in words.iter().zip(expected) {
            assert!(matches!(word, redis::Arg::Simple(bytes) if *bytes == expected.as_bytes()));
        }
        assert!(Call::plain("GET").in_full().is_none());
    }
}
