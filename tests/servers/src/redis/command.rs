//! The few commands that starting a server takes; a client library would be too much for them.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The longest answer that is read, in bytes.
const LIMIT: u64 = 64 * 1024;

/// Sends one command, words with blanks between, and gives back its answer: the first line as it is, or the text that
/// a first line like `$42` announces.
pub(super) async fn send(port: u16, password: Option<&str>, command: &str) -> io::Result<String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let mut stream = BufReader::new(stream.take(LIMIT));
    if let Some(password) = password {
        let answer = ask(&mut stream, &["AUTH", password]).await?;
        if !answer.starts_with("+OK") {
            return Ok(answer);
        }
    }
    ask(&mut stream, &command.split(' ').collect::<Vec<_>>()).await
}

async fn ask(stream: &mut BufReader<tokio::io::Take<TcpStream>>, words: &[&str]) -> io::Result<String> {
    let encoded = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect::<String>();
    let message = format!("*{}\r\n{encoded}", words.len());
    stream.get_mut().get_mut().write_all(message.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_line(&mut answer).await?;
    let Some(length) = answer.strip_prefix('$').and_then(|length| length.trim_end().parse::<u64>().ok()) else {
        return Ok(answer);
    };
    let mut text = vec![0; usize::try_from(length.min(LIMIT)).unwrap_or(0)];
    stream.read_exact(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
