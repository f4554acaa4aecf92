//! A connection that counts its bytes and is reset when it is given up half-way.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::exchange::MAX_HEAD;
use crate::attempt::Attempt;
use crate::gate::Gate;

/// What is known of a connection outside of it.
pub(super) struct Traffic {
    attempt: Arc<Attempt>,
    gate: Arc<dyn Gate>,
    sent: AtomicU64,
    /// Of those, the ones behind the request's head.
    body_sent: AtomicU64,
    /// What was sent and received of heads that are not complete yet.
    heads: Mutex<Heads>,
    finished: AtomicBool,
}

#[derive(Default)]
struct Heads {
    /// The end of what was sent of the request's head; none once that has gone out whole.
    request: Option<Vec<u8>>,
    /// The first that was received, up to [`MAX_HEAD`]; none once it was understood.
    response: Option<Vec<u8>>,
}

const END_OF_HEAD: &[u8] = b"\r\n\r\n";

impl Traffic {
    /// Of a connection that this attempt is charged for.
    pub(super) fn new(attempt: Arc<Attempt>, gate: Arc<dyn Gate>) -> Traffic {
        let heads = Heads { request: Some(Vec::new()), response: Some(Vec::new()) };
        let (sent, body_sent) = (AtomicU64::new(0), AtomicU64::new(0));
        Traffic { attempt, gate, sent, body_sent, heads: Mutex::new(heads), finished: AtomicBool::new(false) }
    }

    /// Bytes of HTTP sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether a request has gone out whole, with a body of this many bytes.
    pub(super) fn is_sent(&self, body: u64) -> bool {
        self.heads().request.is_none() && self.body_sent.load(Ordering::Relaxed) >= body
    }

    /// What was received of the response's head so far, and is forgotten with this.
    pub(super) fn take_response_head(&self) -> Vec<u8> {
        self.heads().response.take().unwrap_or_default()
    }

    fn note_sent(&self, bytes: &[u8]) {
        self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.attempt.count_sent(bytes.len() as u64);
        let mut heads = self.heads();
        let Some(head) = &mut heads.request else {
            self.body_sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            return;
        };
        // Its end may have come in pieces.
        let before = head.len();
        head.extend_from_slice(bytes);
        match head.windows(END_OF_HEAD.len()).position(|at| at == END_OF_HEAD) {
            Some(end) => {
                let body = head.len() - (end + END_OF_HEAD.len());
                debug_assert!(body <= bytes.len() && end + END_OF_HEAD.len() > before);
                self.body_sent.fetch_add(body as u64, Ordering::Relaxed);
                heads.request = None;
            }
            None => drop(head.drain(..head.len().saturating_sub(END_OF_HEAD.len() - 1))),
        }
    }

    fn note_received(&self, bytes: &[u8]) {
        self.attempt.count_received(bytes.len() as u64);
        if let Some(head) = &mut self.heads().response {
            let room = MAX_HEAD - head.len();
            head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn heads(&self) -> MutexGuard<'_, Heads> {
        // Nothing in between can panic half-way.
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All was received: the connection is closed in peace.
    pub(super) fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }
}

/// The connection under a request.
pub(super) struct Stream {
    inner: Inner,
    traffic: Arc<Traffic>,
}

enum Inner {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(super) fn plain(tcp: TcpStream, traffic: Arc<Traffic>) -> Stream {
        Stream { inner: Inner::Plain(tcp), traffic }
    }

    pub(super) fn tls(tls: TlsStream<TcpStream>, traffic: Arc<Traffic>) -> Stream {
        Stream { inner: Inner::Tls(Box::new(tls)), traffic }
    }

    fn tcp(&self) -> &TcpStream {
        match &self.inner {
            Inner::Plain(tcp) => tcp,
            Inner::Tls(tls) => tls.get_ref().0,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.traffic.finished.load(Ordering::Relaxed) {
            // What still waits in the system's buffer must not go out: a reset instead of a farewell. Where that fails, the
            // connection is gone already.
            let _ = self.tcp().set_zero_linger();
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = match &mut self.inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Inner::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        };
        self.traffic.note_received(&buf.filled()[before..]);
        polled
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // Much may lie between the last look and this one, for a process that is stopped or gets no processor. Who waits for
        // the request looks again at once, and knows what to make of it.
        if !self.traffic.gate.is_open() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = match &mut self.inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Inner::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        };
        if let Poll::Ready(Ok(sent)) = polled {
            self.traffic.note_sent(&bytes[..sent]);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Inner::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Inner::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::attempt::tests::attempt;
    use crate::gate::{Lost, OpenGate};
    use crate::limits::Limits;

    /// Open for this many questions.
    struct OpenFor(AtomicU64);

    #[async_trait::async_trait]
    impl Gate for OpenFor {
        async fn pass(&self) -> Result<(), Lost> {
            Ok(())
        }

        async fn in_doubt(&self) {}

        fn is_open(&self) -> bool {
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
        }
    }

    #[tokio::test]
    async fn nothing_is_written_once_the_gate_is_shut_and_who_waits_is_woken() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let tcp = TcpStream::connect(listener.local_addr().expect("it has one")).await.expect("it listens");
        let (mut server, _) = listener.accept().await.expect("it was connected");
        let traffic = Arc::new(Traffic::new(attempt(Limits::default()), Arc::new(OpenFor(AtomicU64::new(1)))));
        let mut stream = Stream::plain(tcp, traffic.clone());
        stream.write_all(b"a").await.expect("it is open");
        let woken = Arc::new(Woken::default());
        let waker = woken.clone().into();
        let polled = Pin::new(&mut stream).poll_write(&mut Context::from_waker(&waker), b"b");
        assert!(polled.is_pending() && woken.0.load(Ordering::Relaxed));
        traffic.finish();
        drop(stream);
        let mut received = Vec::new();
        server.read_to_end(&mut received).await.expect("the end");
        assert_eq!((received.as_slice(), traffic.sent()), (&b"a"[..], 1));
    }

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_body_begins_behind_the_head_however_both_are_cut_to_pieces() {
        let sent = b"POST / HTTP/1.1\r\na: b\r\n\r\nbo\r\n\r\ndy";
        for size in 1..=sent.len() {
            let traffic = Traffic::new(attempt(Limits::default()), Arc::new(OpenGate));
            sent.chunks(size).for_each(|piece| traffic.note_sent(piece));
            assert_eq!(traffic.sent(), sent.len() as u64, "pieces of {size}");
            assert!(traffic.is_sent(8) && !traffic.is_sent(9), "pieces of {size}");
        }
    }

    #[test]
    fn no_more_is_kept_of_a_response_than_a_head_may_have() {
        let traffic = Traffic::new(attempt(Limits::default()), Arc::new(OpenGate));
        for _ in 0..3 {
            traffic.note_received(&[b'x'; MAX_HEAD / 2 + 1]);
        }
        assert_eq!(traffic.take_response_head().len(), MAX_HEAD);
        traffic.note_received(b"more");
        assert_eq!(traffic.take_response_head(), b"");
    }
}
