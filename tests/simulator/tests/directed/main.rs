//! Situations that broke earlier wordings of the contract, or that people met, each played on purpose.

mod outages;
mod people;
mod scene;
mod stops;
mod traces;
