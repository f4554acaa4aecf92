//! A connection that counts its bytes and is reset when it is given up half-way.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::attempt::Attempt;

/// What is known of a connection outside of it.
pub(super) struct Traffic {
    attempt: Arc<Attempt>,
    sent: AtomicU64,
    finished: AtomicBool,
}

impl Traffic {
    /// Of a connection that this attempt is charged for.
    pub(super) fn new(attempt: Arc<Attempt>) -> Traffic {
        Traffic { attempt, sent: AtomicU64::new(0), finished: AtomicBool::new(false) }
    }

    /// Bytes of HTTP sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
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
        self.traffic.attempt.count_received((buf.filled().len() - before) as u64);
        polled
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = match &mut self.inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Inner::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        };
        if let Poll::Ready(Ok(sent)) = polled {
            self.traffic.sent.fetch_add(sent as u64, Ordering::Relaxed);
            self.traffic.attempt.count_sent(sent as u64);
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
