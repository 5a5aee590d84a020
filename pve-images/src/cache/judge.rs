//! A file that its note does not fit: is it the image all the same?

use std::path::PathBuf;
use std::sync::Arc;

use super::Cache;
use super::Listener;
use super::blocking;
use super::note;
use super::note::Doubt;
use super::note::Look;
use super::note::Note;
use super::sink;
use super::sink::Fault;
use crate::catalogue::Image;
use crate::checksum::Algorithm;
use crate::checksum::Sum;
use crate::client::Remote;
use crate::error::Error;
use crate::error::bytes;
use crate::files;
use crate::files::Place;
use crate::update::Update;

impl Cache {
    /// Looks at the file again, under the lock; `None` when it must be downloaded anew.
    pub(super) async fn judge(
        &self,
        place: &Place,
        image: &Image,
        remote: Option<&Remote>,
        on_update: Listener<'_>,
    ) -> Result<Option<PathBuf>, Error> {
        let doubt = match self.look(place, image).await? {
            Look::Absent => return Ok(None),
            Look::Agreed => return Ok(Some(place.whole())),
            Look::Doubtful(doubt) => Arc::new(doubt),
        };
        // One that had its turn before us may have found it out.
        if let Some(reason) = self.inner.memory.unfit(&image.url, &doubt) {
            on_update(anew(place, &reason));
            return Ok(None);
        }
        let list = self.list_of(image);
        if let Some(note) = doubt.note.as_ref().filter(|note| note.verified || list.is_none()) {
            on_update(Update::Notice(format!(
                "{} has changed since it was stored (size or time): its checksum is computed again",
                place.name
            )));
            if digest(place, &doubt, note.sum.algorithm()).await? == Ok(note.sum.clone()) {
                return adopt(place, image, &doubt, note.sum.clone(), note.verified)
                    .await
                    .map(Some);
            }
        }

        let verdict = if let Some(sums) = list {
            let listed = self.listed(sums, place, false).await?;
            match digest(place, &doubt, listed.algorithm()).await? {
                Ok(sum) if sum == listed => Ok((sum, true)),
                Ok(sum) => Err(format!("its checksum {sum} is not in {sums}")),
                Err(reason) => Err(reason.to_owned()),
            }
        } else {
            self.judge_by_length(place, &doubt, remote).await?
        };
        match verdict {
            Ok((sum, verified)) => {
                let how = if verified {
                    "its checksum is the publisher's"
                } else {
                    "its length is the publisher's"
                };
                on_update(Update::Notice(format!(
                    "{} was there already and is used: {how}",
                    place.name
                )));
                adopt(place, image, &doubt, sum, verified).await.map(Some)
            }
            Err(reason) => {
                self.inner.memory.remember_unfit(&image.url, &doubt, &reason);
                on_update(anew(place, &reason));
                Ok(None)
            }
        }
    }

    async fn judge_by_length(
        &self,
        place: &Place,
        doubt: &Arc<Doubt>,
        remote: Option<&Remote>,
    ) -> Result<Result<(Sum, bool), String>, Error> {
        let size = doubt.size;
        Ok(match remote.and_then(|remote| remote.length) {
            None => Err("the publisher does not say how long it should be".to_owned()),
            Some(length) if length != size => {
                Err(format!("it has {}, the publisher's {}", bytes(size), bytes(length)))
            }
            Some(_) => match digest(place, doubt, Algorithm::Sha256).await? {
                Ok(sum) => Ok((sum, false)),
                Err(reason) => Err(reason.to_owned()),
            },
        })
    }
}

/// The notice that a file is not the image.
pub(super) fn anew(place: &Place, reason: &str) -> Update {
    Update::Notice(format!(
        "{} was there already but is not used: {reason}; it is downloaded anew",
        place.name
    ))
}

/// The checksum of a file, or why it is no image.
async fn digest(
    place: &Place,
    doubt: &Arc<Doubt>,
    algorithm: Algorithm,
) -> Result<Result<Sum, &'static str>, Error> {
    let (doubt, path) = (Arc::clone(doubt), place.whole());
    blocking(move || match sink::digest(&doubt.file, doubt.size, algorithm) {
        Ok(sum) => Ok(Ok(sum)),
        Err(Fault::NotAnImage(reason)) => Ok(Err(reason)),
        Err(Fault::Read(source) | Fault::Write(source)) => Err(Error::file("read", path)(source)),
    })
    .await
}

/// Writes the note that fits the file as it was before its checksum was computed.
async fn adopt(
    place: &Place,
    image: &Image,
    doubt: &Arc<Doubt>,
    sum: Sum,
    verified: bool,
) -> Result<PathBuf, Error> {
    let (place, url, doubt) = (place.clone(), image.url.to_string(), Arc::clone(doubt));
    blocking(move || {
        let note = Note {
            url,
            size: doubt.size,
            modified: doubt.modified,
            sum,
            verified,
            etag: None,
            last_modified: None,
            time: note::now(),
        };
        files::write_note(&place.side(), &note)?;
        place.sync_directory()?;
        Ok(place.whole())
    })
    .await
}
