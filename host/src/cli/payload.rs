//! A payload on the command line: JSON, or a file's bytes.

use std::io::Read;
use std::path::Path;

use leasehold::regular_file;
use serde_json::value::RawValue;

use super::error::CliError;

/// Reads JSON as it is written, or after `@` the bytes of a file, of which no more than a byte beyond `most` is read.
///
/// # Errors
/// It is no JSON, or the file cannot be read.
pub(super) fn read(text: &str, most: u64) -> Result<Vec<u8>, CliError> {
    let Some(file) = text.strip_prefix('@') else {
        serde_json::from_str::<&RawValue>(text).map_err(CliError::PayloadJson)?;
        return Ok(text.as_bytes().to_vec());
    };
    let file = Path::new(file);
    let mut bytes = Vec::new();
    let read = regular_file::open(file).and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|source| CliError::PayloadFile { path: file.to_owned(), source })
}
