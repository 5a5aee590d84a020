//! What crosses crates: the server against the simulated cluster.

mod documents;
mod specification;
