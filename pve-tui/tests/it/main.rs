//! The real binary in a real terminal.

mod manners;
mod pty;
