//! Works in steps and keeps a checkpoint after each: when its host dies, the attempt that takes over goes on from there.

use std::time::Duration;

use leasehold_guest::{Result, Run, handler};
use serde::{Deserialize, Serialize};

handler!(work);

#[derive(Deserialize)]
struct Task {
    steps: u64,
    /// How long a step takes, in milliseconds.
    step_ms: u64,
}

/// What one attempt leaves to the next.
#[derive(Default, Serialize, Deserialize)]
struct Checkpoint {
    done: u64,
    sum: u64,
    attempts: Vec<Attempt>,
}

#[derive(Serialize, Deserialize)]
struct Attempt {
    attempt: u32,
    /// How many steps were done when it began.
    from: u64,
}

fn work(run: &Run, task: Task) -> Result<Checkpoint> {
    let mut checkpoint: Checkpoint = run.load_state()?.unwrap_or_default();
    checkpoint.attempts.push(Attempt { attempt: run.attempt(), from: checkpoint.done });
    log::info!("going on from step {}", checkpoint.done);
    while checkpoint.done < task.steps {
        run.sleep(Duration::from_millis(task.step_ms))?;
        checkpoint.done += 1;
        checkpoint.sum += checkpoint.done;
        // Refused once the lease is lost, so no attempt that was given up overwrites what its successor saves.
        run.save_state(&checkpoint)?;
        run.progress(checkpoint.done, Some(task.steps), "steps");
        log::info!("step {} is done", checkpoint.done);
    }
    Ok(checkpoint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_guest::{ErrorKind, StopReason, testing};

    #[test]
    fn what_an_attempt_has_done_the_next_one_does_not_do_again() {
        let run = testing::run();
        testing::stop_after(3, StopReason::Stopping);
        let payload = br#"{"steps": 10, "step_ms": 1}"#;
        let error = testing::call(&run, payload, work).expect_err("it was stopped");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        let output = testing::call(&testing::next_attempt(&run), payload, work).expect("all steps");
        let output = String::from_utf8(output).expect("JSON");
        assert_eq!(output, r#"{"done":10,"sum":55,"attempts":[{"attempt":1,"from":0},{"attempt":2,"from":3}]}"#);
    }
}
