//! One download, over as many connections as it takes.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use reqwest::Response;
use reqwest::StatusCode;
use reqwest::header;

use super::Listener;
use super::blocking;
use super::note::State;
use super::sink::Fault;
use super::sink::Sink;
use super::turn::Hold;
use crate::catalogue::Image;
use crate::checksum::Algorithm;
use crate::checksum::Sum;
use crate::client;
use crate::client::Client;
use crate::client::Limits;
use crate::client::Remote;
use crate::error::Cause;
use crate::error::Error;
use crate::error::with_causes;
use crate::files;
use crate::update::PACE;
use crate::update::Pace;
use crate::update::Update;

/// How often a transfer may break off in a row.
const TIMES: u32 = 4;
/// A connection that brought so much was worth while: the count of failures begins anew.
const WORTHWHILE: u64 = 1 << 20;

/// What is needed for a download.
pub(super) struct Transfer<'a> {
    pub(super) client: &'a Client,
    pub(super) limits: &'a Limits,
    pub(super) hold: &'a Hold,
    pub(super) image: &'a Image,
    pub(super) remote: Option<&'a Remote>,
}

/// A whole file, flushed.
pub(super) struct Received {
    pub(super) sum: Sum,
    pub(super) remote: Remote,
}

/// A download under way.
struct Run {
    sink: Sink,
    /// What is being fetched.
    remote: Remote,
    pace: Pace,
    anew: bool,
    /// No checksum will judge the whole.
    by_length: bool,
}

/// Why a connection ended too early.
enum End {
    /// Another one may do better.
    Broken(Cause),
    /// The server or the way to it is in trouble; another try may do better.
    Trouble(Error),
    Final(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        match error {
            Error::Unreachable { .. } => Self::Trouble(error),
            Error::Status { status, .. } if status.is_server_error() => Self::Trouble(error),
            _ => Self::Final(error),
        }
    }
}

impl Transfer<'_> {
    /// Downloads the file into the part.
    ///
    /// With the algorithm of a checksum that will judge the whole, goes on from what an earlier run left; without, a
    /// whole file could not be told from one that a power cut spoilt. `anew` begins from nothing.
    pub(super) async fn run(
        &self,
        algorithm: Option<Algorithm>,
        anew: bool,
        on_update: Listener<'_>,
    ) -> Result<Received, Error> {
        let left = if anew || algorithm.is_none() { None } else { self.left().await? };
        let (keep, remote) = left.unwrap_or_default();
        let file = Arc::clone(self.hold.file());
        let mut run = Run {
            sink: Sink::start(file, keep, algorithm.unwrap_or(Algorithm::Sha256)),
            remote,
            pace: Pace::new(Instant::now(), keep),
            anew,
            by_length: algorithm.is_none(),
        };
        if keep > 0 {
            on_update(Update::Notice(format!(
                "{keep} bytes of {} are there from an earlier download: it goes on from them",
                self.hold.place().name
            )));
        }
        if (keep == 0 || run.remote.length != Some(keep))
            && let Err(error) = self.connect(&mut run, on_update).await
        {
            run.sink.leave().await;
            return Err(error);
        }
        let Run { sink, remote, mut pace, .. } = run;
        let done = sink.done();
        let total = remote.length;
        let sum = sink.finish().await.map_err(|fault| self.fault_at(fault, done, total))?;
        if let Some(progress) = pace.end(Instant::now(), done) {
            on_update(progress);
        }
        Ok(Received { sum, remote })
    }

    /// What an earlier run left, if it can be gone on from.
    async fn left(&self) -> Result<Option<(u64, Remote)>, Error> {
        let state = self.hold.place().state();
        let state = blocking(move || files::read_note::<State>(&state)).await?;
        let have = self.hold.length()?;
        let Some(state) = state.filter(|state| state.url == self.image.url.as_str()) else {
            return Ok(None);
        };
        let remote = state.remote();
        let fits = remote.length.is_none_or(|length| have <= length);
        let goes_on = remote.validator().is_some() || remote.length == Some(have);
        Ok((have > 0 && fits && goes_on).then_some((have, remote)))
    }

    /// Connects until all is there.
    async fn connect(&self, run: &mut Run, on_update: Listener<'_>) -> Result<(), Error> {
        let mut times = 0;
        loop {
            let before = run.sink.done();
            let end = match self.connection(run, on_update).await {
                Ok(()) => return Ok(()),
                Err(end) => end,
            };
            let done = run.sink.done();
            if done.saturating_sub(before) >= WORTHWHILE && before > 0 {
                times = 0;
            }
            times += 1;
            let why = match end {
                End::Final(error) => return Err(error),
                End::Trouble(error) if times >= TIMES => return Err(error),
                End::Broken(source) if times >= TIMES => {
                    let (url, total) = (self.image.url.to_string(), run.remote.length);
                    return Err(Error::Interrupted { url, times, done, total, source });
                }
                End::Trouble(error) => with_causes(&error),
                End::Broken(cause) => cause.to_string(),
            };
            on_update(Update::Notice(format!(
                "the download of {} broke off at {done} bytes ({why}): trying again",
                self.hold.place().name
            )));
            tokio::time::sleep(self.limits.pause * 2_u32.pow(times - 1)).await;
        }
    }

    /// One connection, to the end of the file.
    async fn connection(&self, run: &mut Run, on_update: Listener<'_>) -> Result<(), End> {
        let mut response = self.answer(run).await?;
        let announced = run.remote.length;
        let total = announced.or_else(|| self.remote?.length);
        if let Some(total) = total {
            self.hold.place().check_room(total.saturating_sub(run.sink.done()))?;
        }
        let is_chunked = client::text(&response, &header::TRANSFER_ENCODING).is_some();
        if run.by_length && total.is_none() && !is_chunked {
            return Err(End::Final(Error::Unjudgeable { url: self.image.url.to_string() }));
        }
        let mut ticks = tokio::time::interval(PACE);
        loop {
            tokio::select! {
                chunk = response.chunk() => match chunk {
                    Ok(Some(bytes)) => {
                        let written = run.sink.write(bytes).await;
                        written.map_err(|fault| End::Final(self.fault(fault, run)))?;
                    }
                    Ok(None) => break,
                    Err(error) => return Err(End::Broken(error.into())),
                },
                _ = ticks.tick() => {}
            }
            if let Some(progress) = run.pace.progress(Instant::now(), run.sink.done(), total) {
                on_update(progress);
            }
        }
        let got = run.sink.done();
        match if run.by_length { total } else { announced } {
            Some(expected) if expected != got => {
                Err(End::Final(Error::Length { url: self.image.url.to_string(), expected, got }))
            }
            _ => Ok(()),
        }
    }

    /// An answer whose body begins where the part ends.
    async fn answer(&self, run: &mut Run) -> Result<Response, End> {
        let url = &self.image.url;
        let done = run.sink.done();
        let mut request = self.client.get(url, run.anew)?;
        let resumes = done > 0 && run.remote.validator().is_some();
        if let (true, Some(validator)) = (resumes, run.remote.validator()) {
            request = request
                .header(header::RANGE, format!("bytes={done}-"))
                .header(header::IF_RANGE, validator);
        }
        let response = self.client.send("GET", url, request).await?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT if resumes && goes_on(&response, run) => {
                let total = client::content_range(&response).and_then(|(_, total)| total);
                run.remote.length = run.remote.length.or(total);
                return Ok(response);
            }
            StatusCode::OK => {
                self.begin(run, Remote::of(&response)).await?;
                return Ok(response);
            }
            // Ranges that were not asked for or do not fit: the whole file is asked for instead.
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if resumes => {}
            status => {
                return Err(Error::Status { method: "GET", url: url.to_string(), status }.into());
            }
        }
        drop(response);
        let response = self.client.send("GET", url, self.client.get(url, run.anew)?).await?;
        match response.status() {
            StatusCode::OK => {
                self.begin(run, Remote::of(&response)).await?;
                Ok(response)
            }
            status => Err(Error::Status { method: "GET", url: url.to_string(), status }.into()),
        }
    }

    /// Begins from nothing, and notes what is being fetched when the old bytes are gone and before its first one is there.
    async fn begin(&self, run: &mut Run, remote: Remote) -> Result<(), Error> {
        run.sink.restart().await.map_err(|fault| self.fault(fault, run))?;
        run.remote = remote;
        let (path, state) = (self.hold.place().state(), State::new(&self.image.url, &run.remote));
        blocking(move || files::write_note(&path, &state)).await
    }

    fn fault(&self, fault: Fault, run: &Run) -> Error {
        self.fault_at(fault, run.sink.done(), run.remote.length)
    }

    fn fault_at(&self, fault: Fault, done: u64, total: Option<u64>) -> Error {
        let place = self.hold.place();
        match fault {
            Fault::NotAnImage(reason) => {
                Error::NotAnImage { url: self.image.url.to_string(), reason }
            }
            Fault::Read(source) => Error::file("read", place.part())(source),
            Fault::Write(source) if is_full(&source) => {
                let needed = total.map(|total| total.saturating_sub(done));
                place.no_room(needed, place.free().unwrap_or(0))
            }
            Fault::Write(source) => Error::file("write", place.part())(source),
        }
    }
}

/// Whether a partial answer is the rest of what is there.
fn goes_on(response: &Response, run: &Run) -> bool {
    let here = Remote::of(response);
    let same = |ours: &Option<String>, theirs: &Option<String>| {
        ours.is_none() || theirs.is_none() || ours == theirs
    };
    let Some((start, total)) = client::content_range(response) else { return false };
    start == run.sink.done()
        && (total.is_none() || run.remote.length.is_none() || total == run.remote.length)
        && same(&run.remote.etag, &here.etag)
        && same(&run.remote.last_modified, &here.last_modified)
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
