//! A server that takes every connection and never says a word.

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::ServerError;
use crate::proxy::own_runtime;

/// As many connections are held open; the oldest goes first.
const CONNECTIONS: usize = 1024;

/// Accepts connections and never answers, until it is dropped.
#[derive(Debug)]
pub struct Tarpit {
    port: u16,
    runtime: Option<Runtime>,
}

impl Tarpit {
    /// Starts one on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// Where nothing can listen there.
    pub async fn start() -> Result<Tarpit, ServerError> {
        let runtime = own_runtime()?;
        let listening = runtime.spawn(TcpListener::bind(("127.0.0.1", 0))).await;
        let listener = listening.map_err(std::io::Error::other).flatten().map_err(ServerError::Listen)?;
        let port = listener.local_addr().map_err(ServerError::Listen)?.port();
        runtime.spawn(hold(listener));
        Ok(Tarpit { port, runtime: Some(runtime) })
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Tarpit {
    fn drop(&mut self) {
        // Does not wait, which a drop inside of another runtime must not.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn hold(listener: TcpListener) {
    let mut held = std::collections::VecDeque::<TcpStream>::new();
    while let Ok((stream, _)) = listener.accept().await {
        if held.len() == CONNECTIONS {
            held.pop_front();
        }
        held.push_back(stream);
    }
}
