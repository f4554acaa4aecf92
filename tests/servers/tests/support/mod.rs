//! Clients that are just enough for these tests.

use std::process::{Output, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The client program of PostgreSQL, which comes with its server.
pub struct Psql {
    url: String,
}

impl Psql {
    pub fn new(url: String) -> Psql {
        Psql { url }
    }

    /// What the statement prints.
    pub async fn run(&self, sql: &str) -> String {
        let output = self.output(sql).await;
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    pub async fn output(&self, sql: &str) -> Output {
        let mut psql = std::process::Command::new("psql");
        psql.args(["-X", "-A", "-t", "-d", &self.url, "-c", sql]).stdin(Stdio::null());
        tokio::task::spawn_blocking(move || psql.output()).await.unwrap().unwrap()
    }
}

/// One connection to Redis that sends lines and reads lines.
pub struct RedisClient {
    stream: TcpStream,
}

impl RedisClient {
    pub async fn connect(port: u16) -> RedisClient {
        RedisClient { stream: TcpStream::connect(("127.0.0.1", port)).await.unwrap() }
    }

    pub async fn ask(&mut self, command: &str) -> String {
        self.send(command).await;
        self.answer().await
    }

    pub async fn send(&mut self, command: &str) {
        self.stream.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
    }

    /// The next bytes that come, or nothing at the end.
    pub async fn answer(&mut self) -> String {
        let mut buffer = [0; 1024];
        let count = self.stream.read(&mut buffer).await.unwrap_or(0);
        String::from_utf8_lossy(&buffer[..count]).trim_end().to_owned()
    }
}
