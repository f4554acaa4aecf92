//! Nothing: cargo wants a package to have a target.
