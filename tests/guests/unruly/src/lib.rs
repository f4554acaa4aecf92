//! Does on command what a plugin should not.

use std::time::Duration;

use leasehold_guest::http::Request;
use leasehold_guest::{Error, Result, Run, handler};
use serde::{Deserialize, Serialize};

handler!(obey);

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Wish {
    /// Never ends and never asks.
    Spin,
    /// Takes memory without end.
    Grow,
    /// Panics.
    Panic,
    /// Fails as handlers do.
    Fail { code: String },
    /// Exits.
    Exit,
    /// Prints without end, and says when it is told to stop.
    Flood,
    /// Logs without end, whatever it is told.
    Chatter,
    /// Says things that look like others' words, and that steer terminals.
    Forge,
    /// Calls the host without end.
    Calls,
    /// Calls itself without end.
    Recurse,
    /// Returns this many bytes.
    Output { bytes: usize },
    /// Fails with a code, a message and details of this many bytes each.
    Complain { bytes: usize },
    /// Holds so much memory while it waits.
    Hold { mib: usize, ms: u64 },
    /// Waits, asking all the time, and returns an error when it is told to stop.
    Wait { ms: u64 },
    /// Waits without asking, then returns.
    Ignore { ms: u64 },
    /// Counts its attempts in its checkpoint and in the tenant's key `counter`; the first waits, then goes on.
    Count { ms: u64 },
    /// Writes values of this size without end, and says how many it wrote when it is refused or told to stop.
    KvFlood { size: usize },
    /// Counts a key of the tenant up this many times, each time by what it must be; fails when it is something else.
    Tally { times: u32 },
    /// The value of a key of the tenant, as text.
    KvGet { key: String },
    /// Sends this `times` times, whatever comes of it, waiting `ms` without asking before each; says what came of the last.
    /// `{key}` in a header's value stands for that setting.
    Send {
        url: String,
        #[serde(default)]
        headers: Vec<(String, String)>,
        times: u32,
        ms: u64,
        #[serde(default)]
        timeout_ms: Option<u64>,
    },
    /// The value of a setting, in its output and its log.
    Config { key: String },
}

#[derive(Serialize)]
struct Done {
    attempt: u32,
    reason: String,
    said: Option<String>,
}

fn obey(run: &Run, wish: Wish) -> Result<Done> {
    let mut said = None;
    match wish {
        Wish::Spin => loop {
            std::hint::black_box(0);
        },
        Wish::Grow => {
            let mut hoard = Vec::new();
            loop {
                hoard.push(vec![1_u8; 1 << 20]);
                std::hint::black_box(&hoard);
            }
        }
        Wish::Panic => panic!("as I was told"),
        Wish::Fail { code } => return Err(Error::permanent(code, "as I was told")),
        Wish::Exit => std::process::exit(3),
        Wish::Flood => {
            while run.should_continue() {
                println!("{}", "x".repeat(1_000));
            }
        }
        Wish::Chatter => loop {
            log::info!("{}", "y".repeat(1_000));
        },
        Wish::Forge => forge(),
        Wish::Calls => loop {
            std::hint::black_box(run.should_continue());
        },
        Wish::Recurse => {
            std::hint::black_box(recurse(0));
        }
        Wish::Output { bytes } => return Ok(Done { attempt: run.attempt(), reason: "z".repeat(bytes), said }),
        Wish::Complain { bytes } => {
            let error = Error::permanent("c".repeat(bytes), "m".repeat(bytes));
            return Err(error.with_detail("d".repeat(bytes), "v".repeat(bytes)));
        }
        Wish::Hold { mib, ms } => {
            let held = vec![1_u8; mib << 20];
            std::hint::black_box(&held);
            run.sleep(Duration::from_millis(ms))?;
        }
        Wish::Wait { ms } => {
            log::info!("waiting {ms} ms");
            run.sleep(Duration::from_millis(ms))?;
        }
        Wish::Ignore { ms } => ignore(run, ms),
        Wish::Count { ms } => {
            let seen: u32 = run.load_state()?.unwrap_or(0);
            run.save_state(&(seen + 1))?;
            let counter = run.kv().get("counter")?.map_or(0, |value| value[0]);
            run.kv().compare_and_set("counter", (counter > 0).then_some(&[counter][..]), [counter + 1])?;
            if seen == 0 {
                log::info!("waiting {ms} ms");
                run.sleep(Duration::from_millis(ms))?;
            }
            said = Some(format!("state {} counter {}", seen + 1, counter + 1));
        }
        Wish::KvFlood { size } => {
            let mut written = 0;
            let end = loop {
                if !run.should_continue() {
                    break "told to stop".to_owned();
                }
                match run.kv().set(&format!("flood/{written}"), vec![b'x'; size]) {
                    Ok(()) => written += 1,
                    Err(error) => break error.to_string(),
                }
            };
            said = Some(format!("{written} written: {end}"));
        }
        Wish::Tally { times } => {
            run.kv().delete("tally")?;
            let mut present: Option<Vec<u8>> = None;
            for n in 1..=times {
                let next = n.to_string().into_bytes();
                if !run.kv().compare_and_set("tally", present.as_deref(), &next)? {
                    return Err(Error::permanent("miscounted", n));
                }
                run.progress(n.into(), Some(times.into()), "counted");
                present = Some(next);
            }
            said = Some(format!("{times} counted"));
        }
        Wish::KvGet { key } => {
            let value = run.kv().get(&key)?;
            said = Some(value.map_or("none".to_owned(), |value| String::from_utf8_lossy(&value).into_owned()));
        }
        Wish::Send { url, headers, times, ms, timeout_ms } => {
            for _ in 0..times {
                ignore(run, ms);
                let mut request = Request::get(&url);
                for (name, value) in &headers {
                    let value = match value.strip_prefix('{').and_then(|value| value.strip_suffix('}')) {
                        Some(key) => run.config(key).unwrap_or_default(),
                        None => value.clone(),
                    };
                    request = request.header(name, &value);
                }
                if let Some(ms) = timeout_ms {
                    request = request.timeout(Duration::from_millis(ms));
                }
                said = Some(match request.send(run) {
                    Ok(response) => format!("{} {}", response.status, String::from_utf8_lossy(&response.body)),
                    Err(error) => error.to_string(),
                });
            }
        }
        Wish::Config { key } => {
            said = run.config(&key);
            log::info!("{key} is {said:?}");
        }
    }
    Ok(Done { attempt: run.attempt(), reason: run.reason().to_owned(), said })
}

/// Waits in short sleeps, each of which the signal ends early.
fn ignore(run: &Run, ms: u64) {
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(ms) {
        let _told_to_stop = run.sleep(Duration::from_millis(5)).is_err();
    }
}

/// Each is one record, however many lines it pretends to be.
fn forge() {
    let lines = [
        "ok\n2026-01-01T00:00:00.000Z  success      acme/forged  1970-01-01T00:00:00.000Z  attempt 1",
        "\x1b]0;owned\x07\x1b[2J\x1b[31mred",
        "over\rwritten",
        "line\u{2028}paragraph\u{2029}right\u{202e}left",
    ];
    for line in lines {
        log::info!("{line}");
        println!("{line}");
    }
    let _ = std::io::Write::write_all(&mut std::io::stdout(), b"\xff\xfe\x00\n");
}

/// Its frames lie on the host's stack alone, none in memory, where Rust keeps a stack of its own for what has an address.
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    if depth == u64::MAX { 1 } else { recurse(depth + 1).wrapping_mul(3) / (depth | 1) }
}
