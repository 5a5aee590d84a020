//! room
