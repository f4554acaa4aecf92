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
