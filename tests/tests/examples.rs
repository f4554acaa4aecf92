//! The examples in a real host: what each of them is there to show.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use leasehold_tests::{HostProcess, PATIENCE, SHORT_LEASE, Workplace, soon_then_rarely};
use serde_json::Value;

/// A request as the receiver of an outbox sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Posted {
    key: String,
    attempt: String,
    body: String,
}

/// The host dies when an item has arrived and its answer has not gone out: that item alone comes twice, with one key.
#[test]
fn an_outbox_s_item_has_its_effect_once_by_its_key_when_the_host_is_killed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let origin = format!("http://{}", listener.local_addr().expect("it is bound"));
    let (tell, arrived) = channel();
    // The third item is not answered the first time.
    std::thread::spawn(move || receive(&listener, &tell, 3));

    let w = Workplace::new(&format!("{SHORT_LEASE}[tenants.default.http]\nallow = [\"{origin}\"]\n"));
    w.install("outbox", "outbox.wasm");
    let items = r#"["one", "two", "three", "four", "five"]"#;
    let payload = format!("payload = {{ url = \"{origin}/inbox\", items = {items} }}\nhttp = [\"{origin}\"]");
    w.write("plugins/outbox.toml", soon_then_rarely("outbox", &payload));
    let mut host = w.serve();
    let claimed = host.wait_for("claimed", "default/outbox");
    let before: Vec<Posted> = (0..3).map(|_| next(&arrived)).collect();
    host.kill();

    let mut again = w.serve();
    again.wait_for("takeover", "default/outbox");
    again.wait_for("success", "default/outbox");
    let after: Vec<Posted> = (0..3).map(|_| next(&arrived)).collect();
    let bodies = |posted: &[Posted]| posted.iter().map(|item| item.body.clone()).collect::<Vec<_>>();
    assert_eq!(bodies(&before), ["\"one\"", "\"two\"", "\"three\""]);
    assert_eq!(bodies(&after), ["\"three\"", "\"four\"", "\"five\""]);
    assert_eq!(before[2].key, after[0].key, "the receiver knows it by its key");
    assert_eq!((before[2].attempt.as_str(), after[0].attempt.as_str()), ("1", "2"));
    let mut keys: Vec<&str> = before.iter().chain(&after).map(|item| item.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 5, "a key for each item");
    let run = w.show("outbox", text(&claimed["run"]));
    assert_eq!(run["outcome"]["output"], serde_json::json!({ "items": 5, "here": 3 }));
    assert!(arrived.try_recv().is_err(), "and nothing more");
}

#[test]
fn a_run_goes_on_from_its_checkpoint_when_its_host_is_killed() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("resume", "resume.wasm");
    w.write("plugins/resume.toml", soon_then_rarely("resume", "payload = { steps = 30, step_ms = 300 }"));
    let mut host = w.serve();
    let claimed = host.wait_for("claimed", "default/resume");
    until_logged(&w, "resume", "step 3 is done");
    host.kill();
    let mut again = w.serve();
    again.wait_for("takeover", "default/resume");
    let output = output_of(&w, &mut again, "resume", &claimed);
    // Each step once, whoever did it.
    assert_eq!((output["done"].as_u64(), output["sum"].as_u64()), (Some(30), Some(30 * 31 / 2)));
    let attempts = output["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.len(), 2, "{attempts:?}");
    assert_eq!((attempts[0]["attempt"].as_u64(), attempts[0]["from"].as_u64()), (Some(1), Some(0)));
    assert_eq!(attempts[1]["attempt"].as_u64(), Some(2));
    assert!(attempts[1]["from"].as_u64().is_some_and(|from| (3..30).contains(&from)), "{attempts:?}");
}

#[test]
fn a_wasi_command_runs_on_a_schedule_and_its_standard_error_is_its_log() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("wasi-command", "words.wasm");
    w.write("plugins/words.toml", soon_then_rarely("words", "payload = \"to be or not to be\""));
    let found = w.leasehold(&["inspect", "plugins/words.wasm", "--json"]);
    assert_eq!((found.code, found.lines()[0]["way"].as_str()), (Some(0), Some("command")), "{found:?}");
    let mut host = w.serve();
    let ended = host.wait_for("success", "default/words");
    let run = w.show("words", text(&ended["run"]));
    assert_eq!(run["outcome"]["output_text"], "2 be\n1 not\n1 or\n2 to\n");
    let logs = w.leasehold(&["logs", "words"]);
    assert!(logs.stdout.contains("words, attempt 1: 6 words, 4 of them different"), "{logs:?}");
}

/// Answers requests one after the other; the one of this number, from 1, is heard and never answered.
fn receive(listener: &TcpListener, tell: &Sender<Posted>, silent: usize) {
    let mut kept = Vec::new();
    for (n, stream) in listener.incoming().flatten().enumerate() {
        let mut stream = stream;
        let Some(posted) = read(&mut stream) else { continue };
        // The test has ended when nobody listens.
        let _ = tell.send(posted);
        if n + 1 == silent {
            kept.push(stream);
        } else {
            // Whoever was killed takes no answer.
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    }
}

fn read(stream: &mut TcpStream) -> Option<Posted> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let header =
        |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned());
    let mut body = vec![0; header("content-length:")?.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    Some(Posted { key: header("idempotency-key:")?, attempt: header("x-leasehold-attempt:")?, body })
}

fn next(arrived: &Receiver<Posted>) -> Posted {
    arrived.recv_timeout(PATIENCE).expect("an item arrives")
}

fn output_of(w: &Workplace, host: &mut HostProcess, job: &str, claimed: &Value) -> Value {
    host.wait_until("its success", |event| event["event"] == "success" && event["run"] == claimed["run"]);
    w.show(job, text(&claimed["run"]))["outcome"]["output"].clone()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// Waits until a run of the job has logged this.
fn until_logged(w: &Workplace, job: &str, words: &str) {
    // Each look starts a process: these are minutes.
    let found = (0..1_000).any(|_| w.leasehold(&["logs", job]).stdout.contains(words));
    assert!(found, "{job} never logged {words:?}");
}
