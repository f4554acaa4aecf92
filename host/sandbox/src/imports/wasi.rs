//! WASI 0.2 for a guest that was granted nothing: clocks, random numbers, and standard streams that become log lines.
//!
//! No directories, no sockets, no names, no environment, no arguments, empty standard input.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, async_trait};

use crate::attempt::Attempt;
use crate::guest::LeaseLost;
use crate::log::LogSource;

/// Bytes a guest may write in one call.
const WRITE_PERMIT: usize = 64 * 1024;

/// A context that grants nothing.
pub(crate) fn context(attempt: &Arc<Attempt>) -> WasiCtx {
    WasiCtxBuilder::new()
        .stdout(Stream { attempt: attempt.clone(), source: LogSource::Stdout })
        .stderr(Stream { attempt: attempt.clone(), source: LogSource::Stderr })
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .socket_addr_check(|_, _| Box::pin(async { false }))
        .max_random_size(attempt.limits.random)
        .build()
}

/// A standard stream: every write is taken at once, cut into lines and bounded.
#[derive(Clone)]
struct Stream {
    attempt: Arc<Attempt>,
    source: LogSource,
}

impl StdoutStream for Stream {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

impl IsTerminal for Stream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl OutputStream for Stream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if self.attempt.signal.is_lost() {
            return Err(StreamError::Trap(LeaseLost.into()));
        }
        self.attempt.log.write(self.source, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_PERMIT)
    }
}

#[async_trait]
impl Pollable for Stream {
    async fn ready(&mut self) {}
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.attempt.log.write(self.source, bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
