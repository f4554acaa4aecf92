//! One connection through the proxy.

use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Sleep;

use super::{Direction, Line, Settings};

/// As many chunks are under way each way; then the sender has to wait, as with a network's own buffers.
const CHUNKS: usize = 1024;
/// The size of a chunk, at most.
const CHUNK: usize = 16 * 1024;

/// Passes bytes on, both ways, until both have ended or the line drops its connections.
pub(super) async fn carry(client: TcpStream, line: Arc<Line>) {
    let mut settings = line.settings.subscribe();
    let era = settings.borrow().era;
    tokio::select! {
        () = connect_and_pump(client, &line) => {}
        _ = settings.wait_for(|settings| settings.era != era) => {}
    }
}

async fn connect_and_pump(client: TcpStream, line: &Arc<Line>) {
    // Whatever ends a connection but its own two ends resets it.
    let Ok(()) = client.set_zero_linger() else { return };
    // Nobody can shake hands across a cut.
    let mut settings = line.settings.subscribe();
    let Ok(_) = settings.wait_for(|settings| settings.holds == [false, false]).await else { return };
    let Ok(server) = TcpStream::connect(("127.0.0.1", line.server)).await else { return };
    let (Ok(()), Ok(()), Ok(())) = (server.set_zero_linger(), server.set_nodelay(true), client.set_nodelay(true))
    else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = pump(from_client, to_server, Direction::ToServer, line);
    let answers = pump(from_server, to_client, Direction::ToClient, line);
    // A reset of one end ends both ways at once.
    let _ = tokio::try_join!(requests, answers);
}

/// What is under way, in the order in which it was sent.
enum Chunk {
    Bytes(Vec<u8>),
    /// The sender says no more.
    End,
    /// The sender is gone.
    Reset,
}

struct UnderWay {
    chunk: Chunk,
    due: Pin<Box<Sleep>>,
}

/// The connection was reset.
struct Reset;

async fn pump(from: OwnedReadHalf, to: OwnedWriteHalf, direction: Direction, line: &Line) -> Result<(), Reset> {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    let ((), result) = tokio::join!(take_in(from, sender, line), pass_on(to, receiver, direction, line));
    result
}

async fn take_in(mut from: OwnedReadHalf, sender: mpsc::Sender<UnderWay>, line: &Line) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            () = sender.closed() => return,
        };
        let chunk = match read {
            Ok(0) => Chunk::End,
            Ok(count) => Chunk::Bytes(buffer[..count].to_vec()),
            Err(_) => Chunk::Reset,
        };
        let last = !matches!(chunk, Chunk::Bytes(_));
        // The time it is due counts from here, so that chunks are late and not slow.
        let due = Box::pin(tokio::time::sleep(line.settings.borrow().delay));
        if sender.send(UnderWay { chunk, due }).await.is_err() || last {
            return;
        }
    }
}

async fn pass_on(
    mut to: OwnedWriteHalf,
    mut receiver: mpsc::Receiver<UnderWay>,
    direction: Direction,
    line: &Line,
) -> Result<(), Reset> {
    let mut settings = line.settings.subscribe();
    while let Some(mut next) = receiver.recv().await {
        next.due.as_mut().await;
        wait_open(&mut settings, direction, line).await?;
        let written = match next.chunk {
            Chunk::Bytes(bytes) => to.write_all(&bytes).await,
            Chunk::End => to.shutdown().await,
            Chunk::Reset => return Err(Reset),
        };
        // That the receiver is gone is told by the other way, at the time when it can be known there.
        if written.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Waits until the direction is not held, and is counted while it waits.
async fn wait_open(settings: &mut watch::Receiver<Settings>, direction: Direction, line: &Line) -> Result<(), Reset> {
    if !settings.borrow().holds[direction as usize] {
        return Ok(());
    }
    let _counted = Counted::new(&line.held[direction as usize]);
    settings.wait_for(|settings| !settings.holds[direction as usize]).await.map_err(|_| Reset)?;
    Ok(())
}

/// Counts who waits because of a hold.
struct Counted(watch::Sender<usize>);

impl Counted {
    fn new(count: &watch::Sender<usize>) -> Counted {
        count.send_modify(|count| *count += 1);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
