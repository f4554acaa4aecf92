//! Names and numbers that identify: tenants, jobs, runs, attempts, tokens, fences.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::time::{Millis, Slot};

/// Bytes as hexadecimal digits, two each.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    digits.map(char::from).collect()
}

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {:?} is not a name: {reason}; use {}", shown(.text), form(.what))]
pub struct NameError {
    /// What it was to name: "tenant", "job", "run id", "plugin name".
    pub what: &'static str,
    /// What was given.
    pub text: String,
    /// Which rule it breaks.
    pub reason: &'static str,
}

/// What such a name may be.
fn form(what: &str) -> &'static str {
    match what {
        RUN_ID => "1 to 128 visible characters of ASCII",
        _ => "1 to 64 of a-z 0-9 . _ - and begin with a letter or digit",
    }
}

const RUN_ID: &str = "run id";

/// A foreign text as far as an error message may repeat it.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

/// `[a-z0-9][a-z0-9._-]{0,63}`, the one form of tenants' and jobs' names.
fn check_name(what: &'static str, text: &str) -> Result<(), NameError> {
    let refuse = |reason| Err(NameError { what, text: text.to_owned(), reason });
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    match text.as_bytes() {
        [] => refuse("it is empty"),
        b if b.len() > 64 => refuse("it is longer than 64 bytes"),
        [first, ..] if !plain(*first) => refuse("it does not begin with a letter a-z or a digit"),
        b if b.iter().all(|b| plain(*b) || matches!(b, b'.' | b'_' | b'-')) => Ok(()),
        _ => refuse("it has a character that is not allowed"),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl FromStr for $type {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                check_name($what, text).map(|()| Self(text.to_owned()))
            }
        }
        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }
        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// Who owns a job: the name of a folder in the plugin directory, `[a-z0-9][a-z0-9._-]{0,63}`.
    TenantName,
    "tenant"
);
name!(
    /// A job's name within its tenant, `[a-z0-9][a-z0-9._-]{0,63}`.
    JobName,
    "job"
);

/// A job among all jobs of a store: `tenant/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobKey {
    /// The tenant.
    pub tenant: TenantName,
    /// The job's name within the tenant.
    pub name: JobName,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.name)
    }
}

/// Reads `tenant/name`, or `name` for the tenant `default`.
impl FromStr for JobKey {
    type Err = NameError;
    fn from_str(text: &str) -> Result<JobKey, NameError> {
        let (tenant, name) = text.split_once('/').unwrap_or(("default", text));
        Ok(JobKey { tenant: tenant.parse()?, name: name.parse()? })
    }
}

/// A run within its job.
///
/// Scheduled runs sort before on-demand ones and among themselves by slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RunId {
    /// Due by schedule at this slot.
    Slot(Slot),
    /// Asked for by someone, who chose the id.
    OnDemand(DemandId),
}

impl RunId {
    /// The slot of a scheduled run.
    pub fn slot(&self) -> Option<Slot> {
        match self {
            RunId::Slot(slot) => Some(*slot),
            RunId::OnDemand(_) => None,
        }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunId::Slot(slot) => slot.fmt(f),
            RunId::OnDemand(id) => f.write_str(id.as_str()),
        }
    }
}

/// The id of an on-demand run: 1 to 128 visible ASCII characters, chosen by the caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DemandId(String);

impl DemandId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DemandId {
    type Err = NameError;
    fn from_str(text: &str) -> Result<DemandId, NameError> {
        let refuse = |reason| Err(NameError { what: RUN_ID, text: text.to_owned(), reason });
        match text.len() {
            0 => refuse("it is empty"),
            129.. => refuse("it is longer than 128 bytes"),
            _ if text.bytes().all(|b| b.is_ascii_graphic()) => Ok(DemandId(text.to_owned())),
            _ => refuse("it has a character that is not visible ASCII"),
        }
    }
}

/// One run among all runs of a store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// Its job.
    pub job: JobKey,
    /// The run within the job.
    pub run: RunId,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.job, self.run)
    }
}

/// The n-th start of a run, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub u32);

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// 128 random bits made by the claimer, new for every attempt: a secret between one host and the store.
///
/// Compared in constant time; printed nowhere.
#[derive(Clone, Copy, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub [u8; 16]);

impl PartialEq for Token {
    fn eq(&self, other: &Token) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

/// A number that grows from win to win of a job, so that a receiver can refuse the older of two writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u64);

impl Fence {
    /// The fence of a win: `max(last + 1, slot in ms × 1024 + attempt)`; for on-demand runs the trigger time stands in
    /// for the slot. S8: it is above every fence the job has given out.
    pub fn after(last: Fence, due: Millis, attempt: Attempt) -> Fence {
        let due = u64::try_from(due.0).unwrap_or(0);
        let by_time = due.saturating_mul(1024).saturating_add(u64::from(attempt.0));
        Fence(by_time.max(last.0.saturating_add(1)))
    }
}

/// The SHA-256 of a plugin's file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_alphabet_are_refused_with_the_reason() {
        for bad in ["", "a/b", "a}", "A", ".hidden", "-x", "a b", "ä", &"x".repeat(65)] {
            assert!(bad.parse::<JobName>().is_err(), "{bad:?}");
        }
        for good in ["a", "0", "nightly-report", "v1.2_x", &"x".repeat(64)] {
            assert!(good.parse::<JobName>().is_ok(), "{good:?}");
        }
        let error = "a/b/c".parse::<JobKey>().unwrap_err();
        assert!(error.to_string().contains("job \"b/c\" is not a name"), "{error}");
    }

    #[test]
    fn a_job_without_a_tenant_belongs_to_default() {
        assert_eq!("hello".parse::<JobKey>().unwrap().to_string(), "default/hello");
        assert_eq!("acme/hello".parse::<JobKey>().unwrap().to_string(), "acme/hello");
    }

    #[test]
    fn a_token_is_not_printed() {
        assert_eq!(format!("{:?}", Token([7; 16])), "Token(***)");
    }

    #[test]
    fn a_fence_grows_even_when_the_clock_does_not() {
        let first = Fence::after(Fence::default(), Millis(1_000), Attempt(1));
        assert_eq!(first, Fence(1_024_001));
        assert_eq!(Fence::after(first, Millis(0), Attempt(1)), Fence(1_024_002));
    }
}
