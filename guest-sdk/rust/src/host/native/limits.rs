//! What the host refuses whatever it was granted, in its words, as far as that is told without reading a URL as it does.

use crate::StorageError;
use crate::http::{HttpError, Request};

const MAX_KEY: usize = 512;
/// Bytes of a value, and of a checkpoint.
const MAX_VALUE: usize = 1 << 20;
/// Keys in one answer.
const MAX_LIST: usize = 1_000;
const MAX_URL: usize = 8 * 1024;
const MAX_BODY: usize = 1 << 20;
const MAX_HEADERS: usize = 100;
/// Bytes of all headers together.
const MAX_HEADER_BYTES: usize = 64 * 1024;

pub(super) fn key(key: &str) -> Result<(), StorageError> {
    if key.len() > MAX_KEY { Err(StorageError::TooLarge(MAX_KEY as u64)) } else { Ok(()) }
}

pub(super) fn value(value: &[u8]) -> Result<(), StorageError> {
    if value.len() > MAX_VALUE { Err(StorageError::TooLarge(MAX_VALUE as u64)) } else { Ok(()) }
}

pub(super) fn listed(limit: u32) -> usize {
    usize::try_from(limit).map_or(MAX_LIST, |limit| limit.min(MAX_LIST))
}

pub(super) fn url(url: &str) -> Result<(), HttpError> {
    let refuse = |why: String| Err(HttpError::Invalid(format!("the URL cannot be used: {why}")));
    if url.len() > MAX_URL {
        return refuse(format!("it is longer than {MAX_URL} bytes"));
    }
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return refuse("it contains a space or a control character".into());
    }
    match url.split_once(':') {
        None => refuse("it is not a URL: relative URL without a base".into()),
        Some((scheme, _)) if !["https", "http"].contains(&scheme.to_ascii_lowercase().as_str()) => {
            refuse("its scheme is neither https nor http".into())
        }
        Some(_) => Ok(()),
    }
}

pub(super) fn request(request: &Request) -> Result<(), HttpError> {
    if request.body.as_ref().is_some_and(|body| body.len() > MAX_BODY) {
        return Err(HttpError::TooLarge(MAX_BODY as u64));
    }
    let headers = &request.headers;
    if headers.len() > MAX_HEADERS {
        return Err(HttpError::Invalid(format!("it has {} headers, more than {MAX_HEADERS}", headers.len())));
    }
    if headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > MAX_HEADER_BYTES {
        return Err(HttpError::TooLarge(MAX_HEADER_BYTES as u64));
    }
    for (name, value) in headers {
        let of_names = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
        if name.is_empty() || !name.bytes().all(of_names) {
            return Err(HttpError::Invalid(format!("{name:?} is no header's name")));
        }
        if value.bytes().any(|c| c.is_ascii_control() && c != b'\t') {
            return Err(HttpError::Invalid(format!("the header {name} has a value that cannot be sent")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Response;
    use crate::testing;

    #[test]
    fn what_is_too_large_for_the_host_is_not_kept() {
        let run = testing::run();
        let (kv, long, large) = (run.kv(), "k".repeat(MAX_KEY + 1), vec![0; MAX_VALUE + 1]);
        let (of_key, of_value) = (StorageError::TooLarge(512), StorageError::TooLarge(1 << 20));
        assert_eq!(kv.get(&long).unwrap_err(), of_key);
        assert_eq!(kv.set(&long, "").unwrap_err(), of_key);
        assert_eq!(kv.delete(&long).unwrap_err(), of_key);
        assert_eq!(kv.keys(&long, None, 1).unwrap_err(), of_key);
        assert_eq!(kv.keys("", Some(&long), 1).unwrap_err(), of_key);
        assert_eq!(kv.compare_and_set(&long, None, "").unwrap_err(), of_key);
        assert_eq!(kv.set("k", &large).unwrap_err(), of_value);
        assert_eq!(kv.compare_and_set("k", None, &large).unwrap_err(), of_value);
        assert_eq!(run.save_state(&"x".repeat(MAX_VALUE)).unwrap_err().code(), "storage-too-large");
        for key in 0..=MAX_LIST {
            kv.set(&key.to_string(), "").unwrap();
        }
        kv.set(&long[1..], &large[1..]).unwrap();
        assert_eq!(kv.keys("", None, u32::MAX).unwrap().len(), MAX_LIST);
    }

    #[test]
    fn what_the_host_does_not_send_is_not_answered() {
        let run = testing::run();
        testing::answer_requests(|_| Ok(Response::default()));
        let sent = |request: Request| request.send(&run).map_err(|error| error.to_string());
        let get = || Request::get("https://api.example.com/");
        assert_eq!(sent(get().header("x-note", "grüße\t")), Ok(Response::default()));
        for (request, why) in [
            (Request::get("/orders"), "invalid: the URL cannot be used: it is not a URL: relative URL without a base"),
            (Request::get("ftp://a"), "invalid: the URL cannot be used: its scheme is neither https nor http"),
            (
                Request::get("https://a/ b"),
                "invalid: the URL cannot be used: it contains a space or a control character",
            ),
            (get().header("x note", "a"), "invalid: \"x note\" is no header's name"),
            (get().header("x-note", "a\nb"), "invalid: the header x-note has a value that cannot be sent"),
            (get().header("x-note", &"a".repeat(MAX_HEADER_BYTES)), "larger than the 65536 bytes allowed"),
            (get().body(vec![0; MAX_BODY + 1]), "larger than the 1048576 bytes allowed"),
        ] {
            assert_eq!(sent(request), Err(why.to_owned()));
        }
        let many = (0..=MAX_HEADERS).fold(get(), |request, _| request.header("x-note", "a"));
        assert_eq!(sent(many), Err("invalid: it has 101 headers, more than 100".to_owned()));
    }
}
