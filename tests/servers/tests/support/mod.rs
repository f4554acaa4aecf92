//! Clients that are just enough for these tests.

// Every test file is a crate of its own that includes this one and uses a part of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::process::{Command, Output, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Runs a statement with PostgreSQL's own client program, which comes with the server; gives back what it prints.
pub async fn sql(url: &str, statement: &str) -> String {
    let output = psql(url, statement).await;
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The same, whether or not it succeeds.
pub async fn psql(url: &str, statement: &str) -> Output {
    let mut psql = Command::new("psql");
    psql.args(["-X", "-A", "-t", "-d", url, "-c", statement]).stdin(Stdio::null());
    tokio::task::spawn_blocking(move || psql.output()).await.unwrap().unwrap()
}

/// One connection that sends lines and reads what comes.
pub struct Client {
    stream: TcpStream,
}

impl Client {
    pub async fn connect(port: u16) -> Client {
        Client { stream: TcpStream::connect(("127.0.0.1", port)).await.unwrap() }
    }

    pub async fn ask(&mut self, line: &str) -> String {
        self.send(line).await;
        self.answer().await
    }

    pub async fn send(&mut self, line: &str) {
        self.send_bytes(format!("{line}\r\n").as_bytes()).await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// What comes next; nothing when the connection has ended or was reset.
    pub async fn answer(&mut self) -> String {
        let mut buffer = [0; 1024];
        let count = self.stream.read(&mut buffer).await.unwrap_or(0);
        String::from_utf8_lossy(&buffer[..count]).trim_end().to_owned()
    }
}

/// Whether nobody listens there.
pub async fn refuses(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).await.is_err()
}
