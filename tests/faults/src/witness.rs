//! A server outside the cluster that keeps what handlers did to it.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::clock;
use crate::record::{Effect, Record};

/// Answers every request of a handler with success and keeps who sent it. It has a thread of its own.
#[derive(Debug)]
pub struct Witness {
    port: u16,
    runtime: Option<Runtime>,
}

/// A head is far shorter.
const HEAD_MAX: usize = 16 << 10;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

impl Witness {
    /// On a port of its own, until it is dropped.
    ///
    /// # Panics
    /// Nothing can listen on 127.0.0.1.
    pub async fn start(record: Arc<Record>) -> Witness {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread");
        let listening = runtime.spawn(TcpListener::bind("127.0.0.1:0")).await;
        let listener = listening.expect("binding does not panic").expect("a loopback port");
        let port = listener.local_addr().expect("it is bound").port();
        runtime.spawn(async move {
            loop {
                // Too many connections at once: those that are there end soon.
                let Ok((stream, _)) = listener.accept().await else { continue };
                tokio::spawn(serve(stream, Arc::clone(&record)));
            }
        });
        Witness { port, runtime: Some(runtime) }
    }

    /// Where it listens, as an origin.
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(mut stream: TcpStream, record: Arc<Record>) {
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(read) if read > 0 && head.len() < HEAD_MAX => head.extend(&buffer[..read]),
            // A host that is gone, or that has thought better of it: nothing was asked.
            _ => return,
        }
    }
    let at = clock::mono();
    if let Some(effect) = read(&String::from_utf8_lossy(&head), at) {
        record.effect(effect);
        // A host that is frozen or gone takes no answer.
        let _ = stream.write_all(OK).await;
    }
}

/// `POST /ACT`, with `x-leasehold-run: STORE/tenant/jN/SLOT`.
fn read(head: &str, at: std::time::Duration) -> Option<Effect> {
    let act = head.strip_prefix("POST /")?.split(' ').next()?.parse().ok()?;
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let mut run = header("x-leasehold-run")?.rsplit('/');
    let (slot, job) = (instant(run.next()?)?, job_number(run.next()?)?);
    let attempt = header("x-leasehold-attempt")?.parse().ok()?;
    let fence = header("x-leasehold-fence")?.parse().ok()?;
    Some(Effect { at, job, slot, attempt, fence, act, key: header("idempotency-key")?.to_owned() })
}

/// An instant of RFC 3339 in ms since the epoch.
pub(crate) fn instant(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(|at| at.as_millisecond())
}

/// The number of the job `jN`.
pub(crate) fn job_number(name: &str) -> Option<usize> {
    name.strip_prefix('j')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_is_read_from_a_request_and_nothing_from_half_of_one() {
        let head = "POST /3 HTTP/1.1\r\nHost: x\r\nX-Leasehold-Run: id/default/j7/1970-01-01T00:00:01.000Z\r\n\
                    x-leasehold-attempt: 2\r\nx-leasehold-fence: 1026\r\nidempotency-key: k\r\n\r\n";
        let at = std::time::Duration::from_secs(1);
        let effect = Effect { at, job: 7, slot: 1_000, attempt: 2, fence: 1_026, act: 3, key: "k".into() };
        assert_eq!(read(head, at), Some(effect));
        assert_eq!(read(&head.replace("-fence", "-fenc"), at), None);
        assert_eq!(read("GET / HTTP/1.1\r\n\r\n", at), None);
    }
}
