//! A job without any SDK: it knows nothing of Leasehold but a few variables. It counts the words of its input.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot count: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    // Standard input is the payload.
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let words = count(&text);
    // Standard error is the log.
    let job = std::env::var("LEASEHOLD_JOB").unwrap_or_else(|_| "no job".to_owned());
    let attempt = std::env::var("LEASEHOLD_ATTEMPT").unwrap_or_else(|_| "no".to_owned());
    eprintln!("{job}, attempt {attempt}: {} words, {} of them different", words.values().sum::<u64>(), words.len());
    // Standard output, all of it, is the output.
    let mut out = io::stdout().lock();
    for (word, times) in words {
        writeln!(out, "{times} {word}")?;
    }
    out.flush()
}

fn count(text: &str) -> BTreeMap<String, u64> {
    let mut words = BTreeMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        *words.entry(word.to_lowercase()).or_default() += 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_whatever_their_case() {
        let words: Vec<_> = count("Grüße, grüße! And words.").into_iter().collect();
        assert_eq!(words, [("and".to_owned(), 1), ("grüße".to_owned(), 2), ("words".to_owned(), 1)]);
    }
}
