//! together
