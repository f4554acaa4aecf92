//! Servers that answer guests in every bad way, names that lead elsewhere, and every form of an address, on a real host
//! beside a neighbour that must not notice. What guests are told in each case is told apart in the sandbox's own tests
//! (`host/sandbox/tests/http.rs`).

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_tests::neighbour::{
    Deed, Granted, LOG, Scene, leave_their_neighbour_alone, leave_their_neighbour_alone_on,
};
use leasehold_tests::{HostProcess, Workplace};

/// A server on a loopback address, until the test ends.
struct Server {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Does this with each connection when it has read a request's head, and closes it.
    fn start(answer: impl Fn(&mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Server {
        Server::start_at("127.0.0.1:0", answer)
    }

    fn start_at(address: &str, answer: impl Fn(&mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind(address).expect("a loopback port");
        let port = listener.local_addr().expect("it is bound").port();
        let connections = Arc::<AtomicUsize>::default();
        let (ours, answer) = (connections.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                ours.fetch_add(1, Ordering::Relaxed);
                let answer = answer.clone();
                // How a connection ends is the host's choice.
                std::thread::spawn(move || read_head(&mut stream).and_then(|()| answer(&mut stream)));
            }
        });
        Server { port, connections }
    }

    fn says(answer: impl Into<Vec<u8>>) -> Server {
        let answer = answer.into();
        Server::start(move |stream| stream.write_all(&answer))
    }

    /// Says the first, and then the second again and again for ever.
    fn endless(first: &'static str, again: Vec<u8>) -> Server {
        Server::start(move |stream| {
            stream.write_all(first.as_bytes())?;
            loop {
                stream.write_all(&again)?;
            }
        })
    }

    fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn read_head(stream: &mut TcpStream) -> io::Result<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(())
}

/// Sends a byte every 10 ms until the other side goes.
fn trickle(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    stream.set_read_timeout(Some(Duration::from_millis(10)))?;
    loop {
        stream.write_all(b"x")?;
        match stream.read(&mut [0]) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            ended => return ended.map(drop),
        }
    }
}

/// A job that sends requests, one after the other, and says what came of the last.
struct Sender {
    plugin: Vec<u8>,
}

impl Sender {
    fn new() -> Sender {
        Sender { plugin: Workplace::new("").plugin("unruly") }
    }

    fn deed(&self, name: &str, url: &str, times: u32, timeout_ms: u32, word: &'static str) -> Deed {
        let payload = format!("{{ do = \"send\", url = {url:?}, times = {times}, timeout_ms = {timeout_ms}, ms = 0 }}");
        Deed {
            name: name.to_owned(),
            plugin: self.plugin.clone(),
            payload: Some(payload),
            word,
            origins: vec![url.to_owned().into()],
        }
    }
}

#[test]
fn servers_that_redirect_lead_inside_stall_trickle_or_never_end_leave_a_neighbour_s_heartbeat_alone() {
    let inside = Server::says("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let moved = format!("HTTP/1.1 302 Found\r\nlocation: {}/\r\ncontent-length: 0\r\n\r\n", inside.origin());
    let redirecting = Server::says(moved);
    let silent = Server::start(|stream| stream.read_exact(&mut [0]));
    let trickling = Server::start(trickle);
    let endless = Server::endless("HTTP/1.1 200 OK\r\n\r\n", vec![b'x'; 1 << 16]);
    let endless_head = Server::endless("HTTP/1.1 200 OK\r\n", vec![b'x'; 1 << 12]);
    let lying = Server::says("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n");
    let named = format!("http://localhost:{}", inside.port);

    let sender = Sender::new();
    let mut redirected = sender.deed("redirecting", &redirecting.origin(), 10, 2_000, "said: 302 ");
    redirected.origins.push(inside.origin().into());
    let late = "said: no whole response in time";
    let deeds = [
        redirected,
        sender.deed("inside", &named, 20, 2_000, "said: denied: "),
        sender.deed("silent", &silent.origin(), 3, 100, late),
        sender.deed("trickling", &trickling.origin(), 2, 200, late),
        sender.deed("endless", &endless.origin(), 2, 2_000, "said: there is no memory for the response"),
        sender.deed("endless-head", &endless_head.origin(), 3, 2_000, "said: larger than the 65536 bytes"),
        sender.deed("lying", &lying.origin(), 5, 2_000, "said: larger than the 16777216 bytes"),
    ];
    leave_their_neighbour_alone(&deeds);
    assert_eq!(inside.connections(), 0, "nobody was led there");
    for (server, least) in [(&redirecting, 10), (&silent, 3), (&trickling, 2), (&endless, 2), (&lying, 5)] {
        assert!(server.connections() >= least, "each was asked as often as it was to be");
    }
}

/// What a name leads to, in a file of the form of /etc/hosts. All answers are equally long, so that nobody reads half of one.
fn leads_to(hosts: &Path, address: &str) {
    let file = std::fs::File::options().write(true).open(hosts).expect("the file is there");
    file.write_all_at(format!("{address} rebinding.example\n").as_bytes(), 0).expect("it can be written");
}

/// What comes before a file and a command, so that the command sees the file as /etc/hosts, in a namespace of its own.
fn with_hosts() -> [&'static str; 6] {
    ["unshare", "--map-root-user", "--mount", "sh", "-c", r#"mount --bind "$0" /etc/hosts && exec "$@""#]
}

#[test]
fn a_name_that_leads_elsewhere_when_it_is_asked_for_again_leaves_a_neighbour_s_heartbeat_alone() {
    let hosts = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = hosts.path().to_owned();
    let by = [&with_hosts()[..], &[path.to_str().expect("a plain name")]].concat();
    let tried = Command::new(by[0]).args(&by[1..]).arg("true").output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        eprintln!("skipped: this system gives a process no names of its own: {tried:?}");
        return;
    }
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let rebind = path.clone();
    let granted = Server::start(move |stream| {
        leads_to(&rebind, "127.0.0.2");
        stream.write_all(OK)
    });
    let inside = Server::start_at(&format!("127.0.0.2:{}", granted.port), |stream| stream.write_all(OK));
    let origin = format!("http://rebinding.example:{}", granted.port);
    let deed = Sender::new().deed("rebinding", &origin, 20, 2_000, "said: denied: ");
    let deed = Deed { origins: vec![Granted { origin, addresses: vec!["127.0.0.1/32".to_owned()] }], ..deed };
    let serve = |w: &Workplace| -> HostProcess {
        leads_to(&path, "127.0.0.1");
        w.serve_by(&by, LOG.0, LOG.1)
    };
    leave_their_neighbour_alone_on(&Scene { serve: &serve, ..Scene::default() }, &[deed]);
    assert!(granted.connections() > 0, "its first answer was taken");
    assert_eq!(inside.connections(), 0, "its second was not");
}

#[test]
fn addresses_in_every_form_leave_a_neighbour_s_heartbeat_alone() {
    let server = Server::says("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    let unasked = Server::says("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let sender = Sender::new();
    let forms = |all: &[&str], port: u16, kind: &str, word: &'static str| -> Vec<Deed> {
        let deed = |(n, form): (usize, &&str)| {
            let url = form.replace("PORT", &port.to_string());
            Deed { origins: vec![server.origin().into()], ..sender.deed(&format!("{kind}-{n}"), &url, 20, 2_000, word) }
        };
        all.iter().enumerate().map(deed).collect()
    };
    let granted = [
        "http://127.0.0.1:PORT",
        "http://2130706433:PORT",
        "http://0x7f.1:PORT",
        "http://0177.0.0.1:PORT",
        "http://127.1:PORT",
        "http://127.0.0.1.:PORT",
        "http://1%327.0.0.1:PORT",
    ];
    let others = [
        "http://localhost:PORT",
        "http://[::ffff:127.0.0.1]:PORT",
        "http://[::1]:PORT",
        "https://127.0.0.1:PORT",
        "http://127.0.0.2:PORT",
        "http://169.254.169.254",
    ];
    let no_forms = [
        "http://user:password@127.0.0.1:PORT",
        "http://localhost.:PORT",
        "http://[fe80::1%25lo]:PORT",
        "http://127.0.0.1 :PORT",
        "file:///etc/passwd",
        "gopher://127.0.0.1",
    ];
    let deeds = [
        forms(&granted, server.port, "granted", "said: 200 hello"),
        forms(&granted, unasked.port, "unasked", "said: denied: "),
        forms(&others, server.port, "other", "said: denied: "),
        forms(&no_forms, server.port, "none", "said: invalid: "),
    ];
    leave_their_neighbour_alone(&deeds.concat());
    assert_eq!(unasked.connections(), 0, "nobody was led there");
}
