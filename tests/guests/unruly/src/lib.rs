//! Does on command what a plugin should not.

use std::time::Duration;

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
    /// Returns so many bytes.
    Output { bytes: usize },
    /// Fails with a code, a message and details of so many bytes each.
    Complain { bytes: usize },
    /// Holds so much memory while it waits.
    Hold { mib: usize, ms: u64 },
    /// Waits, asking all the time, and returns an error when it is told to stop.
    Wait { ms: u64 },
    /// Waits without asking, then returns.
    Ignore { ms: u64 },
}

#[derive(Serialize)]
struct Done {
    attempt: u32,
    reason: String,
}

fn obey(run: &Run, wish: Wish) -> Result<Done> {
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
        Wish::Output { bytes } => return Ok(Done { attempt: run.attempt(), reason: "z".repeat(bytes) }),
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
        Wish::Ignore { ms } => {
            // Short sleeps, each of which the signal ends early.
            let start = std::time::Instant::now();
            while start.elapsed() < Duration::from_millis(ms) {
                let _told_to_stop = run.sleep(Duration::from_millis(5)).is_err();
            }
        }
    }
    Ok(Done { attempt: run.attempt(), reason: run.reason().to_owned() })
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
