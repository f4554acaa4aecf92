//! The few commands that starting a server takes; a client library would be too much for them.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The longest answer that is read, in bytes.
const LIMIT: u64 = 64 * 1024;

/// Sends one command, words with blanks between, and gives back its answer: the first line as it is, and the text that
/// a first line like `$42` announces.
pub(super) async fn send(port: u16, command: &str) -> io::Result<String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let mut stream = BufReader::new(stream.take(LIMIT));
    stream.get_mut().get_mut().write_all(format!("{command}\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_line(&mut answer).await?;
    if let Some(length) = answer.strip_prefix('$').and_then(|length| length.trim_end().parse::<u64>().ok()) {
        let mut text = vec![0; usize::try_from(length.min(LIMIT)).unwrap_or(0)];
        stream.read_exact(&mut text).await?;
        return Ok(String::from_utf8_lossy(&text).into_owned());
    }
    Ok(answer)
}
