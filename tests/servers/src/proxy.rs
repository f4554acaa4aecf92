//! A network between a client and a server, which fails on demand.

mod connection;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::ServerError;
use crate::port::Port;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Requests: from the client to the server.
    ToServer,
    /// Answers: from the server to the client.
    ToClient,
}

/// A proxy for TCP on loopback, on a thread of its own, so that no test's runtime can slow or stop it.
///
/// What a cut holds back is not lost: it arrives after [`Proxy::heal`], as TCP would repeat it, unless
/// [`Proxy::drop_connections`] came first. A held direction holds the end of a connection as well: a peer that dies
/// behind it is not missed.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    line: Arc<Line>,
    runtime: Option<Runtime>,
}

/// What the proxy and its connections share.
#[derive(Debug)]
struct Line {
    server: u16,
    settings: watch::Sender<Settings>,
    /// Whether clients can connect, which follows the settings a moment later.
    listens: watch::Sender<bool>,
    /// Connections of which something waits because of a hold, each way.
    held: [watch::Sender<usize>; 2],
}

#[derive(Debug, Clone, Copy, Default)]
struct Settings {
    refuses: bool,
    holds: [bool; 2],
    delay: Duration,
    /// Connections end that began under a lower number.
    era: u64,
}

impl Proxy {
    /// Starts one in front of `server`, a port on 127.0.0.1. Whether anybody listens there matters when a client comes.
    ///
    /// # Errors
    ///
    /// Where nothing can listen on 127.0.0.1.
    pub async fn start(server: u16) -> Result<Proxy, ServerError> {
        let port = Port::reserve()?;
        let runtime = own_runtime()?;
        let held = [watch::Sender::new(0), watch::Sender::new(0)];
        let line = Line { server, settings: watch::Sender::default(), listens: watch::Sender::new(false), held };
        let line = Arc::new(line);
        let number = port.number();
        let listening = runtime.spawn(TcpListener::bind(("127.0.0.1", number))).await;
        let listener = listening.map_err(std::io::Error::other).flatten().map_err(ServerError::Listen)?;
        line.listens.send_replace(true);
        runtime.spawn(serve(listener, number, line.clone()));
        Ok(Proxy { port, line, runtime: Some(runtime) })
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The URL of the server with the proxy's port in place of its own.
    pub fn url(&self, server: &str) -> String {
        server.replace(&format!("127.0.0.1:{}", self.line.server), &format!("127.0.0.1:{}", self.port()))
    }

    /// Silence both ways, as when a cable is pulled: connections stay open and nothing arrives.
    ///
    /// A new connection seems to be taken, since the system takes it, and stays without an answer.
    pub fn blackhole(&self) {
        self.line.settings.send_modify(|settings| settings.holds = [true, true]);
    }

    /// Silence one way. With [`Direction::ToClient`] requests are carried out and their answers stay away.
    pub fn hold(&self, direction: Direction) {
        self.line.settings.send_modify(|settings| settings.holds[direction as usize] = true);
    }

    /// Waits until something is held back that goes this way: a request that was sent, an answer that was given.
    pub async fn wait_held(&self, direction: Direction) {
        let mut held = self.line.held[direction as usize].subscribe();
        held.wait_for(|&connections| connections > 0).await.expect("the sender lives as long as the proxy");
    }

    /// Everything takes `delay` longer, each way.
    pub fn delay(&self, delay: Duration) {
        self.line.settings.send_modify(|settings| settings.delay = delay);
    }

    /// Resets all connections, and with them what was held back. New ones can be made.
    pub fn drop_connections(&self) {
        self.line.settings.send_modify(|settings| settings.era += 1);
    }

    /// Resets all connections and refuses new ones, as a machine does whose server is down.
    pub async fn refuse(&self) {
        self.line.settings.send_modify(|settings| {
            settings.refuses = true;
            settings.era += 1;
        });
        self.wait_listens(false).await;
    }

    /// Ends every failure. What was held back arrives now.
    pub async fn heal(&self) {
        self.line.settings.send_modify(|settings| *settings = Settings { era: settings.era, ..Settings::default() });
        self.wait_listens(true).await;
    }

    async fn wait_listens(&self, wanted: bool) {
        let mut listens = self.line.listens.subscribe();
        listens.wait_for(|&listens| listens == wanted).await.expect("the sender lives as long as the proxy");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Does not wait, which a drop inside of another runtime must not.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// One thread that serves network and time, whatever the runtime of the test does.
pub(crate) fn own_runtime() -> Result<Runtime, ServerError> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(ServerError::Listen)
}

async fn serve(listener: TcpListener, port: u16, line: Arc<Line>) {
    let mut settings = line.settings.subscribe();
    let mut listener = Some(listener);
    loop {
        let refuses = settings.borrow_and_update().refuses;
        if refuses {
            listener = None;
        } else if listener.is_none() {
            // The port is reserved, so nobody of ours took it; a stranger's use of it ends some time.
            listener = TcpListener::bind(("127.0.0.1", port)).await.ok();
        }
        line.listens.send_replace(listener.is_some());
        let retry = !refuses && listener.is_none();
        tokio::select! {
            changed = settings.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(Duration::from_millis(10)), if retry => {}
            Ok((client, _)) = accept(listener.as_ref()) => {
                tokio::spawn(connection::carry(client, line.clone()));
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> std::io::Result<(tokio::net::TcpStream, std::net::SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}
