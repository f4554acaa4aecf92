//! What a host tells about its runs: an event a line, for people or as JSON.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold_lease::agent::Event;
use leasehold_lease::id::JobKey;
use leasehold_lease::time::Millis;
use leasehold_sandbox::escape;
use serde_json::{Value, json};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

/// An event with who it concerns.
#[derive(Debug, Clone)]
pub struct HostEvent {
    /// When, by the host's wall clock.
    pub at: Millis,
    /// The host's name.
    pub host: String,
    /// The job; none for what concerns the host as a whole.
    pub job: Option<JobKey>,
    /// What happened.
    pub event: Event,
}

impl HostEvent {
    /// One object with stable names.
    pub fn to_json(&self) -> Value {
        json!({
            "at": self.at.to_string(),
            "host": self.host,
            "event": self.event.kind.word(),
            "job": self.job.as_ref().map(ToString::to_string),
            "run": self.event.run.as_ref().map(ToString::to_string),
            "attempt": self.event.attempt.map(|attempt| attempt.0),
            "detail": self.event.detail,
        })
    }
}

/// Takes events, in order.
pub trait Events: Send + Sync {
    /// Must not block for long: the host's loop calls it.
    fn event(&self, event: &HostEvent);
}

/// Lines that may wait for standard output.
const WAITING: usize = 4_096;

/// Prints events to standard output, a line each.
///
/// A thread of its own writes: a terminal or pipe that takes nothing must not stop the host. What it cannot take is
/// dropped, and that is said once. What waits is written when the printer is dropped.
#[derive(Debug)]
pub struct Printer {
    json: bool,
    colour: bool,
    lines: NonBlocking,
    dropped: ErrorCounter,
    told: AtomicBool,
    _writer: WorkerGuard,
}

impl Printer {
    /// For people, coloured on a terminal only; or a JSON object a line.
    pub fn new(json: bool) -> Printer {
        let colour = !json && io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Printer::onto(Stdout::new(), json, colour)
    }

    fn onto(out: impl Write + Send + 'static, json: bool, colour: bool) -> Printer {
        let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(WAITING).thread_name("lh-events");
        let (lines, writer) = builder.finish(out);
        let dropped = lines.error_counter();
        Printer { json, colour, lines, dropped, told: AtomicBool::new(false), _writer: writer }
    }

    fn line(&self, event: &HostEvent) -> String {
        if self.json {
            return event.to_json().to_string();
        }
        let word = event.event.kind.word();
        let (on, off) = if self.colour { (colour(word), "\x1b[0m") } else { ("", "") };
        let run = event.event.run.as_ref().map_or(String::new(), |run| format!("  {run}"));
        let attempt = event.event.attempt.map_or(String::new(), |attempt| format!("  attempt {attempt}"));
        // What a handler said is a stranger's text: nothing of it may steer the terminal or forge a line.
        let detail = if event.event.detail.is_empty() {
            String::new()
        } else {
            format!("  {}", escape(&event.event.detail).replace('\n', "\\n"))
        };
        let job = event.job.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        format!("{}  {on}{word:<14}{off}  {job:<24}{run}{attempt}{detail}", event.at)
    }
}

impl Events for Printer {
    fn event(&self, event: &HostEvent) {
        // A full queue drops the line, whole, and counts it; it is no error here.
        let _ = self.lines.clone().write_all((self.line(event) + "\n").as_bytes());
        if self.dropped.dropped_lines() > 0 && !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!("standard output does not take events as fast as they come; some are not shown");
        }
    }
}

/// Standard output, by a descriptor of its own: where nobody reads, this thread waits and holds no lock that others want. An
/// event that cannot be written is lost, which is told once until one can; after a reader has gone, nobody is told any more.
struct Stdout<W = File> {
    out: Option<W>,
    /// What was written last is not a whole line.
    half: bool,
    /// It was told that events are lost.
    told: bool,
}

impl Stdout {
    fn new() -> Stdout {
        let out = io::stdout().as_fd().try_clone_to_owned().map(File::from);
        let out = out.inspect_err(|error| tracing::warn!(%error, "events are not printed; the host goes on"));
        Stdout { out: out.ok(), half: false, told: false }
    }
}

impl<W: Write> Stdout<W> {
    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let Some(out) = &mut self.out else { return Ok(()) };
        while !bytes.is_empty() {
            match out.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(took) => {
                    self.half = bytes[took - 1] != b'\n';
                    bytes = &bytes[took..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<W: Write> Write for Stdout<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A line that was cut ends where it is.
        let began: &[u8] = if self.half { b"\n" } else { b"" };
        match self.put(&[began, bytes].concat()) {
            Ok(()) => self.told = false,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.out = None;
                tracing::warn!(%error, "events can no longer be printed; the host goes on");
            }
            Err(error) => {
                if !std::mem::replace(&mut self.told, true) {
                    tracing::warn!(%error, "events are lost: standard output does not take them; the host goes on");
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn colour(word: &str) -> &'static str {
    match word {
        "success" | "store-up" => "\x1b[32m",
        "failed" | "lost" | "store-down" | "uncertain" | "blocked" => "\x1b[31m",
        "skip" | "late" | "missed" | "no-place" | "superseded" | "interrupted" | "early" | "cancelled" | "held"
        | "no-plugin" | "policy-differs" => "\x1b[33m",
        "takeover" | "catch-up" => "\x1b[36m",
        _ => "\x1b[2m",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_lease::agent::EventKind;
    use leasehold_lease::id::{Attempt, RunId};
    use leasehold_lease::time::Slot;

    fn event(detail: &str) -> HostEvent {
        let run = Some(RunId::Slot(Slot(Millis(0))));
        let event = Event { kind: EventKind::Failed, run, attempt: Some(Attempt(2)), detail: detail.to_owned() };
        HostEvent { at: Millis(1), host: "h".into(), job: "acme/x".parse().ok(), event }
    }

    #[test]
    fn a_strangers_text_stays_on_its_line() {
        let printer = Printer::onto(io::sink(), false, false);
        let line = printer.line(&event("boom\nsuccess  acme/x\u{1b}[2J"));
        assert!(!line.contains('\n') && !line.contains('\u{1b}'), "{line:?}");
        assert!(line.starts_with("1970-01-01T00:00:00.001Z  failed          acme/x"), "{line}");
    }

    #[test]
    fn an_output_that_takes_nothing_stops_nobody() {
        /// Takes nothing until its other end is dropped.
        struct Stuck(std::sync::mpsc::Receiver<()>);
        impl Write for Stuck {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _ = self.0.recv();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (release, stuck) = std::sync::mpsc::channel();
        let printer = Printer::onto(Stuck(stuck), true, false);
        for _ in 0..3 * WAITING {
            printer.event(&event("x"));
        }
        assert!(printer.dropped.dropped_lines() > 0);
        drop(release);
    }

    #[test]
    fn json_has_stable_names() {
        let value = event("boom").to_json();
        assert_eq!(value["event"], "failed");
        assert_eq!(value["run"], "1970-01-01T00:00:00.000Z");
        assert_eq!(value["attempt"], 2);
    }

    /// Takes what it is told to.
    struct Disk(Vec<u8>, Vec<io::Result<usize>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let took = self.1.pop().unwrap_or(Ok(bytes.len()))?;
            self.0.extend_from_slice(&bytes[..took]);
            Ok(took)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_loses_the_events_of_its_time_and_a_reader_that_is_gone_all() {
        let full = || Err(io::Error::from(ErrorKind::StorageFull));
        let disk = Disk(Vec::new(), vec![full(), full(), Ok(3)]);
        let mut out = Stdout { out: Some(disk), half: false, told: false };
        for line in ["first\n", "second\n", "third\n"] {
            out.write_all(line.as_bytes()).unwrap();
        }
        let disk = out.out.as_mut().expect("it is there");
        assert_eq!(String::from_utf8_lossy(&disk.0), "fir\nthird\n");
        disk.1 = vec![full()];
        for line in ["lost\n", "kept\n"] {
            out.write_all(line.as_bytes()).unwrap();
        }
        let disk = out.out.as_mut().expect("it is there");
        assert_eq!(String::from_utf8_lossy(&disk.0), "fir\nthird\nkept\n", "nothing of the lost line was written");
        disk.1 = vec![Err(io::Error::from(ErrorKind::BrokenPipe))];
        out.write_all(b"fourth\n").unwrap();
        assert!(out.out.is_none());
        out.write_all(b"fifth\n").unwrap();
    }
}
