//! Guests that call what lies behind the gate, and loopback servers that behave in every bad way.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_sandbox::{Effects, Execution, HttpGrants, Invocation, Limits, Resolve, Sandbox, SandboxSettings};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::{guest, invocation, load, settings};

/// Where a guest's call puts its result.
const RESULT: u32 = 2048;

/// What a guest sends.
#[derive(Clone)]
pub struct Ask {
    pub method: &'static str,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    pub timeout_ms: Option<u64>,
    /// Answer the status instead of the body.
    pub status: bool,
    /// Answer the memory that holds the headers and the body, instead of the body.
    pub headers_too: bool,
    /// Answer, behind the number of an error's case, the number it carries.
    pub bound: bool,
    /// How often it is sent, one after the other.
    pub times: usize,
}

pub fn get(url: impl Into<String>) -> Ask {
    let (method, url, headers) = ("GET", url.into(), vec![]);
    Ask {
        method,
        url,
        headers,
        body: None,
        timeout_ms: None,
        status: false,
        headers_too: false,
        bound: false,
        times: 1,
    }
}

/// A guest that sends one request. Its output is the response's body or status, or `E` and the number of the error's case.
pub fn asking(ask: &Ask) -> Vec<u8> {
    asking_with_realloc(ask, "")
}

/// As [`asking`], and this is what the guest does when the host asks it for memory for the response.
pub fn asking_with_realloc(ask: &Ask, realloc: &str) -> Vec<u8> {
    let mut data = Data { at: 131_072, items: String::new() };
    let method = data.put(ask.method.as_bytes());
    let url = data.put(ask.url.as_bytes());
    let pairs: Vec<u8> = ask
        .headers
        .iter()
        .flat_map(|(name, value)| [data.put(name.as_bytes()), data.put(value.as_bytes())])
        .flat_map(|(at, len)| [at.to_le_bytes(), len.to_le_bytes()].concat())
        .collect();
    let headers = (data.put(&pairs).0, ask.headers.len());
    let body = ask.body.as_ref().map(|body| data.put(body));
    let (has_body, body) = (u32::from(body.is_some()), body.unwrap_or_default());
    let (has_timeout, timeout) = (u32::from(ask.timeout_ms.is_some()), ask.timeout_ms.unwrap_or_default());
    let numbers =
        [method.0, method.1, url.0, url.1, headers.0, headers.1 as u32, has_body, body.0, body.1, has_timeout];
    let numbers: String = numbers.iter().map(|n| format!("(i32.const {n}) ")).collect();
    let items = format!(
        r#"(import "leasehold:job/http@0.1.0" "send"
             (func $send (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32))) {}"#,
        data.items
    );
    let answer = if ask.status {
        format!("(i32.const {}) (i32.const 2)", RESULT + 8)
    } else if ask.headers_too {
        // They are put there one behind the other, the body last.
        let field = |at: u32| format!("(i32.load (i32.const {}))", RESULT + at);
        let (headers, body, len) = (field(12), field(20), field(24));
        format!("{headers} (i32.sub (i32.add {body} {len}) {headers})")
    } else {
        format!("(i32.load (i32.const {})) (i32.load (i32.const {}))", RESULT + 20, RESULT + 24)
    };
    let call = format!("(call $send {numbers} (i64.const {timeout}) (i32.const {RESULT}))");
    let call = call.repeat(ask.times);
    let on_error = if ask.bound { on_error_with_bound() } else { on_error() };
    with_memory(&items, realloc, &format!("{call} {on_error} (return (call $ok {answer}))"))
}

/// A guest that makes one call with these core parameters; its output is `done`, or `E` and the number of the error's case.
pub fn calling(import: &str, params: &str, call: &str) -> Vec<u8> {
    let (interface, function) = import.split_once('.').expect("interface.function");
    let items = format!(
        r#"(import "leasehold:job/{interface}@0.1.0" "{function}" (func $call (param {params})))
           (data (i32.const 4096) "key") (data (i32.const 4104) "value")"#
    );
    guest(&items, &format!("(call $call {call} (i32.const {RESULT})) {}", on_error()))
}

/// Each call of state and kv, as [`calling`] takes it: import, parameters, arguments, whether it writes.
pub const STORED: &[(&str, &str, &str, bool)] = &[
    ("state.load", "i32", "", false),
    ("state.save", "i32 i32 i32", "(i32.const 4104) (i32.const 5)", true),
    ("kv.get", "i32 i32 i32", "(i32.const 4096) (i32.const 3)", false),
    ("kv.set", "i32 i32 i32 i32 i32", "(i32.const 4096) (i32.const 3) (i32.const 4104) (i32.const 5)", true),
    ("kv.delete", "i32 i32 i32", "(i32.const 4096) (i32.const 3)", true),
    (
        "kv.list-keys",
        "i32 i32 i32 i32 i32 i32 i32",
        "(i32.const 4096) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 10)",
        false,
    ),
    (
        "kv.compare-and-set",
        "i32 i32 i32 i32 i32 i32 i32 i32",
        "(i32.const 4096) (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 4104) (i32.const 5)",
        true,
    ),
];

/// A guest whose output is a setting; it traps where there is none.
pub fn reading_setting(key: &str) -> Vec<u8> {
    let items = format!(
        r#"(import "leasehold:job/config@0.1.0" "get" (func $get (param i32 i32 i32))) (data (i32.const 4096) "{key}")"#
    );
    let body = format!(
        "(call $get (i32.const 4096) (i32.const {}) (i32.const 2048))
         (if (i32.eqz (i32.load8_u (i32.const 2048))) (then (unreachable)))
         (return (call $ok (i32.load (i32.const 2052)) (i32.load (i32.const 2056))))",
        key.len()
    );
    guest(&items, &body)
}

fn on_error() -> String {
    on_error_then("", 2)
}

fn on_error_with_bound() -> String {
    on_error_then(&format!("(i64.store (i32.const 2034) (i64.load (i32.const {})))", RESULT + 16), 10)
}

/// Answers with the first bytes from 2032: `E`, the number of the case, and what `more` writes behind them.
fn on_error_then(more: &str, bytes: usize) -> String {
    format!(
        "(if (i32.load8_u (i32.const {RESULT})) (then
           (i32.store8 (i32.const 2032) (i32.const 69))
           (i32.store8 (i32.const 2033) (i32.add (i32.const 48) (i32.load8_u (i32.const {}))))
           {more}
           (return (call $ok (i32.const 2032) (i32.const {bytes})))))",
        RESULT + 8
    )
}

/// As [`guest`], with room for 1 MiB of data behind the input, and for what the host hands over.
fn with_memory(items: &str, realloc: &str, body: &str) -> Vec<u8> {
    let grow = "(global.set $next (i32.const 2097152)) (drop (memory.grow (i32.const 600)))";
    let memory = r#"(memory (export "memory") 40)"#;
    let text = super::core_text(items, memory, &format!("{grow} {body}"));
    // Only the response is put that high.
    let realloc = format!("(local $at i32) (if (i32.ge_u (global.get $next) (i32.const 2097152)) (then {realloc}))");
    let text = text.replacen("(local $at i32)", &realloc, 1);
    let core = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    super::component(&core, &super::contract(), "guest")
}

struct Data {
    at: u32,
    items: String,
}

impl Data {
    fn put(&mut self, bytes: &[u8]) -> (u32, u32) {
        let (at, len) = (self.at, u32::try_from(bytes.len()).expect("short"));
        let text: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
        self.items.push_str(&format!("(data (i32.const {at}) \"{text}\")\n"));
        self.at += len.next_multiple_of(8) + 8;
        (at, len)
    }
}

/// Starts a guest with these effects.
pub async fn start_effects(sandbox: &Sandbox, bytes: Vec<u8>, effects: Effects) -> Execution {
    let plugin = load(sandbox, bytes).await;
    sandbox.start(&plugin, Invocation { effects, ..invocation(Limits::default()) })
}

/// Effects with these origins granted, and nothing else.
pub fn granting(origins: &[&str]) -> Effects {
    let mut http = HttpGrants::default();
    origins.iter().for_each(|origin| http.allow(origin.parse().expect("an origin"), &[]));
    Effects { http: Arc::new(http), ..Effects::default() }
}

/// How a server behaves when it has read a request.
#[derive(Clone)]
pub enum Manner {
    /// Answers this and closes.
    Says(Vec<u8>),
    /// Answers this when it has read a request's head, and reads the rest when the test lets it.
    Early(&'static str),
    /// Never answers.
    Silent,
    /// Says the first, then waits until the test lets it, then says the second.
    Pauses(&'static str, &'static str),
    /// Says this, then this again and again for ever.
    Endless(&'static str, Vec<u8>),
    /// Says this, then a byte now and then, for ever.
    Trickles(&'static str),
}

/// What a server has seen.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub connections: usize,
    /// Whole requests, head and body; of [`Manner::Early`] the head.
    pub requests: Vec<String>,
    /// Bytes behind the head that reached one that answers early.
    pub late_bytes: usize,
    /// Connections that ended by a reset.
    pub resets: usize,
    /// Connections that have ended, all together.
    pub ended: usize,
}

/// A server on a port of its own.
pub struct Server {
    pub port: u16,
    seen: Arc<watch::Sender<Seen>>,
    resume: watch::Sender<bool>,
}

impl Server {
    pub async fn start(manner: Manner) -> Server {
        Server::start_at(Ipv4Addr::LOCALHOST, 0, manner).await
    }

    pub async fn start_at(address: Ipv4Addr, port: u16, manner: Manner) -> Server {
        let listener = TcpListener::bind((address, port)).await.expect("a loopback port");
        let port = listener.local_addr().expect("it is bound").port();
        let seen = Arc::new(watch::channel(Seen::default()).0);
        let (resume, resumed) = watch::channel(false);
        let ours = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                ours.send_modify(|seen| seen.connections += 1);
                tokio::spawn(serve(stream, manner.clone(), ours.clone(), resumed.clone()));
            }
        });
        Server { port, seen, resume }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until it has seen that.
    pub async fn until(&self, what: impl FnMut(&Seen) -> bool) {
        self.seen.subscribe().wait_for(what).await.expect("the server is there");
    }

    /// Lets one that pauses go on.
    pub fn resume(&self) {
        self.resume.send_replace(true);
    }
}

/// Answers one request in this manner, and notes how the connection ends.
pub async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    manner: Manner,
    seen: Arc<watch::Sender<Seen>>,
    mut resumed: watch::Receiver<bool>,
) {
    let ended = async {
        if let Manner::Early(answer) = manner {
            let head = read_head(&mut stream).await?;
            seen.send_modify(|seen| seen.requests.push(head));
            stream.write_all(answer.as_bytes()).await?;
            let _ = resumed.wait_for(|resumed| *resumed).await;
            let mut rest = Vec::new();
            let read = stream.read_to_end(&mut rest).await;
            seen.send_modify(|seen| seen.late_bytes += rest.len());
            return read.map(drop);
        }
        let request = read_request(&mut stream).await?;
        seen.send_modify(|seen| seen.requests.push(request));
        match manner {
            Manner::Says(answer) => {
                stream.write_all(&answer).await?;
                return stream.shutdown().await;
            }
            Manner::Silent | Manner::Early(_) => {}
            Manner::Pauses(first, second) => {
                stream.write_all(first.as_bytes()).await?;
                let _ = resumed.wait_for(|resumed| *resumed).await;
                stream.write_all(second.as_bytes()).await?;
                return stream.shutdown().await;
            }
            Manner::Endless(first, again) => {
                stream.write_all(first.as_bytes()).await?;
                loop {
                    stream.write_all(&again).await?;
                }
            }
            Manner::Trickles(first) => {
                stream.write_all(first.as_bytes()).await?;
                loop {
                    stream.write_all(b"x").await?;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
        stream.read_u8().await.map(drop)
    }
    .await;
    let is_reset =
        |error: io::Error| matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe);
    let reset = ended.err().is_some_and(is_reset);
    seen.send_modify(|seen| {
        seen.resets += usize::from(reset);
        seen.ended += 1;
    });
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let head = read_head(stream).await?;
    let lower = head.to_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().expect("a length"))];
    stream.read_exact(&mut body).await?;
    Ok(head + &String::from_utf8_lossy(&body))
}

async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}

/// A name server that answers as it is told: the first answer first, the last one for ever. Names that begin with `stuck` it
/// never answers.
pub struct Names {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: watch::Sender<usize>,
}

impl Names {
    pub fn new(answers: &[&[&str]]) -> Arc<Names> {
        let addresses = |answer: &&[&str]| answer.iter().map(|text| text.parse().expect("an address")).collect();
        Arc::new(Names { answers: Mutex::new(answers.iter().map(addresses).collect()), asked: watch::channel(0).0 })
    }

    pub fn asked(&self) -> usize {
        *self.asked.borrow()
    }

    pub async fn was_asked(&self) {
        self.asked.subscribe().wait_for(|asked| *asked > 0).await.expect("it is there");
    }

    /// A sandbox that asks it.
    pub fn sandbox(self: &Arc<Names>) -> Sandbox {
        Sandbox::new(SandboxSettings { resolver: self.clone(), ..settings() }).expect("a sandbox")
    }
}

impl Resolve for Names {
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.send_modify(|asked| *asked += 1);
        let next = {
            let mut answers = self.answers.lock().expect("no test panics while it holds the lock");
            if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
        };
        match next {
            Some(answer) if !host.starts_with("stuck") => Ok(answer),
            // One that was told nothing never answers. Its thread ends with the process.
            _ => loop {
                std::thread::park();
            },
        }
    }
}
