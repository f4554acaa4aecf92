//! What host and compiler say to each other: a request as an argument, the bytes on standard input, an answer on standard
//! output. Both sides are the same version of the same program, so there is no version in it.

use serde::{Deserialize, Serialize};

use super::CompileLimits;
use crate::refusal::Counted;
use crate::scan::Structure;
use crate::text;

/// The most bytes of an answer that are read: names enough for the largest plugin that may be.
pub(super) const MAX_ANSWER: usize = 2 * 1024 * 1024;
const MAX_DETAIL: usize = 2 * 1024;

/// What is to be compiled, and how.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// The host's process, with which the compiler ends.
    pub(super) parent: u32,
    /// What compiled code must fit: [`engine::compatibility`](crate::engine::compatibility).
    pub(super) engine: String,
    /// The code counts fuel.
    pub(super) metered: bool,
    /// How many bytes come on standard input.
    pub(super) size: u64,
    /// The file in the working folder that takes the machine code. It is there already, and empty.
    pub(super) output: String,
    pub(super) limits: CompileLimits,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Answer {
    /// The machine code is in its file.
    Compiled { structure: Structure, artifact: Artifact },
    /// The bytes are no plugin.
    Refused { structure: Structure, why: Why },
    /// The bytes may be good: this process failed.
    Failed { detail: String, os_error: Option<i32> },
}

/// Machine code in a file, its checksum behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Artifact {
    /// Bytes of machine code, without the checksum.
    pub(crate) size: u64,
    pub(crate) checksum: u32,
}

/// Why bytes are no plugin, as far as it takes a compiler to see it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Why {
    /// Imports and exports do not fit: the structure tells how.
    Unfit,
    Truncated,
    TooComplex {
        what: Counted,
        found: u64,
        limit: u64,
    },
    Invalid {
        detail: String,
    },
    /// A core module that could not be made a component.
    Componentize {
        detail: String,
    },
    Compile {
        detail: String,
    },
    /// More memory than the compiler may have.
    Memory,
    /// More machine code than may be written.
    Output,
    Panicked {
        detail: String,
    },
}

impl Answer {
    /// Reads an answer and bounds every string in it again: it comes from a process that handled hostile bytes.
    pub(super) fn read(said: &[u8]) -> Result<Answer, serde_json::Error> {
        let mut answer = serde_json::from_slice(said)?;
        match &mut answer {
            Answer::Compiled { structure, .. } => structure.bound(),
            Answer::Refused { structure, why } => {
                structure.bound();
                match why {
                    Why::Invalid { detail }
                    | Why::Componentize { detail }
                    | Why::Compile { detail }
                    | Why::Panicked { detail } => *detail = shown(detail),
                    Why::Unfit | Why::Truncated | Why::TooComplex { .. } | Why::Memory | Why::Output => {}
                }
            }
            Answer::Failed { detail, .. } => *detail = shown(detail),
        }
        Ok(answer)
    }
}

/// A text from a compiler, or from the file it read, safe to show on one line.
pub(super) fn shown(text: &str) -> String {
    text::bound(&text::escape(&text.replace('\n', "; ")), MAX_DETAIL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let structure = Structure { imports: vec!["a:b/c".to_owned()], ..Structure::default() };
        let artifact = Artifact { size: 7, checksum: u32::MAX };
        let said = serde_json::to_vec(&Answer::Compiled { structure, artifact }).unwrap();
        let Ok(Answer::Compiled { structure, artifact: read }) = Answer::read(&said) else { panic!("another answer") };
        assert_eq!((structure.imports.as_slice(), read), (["a:b/c".to_owned()].as_slice(), artifact));
    }

    #[test]
    fn what_a_taken_over_compiler_says_is_bounded_and_steers_no_terminal() {
        let names = vec!["\u{1b}[2J".repeat(10_000); 5_000];
        let structure = Structure { imports: names, ..Structure::default() };
        let why = Why::Invalid { detail: "one\ntwo\u{1b}".repeat(10_000) };
        let said = serde_json::to_vec(&Answer::Refused { structure, why }).unwrap();
        let Ok(Answer::Refused { structure, why: Why::Invalid { detail } }) = Answer::read(&said) else {
            panic!("another answer")
        };
        assert!(structure.imports.len() <= 1_000 && structure.imports[0].len() <= 256);
        assert!(detail.len() <= MAX_DETAIL);
        assert!(!detail.contains(char::is_control) && !structure.imports[0].contains(char::is_control));
        for garbage in ["", "{}", "null", r#"{"compiled":{}}"#, r#"{"failed":{"detail":"x","os_error":null}} x"#] {
            assert!(Answer::read(garbage.as_bytes()).is_err(), "{garbage}");
        }
    }
}
