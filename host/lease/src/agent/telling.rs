//! What people are told, each thing once.

use std::collections::VecDeque;

use crate::id::{Attempt, RunId};

use super::{Agent, Command, Event, EventKind, Turn};

/// Events that are remembered: many more than concern a job's last runs.
const KEPT: usize = 32;

/// The last events.
#[derive(Debug, Default)]
pub(super) struct Told(VecDeque<(EventKind, RunId, Option<Attempt>)>);

impl Told {
    fn is_new(&mut self, kind: EventKind, run: &RunId, attempt: Option<Attempt>) -> bool {
        if self.0.iter().any(|(k, r, a)| *k == kind && r == run && *a == attempt) {
            return false;
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back((kind, run.clone(), attempt));
        true
    }
}

impl Agent {
    /// Tells people, unless they were told the same.
    pub(super) fn tell(
        &mut self,
        t: &mut Turn<'_>,
        kind: EventKind,
        run: &RunId,
        attempt: Option<Attempt>,
        detail: impl Into<String>,
    ) {
        // A lease may come into doubt more than once.
        if kind == EventKind::Uncertain || self.told.is_new(kind, run, attempt) {
            t.out.push(Command::Event(Event { kind, run: Some(run.clone()), attempt, detail: detail.into() }));
        }
    }
}
