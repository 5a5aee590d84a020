//! The servers that were used before: their addresses, certificates and last accounts. No secrets.

use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::login::Known;

pub(crate) fn load() -> Vec<Known> { Vec::new() }
pub(crate) fn remember(_known: Known) -> io::Result<()> { Ok(()) }
