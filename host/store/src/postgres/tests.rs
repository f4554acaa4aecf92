//! The suite that every driver passes, on a clock that the test sets and on the server's own; and this driver's traps.

mod apart;
mod beats;
mod conforms;
mod crashes;
mod damage;
mod lanes;
mod locks;
mod outages;
mod people;
mod poolers;
mod prunes;
mod schemas;
mod starts;
mod storms;
mod stragglers;
mod support;
