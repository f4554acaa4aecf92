//! The suite that every driver passes, on a clock that the test sets and on the server's own; and this driver's traps.

mod clusters;
mod conforms;
mod corners;
mod crashes;
mod demotions;
mod faults;
mod messages;
mod outages;
mod records;
mod starts;
mod support;
