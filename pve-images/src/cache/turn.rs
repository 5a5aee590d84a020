//! Whose turn it is: one at a time works on an image, the others look on.

use std::fs::File;
use std::fs::Permissions;
use std::fs::TryLockError;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use super::Cache;
use super::Listener;
use super::blocking;
use super::note;
use super::note::Look;
use super::note::Note;
use super::note::State;
use super::transfer::Received;
use crate::catalogue::Image;
use crate::client::Remote;
use crate::error::Error;
use crate::files;
use crate::files::Modified;
use crate::files::Place;
use crate::update::Pace;
use crate::update::Update;

/// How often a waiting task looks whether it can go on. The lock itself tells when its holder has died.
const POLL: Duration = Duration::from_millis(200);

/// What waiting ends with.
pub(super) enum Turn {
    /// The image lies there, whole.
    Whole,
    /// It is ours to see to it.
    Ours(Hold),
}

/// One look while waiting.
enum Glance {
    Whole,
    Ours(Hold),
    /// Another one is at it.
    Busy {
        done: u64,
        total: Option<u64>,
    },
}

/// The locked `.part` file. Dropped, the lock is free; the file stays if it has anything to go on from.
pub(super) struct Hold {
    place: Place,
    file: Arc<File>,
}

impl Cache {
    /// Waits until the image is whole or it is our turn to work on it, and tells what the other one does meanwhile.
    pub(super) async fn turn(
        &self,
        place: &Place,
        image: &Image,
        remote: Option<&Remote>,
        on_update: Listener<'_>,
    ) -> Result<Turn, Error> {
        let length = remote.and_then(|remote| remote.length);
        let verified = self.list_of(image).is_some();
        let failures = self.inner.memory.failure(&image.url).number;
        let mut waiting: Option<Pace> = None;
        loop {
            let (there, url) = (place.clone(), image.url.clone());
            match blocking(move || glance(&there, &url, verified)).await? {
                Glance::Whole => return Ok(Turn::Whole),
                Glance::Ours(hold) => {
                    if waiting.is_some() {
                        let failure = self.inner.memory.failure(&image.url);
                        if failure.number != failures {
                            return Err(Error::Elsewhere { reason: failure.reason });
                        }
                        on_update(Update::Notice(format!(
                            "the other one ended without {}: this one goes on",
                            place.name
                        )));
                    }
                    return Ok(Turn::Ours(hold));
                }
                Glance::Busy { done, total } => {
                    if waiting.is_none() {
                        on_update(Update::Notice(format!(
                            "{} is already being downloaded or checked elsewhere: waiting for that",
                            place.name
                        )));
                    }
                    let now = Instant::now();
                    let progress = waiting.get_or_insert_with(|| Pace::new(now, done)).progress(
                        now,
                        done,
                        length.or(total),
                    );
                    progress.into_iter().for_each(&mut *on_update);
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

fn glance(place: &Place, url: &url::Url, verified: bool) -> Result<Glance, Error> {
    if matches!(note::look(place, url, verified)?, Look::Agreed) {
        return Ok(Glance::Whole);
    }
    let Some(hold) = Hold::take(place)? else {
        let total = files::read_note::<State>(&place.state())?.and_then(|state| state.length);
        return Ok(Glance::Busy { done: place.part_length().unwrap_or(0), total });
    };
    // Between the look and the lock, the one before us may have finished.
    if matches!(note::look(place, url, verified)?, Look::Agreed) {
        return Ok(Glance::Whole);
    }
    Ok(Glance::Ours(hold))
}

impl Hold {
    /// Locks the `.part`, which is made if need be; `None` when another one has it.
    fn take(place: &Place) -> Result<Option<Self>, Error> {
        let path = place.part();
        loop {
            let file = match files::open(&path, true)? {
                Some(file) => file,
                None => match files::create(&path)? {
                    Some(file) => file,
                    None => continue,
                },
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(Error::file("lock", path)(error)),
            }
            // Before we had the lock, its holder may have renamed or removed the file: what we locked is then no part
            // any more.
            if files::is_at(&file, &path)? {
                return Ok(Some(Self { place: place.clone(), file: Arc::new(file) }));
            }
        }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Bytes that have come so far.
    pub(super) fn length(&self) -> Result<u64, Error> {
        let found = self.file.metadata().map_err(Error::file("look at", self.place.part()))?;
        Ok(found.len())
    }

    /// Removes what has come so far.
    pub(super) fn discard(&self) -> Result<(), Error> {
        if files::is_at(&self.file, &self.place.part())? {
            files::remove(&self.place.part())?;
        }
        files::remove(&self.place.state())
    }

    /// Gives the whole and flushed file its name.
    ///
    /// The note comes first: from the moment the name is there, the note fits it. A crash between the two leaves a whole
    /// `.part`, which the next run finds so.
    pub(super) async fn publish(
        &self,
        image: &Image,
        received: Received,
        verified: bool,
    ) -> Result<PathBuf, Error> {
        let (place, file, url) =
            (self.place.clone(), Arc::clone(&self.file), image.url.to_string());
        blocking(move || {
            let part = place.part();
            if !files::is_at(&file, &part)? {
                return Err(Error::Disturbed { path: part });
            }
            file.set_permissions(Permissions::from_mode(0o644))
                .map_err(Error::file("set the mode of", &part))?;
            let found = file.metadata().map_err(Error::file("look at", &part))?;
            let Received { sum, remote } = received;
            let note = Note {
                url,
                size: found.len(),
                modified: Modified::of(&found),
                sum,
                verified,
                etag: remote.etag,
                last_modified: remote.last_modified,
                time: note::now(),
            };
            files::write_note(&place.side(), &note)?;
            let whole = place.whole();
            std::fs::rename(&part, &whole).map_err(Error::file("rename to", &whole))?;
            place.sync_directory()?;
            files::remove(&place.state())?;
            Ok(whole)
        })
        .await
    }
}

impl Drop for Hold {
    /// An empty file is nothing to go on from. The lock is still ours here.
    fn drop(&mut self) {
        let is_empty = self.file.metadata().is_ok_and(|found| found.len() == 0);
        if is_empty && files::is_at(&self.file, &self.place.part()).unwrap_or(false) {
            // What cannot be removed hinders nobody who may use it.
            let _ = files::remove(&self.place.state());
            let _ = files::remove(&self.place.part());
        }
    }
}
