//! What is recorded for what a guest did: the table of outcomes.

use leasehold_lease::agent::Verdict;
use leasehold_lease::run::{Failure, Outcome, Usage};
use leasehold_sandbox::{Ended, ErrorInfo, FailureKind, GuestEnd, HandlerError, Limits, StopReason};

/// What follows from the end of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// The attempt ended; this is recorded.
    Verdict(Verdict),
    /// The handler was not reached, or could not go on, for want of this host's resources.
    Want(Failure),
}

/// The first stop cause wins, `lost` overrides all. Of an output, the first `output_kept` bytes are.
pub fn judge(ended: &Ended, output_kept: u64) -> Judged {
    let failed = |failure| Judged::Verdict(Verdict::Finish(Outcome::Failed(failure)));
    match (ended.stop, &ended.end) {
        // H2: nothing of a lost attempt is recorded.
        (Some(StopReason::Lost), _) => Judged::Verdict(Verdict::Nothing),
        (_, GuestEnd::Output(output)) => {
            let kept = output[..output.len().min(usize::try_from(output_kept).unwrap_or(usize::MAX))].to_vec();
            let cut = kept.len() < output.len();
            Judged::Verdict(Verdict::Finish(Outcome::Success { output: kept, cut }))
        }
        (Some(StopReason::Stopping), GuestEnd::Error(HandlerError::Permanent(_))) => failed(failure(&ended.end)),
        // An error after the stop signal is a hand-over, not a failure.
        (Some(StopReason::Stopping), _) => Judged::Verdict(Verdict::Release),
        (Some(StopReason::Deadline), _) => failed(timeout(&ended.end)),
        (Some(StopReason::Cancelled), _) => {
            Judged::Verdict(Verdict::Finish(Outcome::Interrupted { reason: "cancelled".to_owned() }))
        }
        (None, GuestEnd::Failure(f)) if f.kind == FailureKind::NoResources => Judged::Want(failure(&ended.end)),
        (None, _) => failed(failure(&ended.end)),
    }
}

/// What the attempt used, as it is recorded.
pub fn usage(ended: &Ended) -> Usage {
    let used = &ended.usage;
    let ms = |d: std::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    Usage {
        wall_ms: ms(used.wall),
        cpu_ms: ms(used.cpu),
        peak_memory: used.peak_memory as u64,
        host_calls: used.host_calls,
        log_bytes: used.log_bytes as u64,
        http_sent: used.http_sent,
        http_received: used.http_received,
        fuel: used.fuel,
    }
}

/// The code of a handler that says that it was cancelled.
const CANCELLED: &str = "cancelled";

/// An end that is no success, in the words of the record.
pub(crate) fn failure(end: &GuestEnd) -> Failure {
    match end {
        GuestEnd::Error(HandlerError::Retryable(info)) => by_handler(info, true),
        GuestEnd::Error(HandlerError::Permanent(info)) => by_handler(info, false),
        GuestEnd::Error(HandlerError::Cancelled) => Failure {
            code: CANCELLED.to_owned(),
            message: "the handler said that it was cancelled, but nobody had asked it to stop".to_owned(),
            details: Vec::new(),
            retryable: false,
        },
        GuestEnd::Failure(failure) => Failure {
            code: failure.kind.as_str().to_owned(),
            message: failure.message.clone(),
            details: traces(failure),
            retryable: false,
        },
        GuestEnd::Output(_) => unreachable!("an output is a success"),
    }
}

fn by_handler(info: &ErrorInfo, retryable: bool) -> Failure {
    let mut code = match may_be_taken_for_ours(&info.code) {
        true => format!("handler:{}", info.code.trim()),
        false => info.code.clone(),
    };
    code.truncate(code.floor_char_boundary(Limits::default().error_code));
    Failure { code, message: info.message.clone(), details: info.details.clone(), retryable }
}

/// Nobody can pass his own error off as the host's verdict, nor as the one that stands for a word of the contract: not by the
/// word itself, not with something behind it that reads like the host's message, and not with letters that look alike.
fn may_be_taken_for_ours(code: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let first = code.trim().split(|c: char| !is_part(c)).next().unwrap_or_default();
    let mut words = FailureKind::ALL.iter().map(|kind| kind.as_str()).chain([CANCELLED]);
    !code.is_ascii() || words.any(|word| first.eq_ignore_ascii_case(word))
}

/// After the deadline, anything but ok is a timeout; what the guest said stands in the details.
fn timeout(end: &GuestEnd) -> Failure {
    let said = failure(end);
    if said.code == FailureKind::Timeout.as_str() {
        return said;
    }
    if *end == GuestEnd::Error(HandlerError::Cancelled) {
        let message = "it stopped when it was told that its time was nearly up".to_owned();
        return Failure { code: FailureKind::Timeout.as_str().to_owned(), message, ..said };
    }
    // It is one of the details, as bounded as any.
    let (most, key) = (Limits::default(), "ended-with");
    let mut with = format!("{}: {}", said.code, said.message);
    with.truncate(with.floor_char_boundary(most.error_detail - key.len()));
    let mut details = said.details;
    details.truncate(most.error_details - 1);
    details.insert(0, (key.to_owned(), with));
    let message = "its time was up, and it ended without a result".to_owned();
    Failure { code: FailureKind::Timeout.as_str().to_owned(), message, details, retryable: false }
}

fn traces(failure: &leasehold_sandbox::Failure) -> Vec<(String, String)> {
    let mut details = Vec::new();
    if !failure.stderr.is_empty() {
        details.push(("stderr".to_owned(), failure.stderr.clone()));
    }
    if !failure.backtrace.is_empty() {
        details.push(("backtrace".to_owned(), backtrace(&failure.backtrace)));
    }
    details
}

/// A line a frame; frames that follow one another and are the same, as in recursion, are one line.
fn backtrace(frames: &[String]) -> String {
    let line = |same: &[String]| match same.len() {
        1 => same[0].clone(),
        times => format!("{} ({times} times)", same[0]),
    };
    frames.chunk_by(|one, other| one == other).map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(end: GuestEnd, stop: Option<StopReason>) -> Judged {
        judge(&Ended { end, stop, usage: Default::default() }, 64)
    }
    fn info() -> ErrorInfo {
        ErrorInfo { code: "c".into(), message: "m".into(), details: vec![] }
    }
    fn retryable() -> GuestEnd {
        GuestEnd::Error(HandlerError::Retryable(info()))
    }
    fn permanent() -> GuestEnd {
        GuestEnd::Error(HandlerError::Permanent(info()))
    }
    fn cancelled() -> GuestEnd {
        GuestEnd::Error(HandlerError::Cancelled)
    }
    fn broke(kind: FailureKind) -> GuestEnd {
        let message = "m".to_owned();
        GuestEnd::Failure(leasehold_sandbox::Failure { kind, message, backtrace: vec![], stderr: String::new() })
    }
    fn code(judged: Judged) -> String {
        match judged {
            Judged::Verdict(Verdict::Finish(Outcome::Failed(failure))) => failure.code,
            other => panic!("not failed: {other:?}"),
        }
    }

    #[test]
    fn ok_is_success_whatever_was_asked_but_after_lost() {
        for stop in [None, Some(StopReason::Stopping), Some(StopReason::Deadline), Some(StopReason::Cancelled)] {
            let judged = ended(GuestEnd::Output(b"x".to_vec()), stop);
            let success = Outcome::Success { output: b"x".to_vec(), cut: false };
            assert_eq!(judged, Judged::Verdict(Verdict::Finish(success)), "{stop:?}");
        }
        for end in [GuestEnd::Output(vec![]), permanent(), broke(FailureKind::Trap)] {
            assert_eq!(ended(end, Some(StopReason::Lost)), Judged::Verdict(Verdict::Nothing));
        }
    }

    #[test]
    fn without_a_signal_every_error_is_failed_by_its_own_word() {
        assert_eq!(code(ended(retryable(), None)), "c");
        assert_eq!(code(ended(permanent(), None)), "c");
        assert_eq!(code(ended(cancelled(), None)), "cancelled");
        let words = [
            (FailureKind::Trap, "trap"),
            (FailureKind::Stack, "stack"),
            (FailureKind::Exit, "exit"),
            (FailureKind::Memory, "memory"),
            (FailureKind::Timeout, "timeout"),
            (FailureKind::Cpu, "cpu"),
            (FailureKind::Fuel, "fuel"),
            (FailureKind::Budget, "budget"),
            (FailureKind::Handles, "handles"),
            (FailureKind::Random, "random"),
            (FailureKind::CallTooLarge, "call-too-large"),
            (FailureKind::OutputTooLarge, "output-too-large"),
            (FailureKind::Start, "start"),
            (FailureKind::Host, "host"),
        ];
        for (kind, word) in words {
            assert_eq!(code(ended(broke(kind), None)), word);
        }
    }

    #[test]
    fn a_handler_cannot_pass_its_error_off_as_the_host_s_verdict() {
        let said = |code: &str| {
            let info = ErrorInfo { code: code.to_owned(), ..info() };
            super::tests::code(ended(GuestEnd::Error(HandlerError::Permanent(info)), None))
        };
        for kind in FailureKind::ALL {
            assert_eq!(said(kind.as_str()), format!("handler:{kind}"));
        }
        let codes = ["cancelled", " timeout\n", "Timeout", "timeouts", "upstream-timeout", "handler:timeout", ""];
        let recorded = ["handler:cancelled", "handler:timeout", "handler:Timeout", "timeouts", "upstream-timeout"];
        assert_eq!(codes.map(said)[..5], recorded);
        for forged in ["trap: wasm trap: unreachable", "timeout\u{200b}", "t\u{456}meout", "timeout."] {
            assert_eq!(said(forged), format!("handler:{forged}"));
        }
        assert_eq!((said("handler:timeout").as_str(), said("").as_str()), ("handler:timeout", ""));
    }

    #[test]
    fn after_stopping_only_a_permanent_error_is_a_failure() {
        let stop = Some(StopReason::Stopping);
        assert_eq!(code(ended(permanent(), stop)), "c");
        for end in [retryable(), cancelled(), broke(FailureKind::Trap), broke(FailureKind::Interrupted)] {
            assert_eq!(ended(end, stop), Judged::Verdict(Verdict::Release));
        }
    }

    #[test]
    fn after_the_deadline_anything_but_ok_is_a_timeout() {
        for end in [retryable(), permanent(), cancelled(), broke(FailureKind::Trap), broke(FailureKind::Timeout)] {
            assert_eq!(code(ended(end, Some(StopReason::Deadline))), "timeout");
        }
    }

    #[test]
    fn after_a_cancellation_anything_but_ok_is_interrupted() {
        for end in [retryable(), permanent(), broke(FailureKind::Trap)] {
            let judged = ended(end, Some(StopReason::Cancelled));
            assert!(matches!(judged, Judged::Verdict(Verdict::Finish(Outcome::Interrupted { .. }))), "{judged:?}");
        }
    }

    #[test]
    fn a_long_output_is_kept_in_part_and_marked() {
        for (length, kept) in [(64, 64), (65, 64)] {
            let judged = ended(GuestEnd::Output(vec![1; length]), None);
            let success = Outcome::Success { output: vec![1; kept], cut: length > kept };
            assert_eq!(judged, Judged::Verdict(Verdict::Finish(success)));
        }
    }

    #[test]
    fn what_a_guest_said_after_its_deadline_is_one_of_the_details_and_as_bounded() {
        let details = (0..32).map(|n| (n.to_string(), String::new())).collect();
        let info = ErrorInfo { code: "c".into(), message: "ö".repeat(4_096), details };
        let judged = ended(GuestEnd::Error(HandlerError::Permanent(info)), Some(StopReason::Deadline));
        let Judged::Verdict(Verdict::Finish(Outcome::Failed(failure))) = judged else { panic!("{judged:?}") };
        assert_eq!((failure.details.len(), failure.details[0].0.as_str()), (32, "ended-with"));
        assert!(failure.details[0].1.starts_with("c: öö") && failure.details[0].1.len() <= 1_024 - "ended-with".len());
    }

    #[test]
    fn want_of_resources_is_no_failure_of_the_run() {
        assert!(matches!(ended(broke(FailureKind::NoResources), None), Judged::Want(_)));
    }

    #[test]
    fn frames_of_a_recursion_are_one_line() {
        let frames = ["deep", "deep", "deep", "handle", "deep"].map(str::to_owned);
        assert_eq!(backtrace(&frames), "deep (3 times)\nhandle\ndeep");
    }
}
