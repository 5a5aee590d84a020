//! reuse
