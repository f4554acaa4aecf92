//! What the drivers' own tests share: their words, a load that goes on through faults, and facts that hold for each
//! driver by the same test. What needs no server's faults is in the `conformance` suite.

mod load;
mod standstill;
mod words;

pub(crate) use load::{Load, all_recorded};
pub(crate) use standstill::heartbeats_go_on_while_the_runtime_stands_still;
pub(crate) use words::{
    ENDS, PATIENCE, allowing, answered_after, beat, claim, finish, job, key, slot, status, told, until_answered, win,
};
