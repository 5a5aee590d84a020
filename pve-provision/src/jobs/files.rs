//! The files of a state directory: one of JSON lines for each job.

use std::fs;
use std::fs::DirBuilder;
use std::fs::File;
use std::fs::OpenOptions;
use std::fs::Permissions;
use std::fs::TryLockError;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;

use super::at;
use super::id::JobId;
use super::record::Record;

/// Longer than any `Ended` line.
const TAIL: u64 = 256;

#[derive(Debug)]
pub(super) struct Files {
    directory: PathBuf,
    /// Held for as long as the directory is in use.
    _lock: File,
}

/// What a log holds that begins as it must.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) accepted: Timestamp,
    pub(super) request: Value,
    /// What follows.
    pub(super) records: Vec<Record>,
    /// Bytes of the lines that are whole.
    length: u64,
}

impl Contents {
    /// The contents of a log that has only its first record.
    pub(super) fn of(first: Record) -> Self {
        match first {
            Record::Accepted { time, request } => {
                Self { accepted: time, request, records: Vec::new(), length: 0 }
            }
            other => Self {
                accepted: Timestamp::now(),
                request: Value::Null,
                records: vec![other],
                length: 0,
            },
        }
    }
}

impl Files {
    pub(super) fn open(state: &Path) -> io::Result<Self> {
        let directory = state.join("jobs");
        DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(at(state))?;
        DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(at(&directory))?;
        fs::set_permissions(&directory, Permissions::from_mode(0o700)).map_err(at(&directory))?;

        let path = state.join("lock");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { directory, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!("{}: another server uses this directory", state.display()),
            )),
            Err(TryLockError::Error(error)) => Err(at(path)(error)),
        }
    }

    /// The jobs that have a file, the one that was written to longest ago first.
    pub(super) fn list(&self) -> io::Result<Vec<JobId>> {
        let mut found = Vec::new();
        for item in fs::read_dir(&self.directory).map_err(at(&self.directory))? {
            let item = item?;
            let name = item.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl")?.parse().ok());
            let metadata = item.metadata()?;
            if let Some(id) = id.filter(|_| metadata.is_file()) {
                found.push((metadata.modified()?, id));
            }
        }
        found.sort_unstable();
        Ok(found.into_iter().map(|(_, id)| id).collect())
    }

    /// Whether the log has its `Ended` line, read without the rest of it.
    pub(super) fn has_ended(&self, id: &JobId) -> io::Result<bool> {
        let path = self.path(id);
        let mut file = File::open(&path).map_err(at(&path))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut tail = Vec::new();
        file.take(TAIL).read_to_end(&mut tail).map_err(at(path))?;
        let Some(lines) = tail.strip_suffix(b"\n") else { return Ok(false) };
        let last = lines.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(matches!(serde_json::from_slice(last), Ok(Record::Ended { .. })))
    }

    /// Makes the file of a new job; it is on disk when this returns.
    pub(super) fn create(&self, id: &JobId, first: &Record) -> io::Result<LogFile> {
        let path = self.path(id);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(at(&path))?;
        let mut log = LogFile { file, path, length: 0 };
        let written = log
            .append([first])
            .and_then(|()| File::open(&self.directory)?.sync_all().map_err(at(&self.directory)));
        if let Err(error) = written {
            // Without its first line the file is nobody's; what cannot be removed is skipped by the next start.
            let _ = fs::remove_file(&log.path);
            return Err(error);
        }
        Ok(log)
    }

    /// A whole log; nothing when it does not begin as a log must.
    pub(super) fn read(&self, id: &JobId) -> io::Result<Option<Contents>> {
        let path = self.path(id);
        let mut input = BufReader::new(File::open(&path).map_err(at(&path))?);
        let mut contents: Option<Contents> = None;
        let (mut length, mut line) = (0, Vec::new());
        loop {
            line.clear();
            input.read_until(b'\n', &mut line).map_err(at(&path))?;
            let Some(text) = line.strip_suffix(b"\n") else { break };
            length += line.len() as u64;
            match (serde_json::from_slice(text), &mut contents) {
                (Ok(first @ Record::Accepted { .. }), None) => contents = Some(Contents::of(first)),
                (Ok(record), Some(contents)) => contents.records.push(record),
                (Ok(_), None) => return Ok(None),
                (Err(error), _) => {
                    tracing::warn!(job = %id, %error, "a line of the job's log is unreadable");
                }
            }
        }
        if let Some(contents) = &mut contents {
            contents.length = length;
        }
        Ok(contents)
    }

    /// Reads a log and opens it for more, without the torn line that a crash may have left at its end.
    ///
    /// A log without its first line is removed: its job was never accepted.
    pub(super) fn reopen(&self, id: &JobId) -> io::Result<Option<(Contents, LogFile)>> {
        let Some(contents) = self.read(id)? else {
            self.remove(id)?;
            return Ok(None);
        };
        let path = self.path(id);
        let file = OpenOptions::new().append(true).open(&path).map_err(at(&path))?;
        file.set_len(contents.length).map_err(at(&path))?;
        let log = LogFile { file, path, length: contents.length };
        Ok(Some((contents, log)))
    }

    pub(super) fn remove(&self, id: &JobId) -> io::Result<()> {
        let path = self.path(id);
        fs::remove_file(&path).map_err(at(path))
    }

    fn path(&self, id: &JobId) -> PathBuf {
        self.directory.join(format!("{id}.jsonl"))
    }
}

/// The file of a job that is still written to.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    path: PathBuf,
    /// Bytes of the lines that are whole.
    length: u64,
}

impl LogFile {
    #[cfg(test)]
    pub(super) fn of(file: File) -> Self {
        Self { file, path: PathBuf::from("log"), length: 0 }
    }

    /// Appends the records; they are on disk when this returns.
    pub(super) fn append<'a>(
        &mut self,
        records: impl IntoIterator<Item = &'a Record>,
    ) -> io::Result<()> {
        let mut lines = Vec::new();
        for record in records {
            serde_json::to_writer(&mut lines, record)?;
            lines.push(b'\n');
        }
        let written = self.file.write_all(&lines).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => {
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Half a line must not become the beginning of the next one.
                let _ = self.file.set_len(self.length);
                Err(at(&self.path)(error))
            }
        }
    }

    /// Takes the log away: it could not be given its end, and without one the next server would take the job
    /// for one that broke off, and undo what is finished.
    pub(super) fn discard(&self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::error!(%error, path = %self.path.display(), "cannot remove a log without an end");
        }
    }
}
