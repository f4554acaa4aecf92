//! What is to happen, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Ms;
use crate::world::Event;

/// Events by time; of those at the same time, the one that was queued first. A heap moves its items about all the time, so
/// it has only their numbers.
#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(Ms, u64, usize)>>,
    events: Vec<Option<Event>>,
    /// Numbers that no event has.
    free: Vec<usize>,
}

impl Queue {
    /// `nth` is how many were queued before.
    pub(crate) fn push(&mut self, at: Ms, nth: u64, event: Event) {
        let number = match self.free.pop() {
            Some(number) => {
                self.events[number] = Some(event);
                number
            }
            None => {
                self.events.push(Some(event));
                self.events.len() - 1
            }
        };
        self.heap.push(Reverse((at, nth, number)));
    }

    pub(crate) fn pop(&mut self) -> Option<(Ms, Event)> {
        let Reverse((at, _, number)) = self.heap.pop()?;
        self.free.push(number);
        Some((at, self.events[number].take()?))
    }

    /// When the first one is due.
    pub(crate) fn next_at(&self) -> Option<Ms> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}
