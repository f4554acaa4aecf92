//! Errors as people read them.

use std::error::Error;

/// An error and its causes on one line.
pub fn chain(error: &dyn Error) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_told = cause.to_string();
        // A transparent error says what its source says.
        if !told.ends_with(&cause_told) {
            told = format!("{told}: {cause_told}");
        }
        next = cause.source();
    }
    told
}
