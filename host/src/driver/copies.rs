//! How many copies of one question are on their way to the store.
//!
//! What is not answered in time is sent again, and the older copies still wait, in the store's queue or on a connection.
//! Where the store is slower than the deadline, each question would be asked again and again before its first copy is
//! served, and the queue would only grow: seen with a deadline of 75 ms on a busy disk, where nine in ten calls were
//! copies. Two are enough: one may hang on a connection that is dead.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_lease::id::Token;

/// Copies that may be on their way at once.
const MOST: u8 = 2;

/// What asks: each token claims once, and then finishes or releases once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Question {
    /// To win the run.
    Claim,
    /// To end or hand over what was won.
    Close,
}

/// Shared by the tasks of the calls.
#[derive(Debug, Clone, Default)]
pub(super) struct Copies(Arc<Mutex<HashMap<([u8; 16], Question), u8>>>);

/// One copy, on its way until this is dropped.
#[derive(Debug)]
pub(super) struct Copy {
    all: Copies,
    of: ([u8; 16], Question),
}

impl Copies {
    /// One more copy; none where enough are on their way. The end of one of these is heard of in any case, and then there
    /// is room again.
    pub(super) fn begin(&self, token: Token, question: Question) -> Option<Copy> {
        let of = (token.0, question);
        let mut counts = self.counts();
        let count = counts.entry(of).or_default();
        if *count >= MOST {
            return None;
        }
        *count += 1;
        Some(Copy { all: self.clone(), of })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<([u8; 16], Question), u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        let left = counts.get(&self.of).map_or(0, |count| count - 1);
        if left == 0 {
            counts.remove(&self.of);
        } else {
            counts.insert(self.of, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_copies_of_a_question_are_on_their_way_at_most_and_nothing_is_kept_of_those_that_ended() {
        let copies = Copies::default();
        let token = Token([1; 16]);
        let first = copies.begin(token, Question::Claim).expect("the first");
        let second = copies.begin(token, Question::Claim).expect("the second");
        assert!(copies.begin(token, Question::Claim).is_none());
        let other = copies.begin(token, Question::Close).expect("another question");
        drop(first);
        let third = copies.begin(token, Question::Claim).expect("there is room again");
        drop((second, third, other));
        assert!(copies.counts().is_empty());
    }
}
