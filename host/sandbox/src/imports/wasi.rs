//! WASI 0.2 for a guest that was granted nothing: clocks, random numbers, and standard streams that become log lines.
//!
//! No directories, no sockets, no names, no environment, no arguments, empty standard input. But a WASI command has its payload on
//! standard input, facts of its run in the environment and its job's name as the program's, and what it writes to standard
//! output is its output.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, async_trait};

use crate::attempt::Attempt;
use crate::command;
use crate::guest::LeaseLost;
use crate::invocation::RunFacts;
use crate::limits::Breach;
use crate::log::LogSource;

/// Bytes a guest may write in one call.
const WRITE_PERMIT: usize = 64 * 1024;

/// A context that grants nothing.
pub(crate) fn context(attempt: &Arc<Attempt>) -> WasiCtx {
    builder(attempt).build()
}

/// A context for a WASI command.
pub(crate) fn command_context(attempt: &Arc<Attempt>, run: &RunFacts, input: Vec<u8>) -> WasiCtx {
    let input = MemoryInputPipe::new(input);
    builder(attempt).stdin(input).envs(&command::variables(run)).arg(&run.job).build()
}

fn builder(attempt: &Arc<Attempt>) -> WasiCtxBuilder {
    let mut builder = WasiCtxBuilder::new();
    builder
        .stdout(Stream { attempt: attempt.clone(), source: LogSource::Stdout })
        .stderr(Stream { attempt: attempt.clone(), source: LogSource::Stderr })
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .socket_addr_check(|_, _| Box::pin(async { false }))
        .max_random_size(attempt.limits.random);
    builder
}

/// A standard stream: every write is taken at once, and bounded. It is cut into lines of the log, or the output of a command.
#[derive(Clone)]
struct Stream {
    attempt: Arc<Attempt>,
    source: LogSource,
}

impl Stream {
    fn take(&self, bytes: &[u8]) -> Result<(), Breach> {
        match &self.attempt.written {
            Some(written) if self.source == LogSource::Stdout => written.write(bytes),
            _ => {
                self.attempt.log.write(self.source, bytes);
                Ok(())
            }
        }
    }
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
        self.take(&bytes).map_err(|breach| StreamError::Trap(breach.into()))
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
        Poll::Ready(self.take(bytes).map(|()| bytes.len()).map_err(io::Error::other))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
