//! The programs that are run in place of `qm`, `pvesm` and `pvesh`.
//!
//! One binary under three names. It hands its arguments and its environment to the simulator, over
//! the socket that lies beside its own executable, and prints what comes back.

use std::env;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::Deserialize;
use serde::Serialize;

/// The socket's name; it lies beside the faces.
pub const SOCKET: &str = "pve-sim.sock";

/// The names that a face goes by.
pub const NAMES: [&str; 3] = ["qm", "pvesm", "pvesh"];

/// What a face tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Told {
    /// Its name.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// Where it was started.
    pub directory: String,
}

/// What a face hears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Frame {
    /// Text for standard output.
    Out(String),
    /// Text for standard error.
    Err(String),
    /// The end, with the exit code.
    Exit(i32),
}

/// The name under which this process was started, if it is a face's.
pub fn name() -> Option<String> {
    let first = env::args_os().next()?;
    let name = Path::new(&first).file_name()?.to_str()?;
    NAMES.contains(&name).then(|| name.to_owned())
}

/// Runs as a face; returns the exit code.
pub fn run(name: &str) -> io::Result<i32> {
    let executable = env::current_exe()?;
    let socket = executable.parent().unwrap_or(Path::new("/")).join(SOCKET);
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let told = Told {
        program: name.to_owned(),
        arguments: env::args_os().skip(1).map(lossy).collect(),
        environment: env::vars_os().map(|(key, value)| (lossy(key), lossy(value))).collect(),
        directory: env::current_dir().map(|path| path.to_string_lossy().into_owned())?,
    };
    let mut stream = UnixStream::connect(socket)?;
    let mut line = serde_json::to_vec(&told)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    for line in BufReader::new(stream).lines() {
        match serde_json::from_str(&line?)? {
            Frame::Out(text) => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())?;
                out.flush()?;
            }
            Frame::Err(text) => io::stderr().lock().write_all(text.as_bytes())?,
            Frame::Exit(code) => return Ok(code),
        }
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the simulator has gone"))
}
