//! The suite that every driver passes, on a clock that the test sets and on the server's own; and this driver's traps.

mod conforms;
mod support;
