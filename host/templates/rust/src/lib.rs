//! Greets whom its payload names.

use leasehold_guest::{Result, Run, handler};
use serde::Deserialize;

handler!(greet);

#[derive(Deserialize)]
struct Greeting {
    name: String,
}

fn greet(run: &Run, input: Greeting) -> Result<String> {
    log::info!(attempt = run.attempt(); "greeting {}", input.name);
    run.ensure_continue()?; // before every side effect
    Ok(format!("Hello, {}!", input.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_guest::{ErrorKind, StopReason, testing};

    #[test]
    fn it_greets_by_name() {
        let output = testing::call(&testing::run(), br#"{ "name": "Ada" }"#, greet).unwrap();
        assert_eq!(output, br#""Hello, Ada!""#);
    }

    #[test]
    fn it_greets_nobody_once_the_run_is_lost() {
        let run = testing::run();
        testing::stop(StopReason::Lost);
        assert_eq!(greet(&run, Greeting { name: "Ada".into() }).unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
