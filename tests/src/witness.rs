//! A server outside the cluster that keeps what handlers did to it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use leasehold::clock;
use leasehold_lease::time::Mono;

use crate::PATIENCE;

/// A request that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// Which attempt sent it.
    pub attempt: u32,
    /// With which fence.
    pub fence: u64,
}

/// Answers every request of a handler with success and keeps who sent it. The answer's body is that of the request, or `ok`
/// where that has none; its header `x-reply` is the request's first line and its header `x-ask`.
#[derive(Debug)]
pub struct Witness {
    port: u16,
    heard: Arc<Heard>,
}

/// What has arrived, and word of more.
#[derive(Debug, Default)]
struct Heard {
    all: Mutex<Arrived>,
    more: Condvar,
}

/// Effects in their order, and when each was there.
#[derive(Debug, Default)]
struct Arrived {
    effects: Vec<Effect>,
    at: Vec<Mono>,
}

impl Witness {
    /// On a port of its own, until the test ends.
    pub fn start() -> Witness {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let port = listener.local_addr().expect("it is bound").port();
        let heard = Arc::<Heard>::default();
        let ours = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A frozen host may have connected and say nothing: others are not kept waiting.
                let ours = ours.clone();
                std::thread::spawn(move || serve(stream, &ours));
            }
        });
        Witness { port, heard }
    }

    /// Where it listens, as an origin.
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What has arrived so far, in its order.
    pub fn heard(&self) -> Vec<Effect> {
        self.heard.lock().effects.clone()
    }

    /// The same, each with the time of its arrival.
    pub fn heard_at(&self) -> Vec<(Mono, Effect)> {
        let heard = self.heard.lock();
        heard.at.iter().copied().zip(heard.effects.iter().copied()).collect()
    }

    /// Waits until what has arrived fits.
    pub fn until(&self, fits: impl Fn(&[Effect]) -> bool) {
        let end = clock::mono() + PATIENCE;
        let mut heard = self.heard.lock();
        while !fits(&heard.effects) {
            let left = end.since(clock::mono());
            assert!(!left.is_zero(), "it heard {:?}", heard.effects);
            // It leaves the processor to the hosts.
            heard = self.heard.more.wait_timeout(heard, left).expect("no thread panics while it holds the lock").0;
        }
    }
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, Arrived> {
        self.all.lock().expect("no thread panics while it holds the lock")
    }

    fn take(&self, effect: Effect) {
        let mut all = self.lock();
        all.effects.push(effect);
        all.at.push(clock::mono());
        self.more.notify_all();
    }
}

fn serve(mut stream: TcpStream, heard: &Heard) {
    if let Some(request) = read(&mut stream) {
        heard.take(request.effect);
        let body = if request.body.is_empty() { b"ok" } else { request.body.as_slice() };
        let head = format!(
            "HTTP/1.1 200 OK
x-reply: {}
content-length: {}

",
            request.said,
            body.len()
        );
        // A host that is frozen or gone takes no answer.
        let _ = stream.write_all(&[head.as_bytes(), body].concat());
    }
}

struct Request {
    effect: Effect,
    /// The first line, and what stands in its header `x-ask`.
    said: String,
    body: Vec<u8>,
}

fn read(stream: &mut TcpStream) -> Option<Request> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let attempt = header("x-leasehold-attempt")?.parse().ok()?;
    let effect = Effect { attempt, fence: header("x-leasehold-fence")?.parse().ok()? };
    let mut body = vec![0; header("content-length").and_then(|n| n.parse().ok()).unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    let said = format!("{} {}", head.lines().next().unwrap_or_default(), header("x-ask").unwrap_or_default());
    Some(Request { effect, said, body })
}
