//! The cache: whole images, and how they come to be there.
//!
//! Four files may lie side by side: `<name>`, which is whole whenever it is there; `<name>.json`, what is known of it;
//! `<name>.part`, what has come so far; `<name>.part.json`, of what it is a part.
//! Whoever has locked the `.part` works on the image, all others wait and look on.
//! The lock lies on the data itself and not on a file beside it, so that it can neither be left behind by a crash nor
//! come apart from what it guards; a holder that dies loses it at once.

mod judge;
mod memory;
mod note;
mod sink;
mod transfer;
mod turn;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::OnceCell;
use url::Url;

use self::memory::Memory;
use self::note::Look;
use self::transfer::Received;
use self::transfer::Transfer;
use self::turn::Hold;
use self::turn::Turn;
use crate::catalogue::Image;
use crate::checksum;
use crate::checksum::Sum;
use crate::client::Client;
use crate::client::Limits;
use crate::client::Remote;
use crate::error::Error;
use crate::error::with_causes;
use crate::files;
use crate::files::Place;
use crate::update::Update;

/// Where updates go.
type Listener<'a> = &'a mut (dyn FnMut(Update) + Send);

/// Whether the publisher must answer for an image that lies whole in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// Yes: a publisher that does not answer is an error.
    Required,
    /// No: the whole image is used, with a notice.
    Optional,
}

/// How a cache works.
#[derive(Debug, Clone)]
pub struct CacheSettings {
    /// Where the files lie; made if need be.
    pub directory: PathBuf,
    /// Whether the publisher must answer for a cached image.
    pub head: Head,
    /// Whether images are compared with the publisher's list of checksums.
    pub verify: bool,
}

/// A directory of whole images. A clone is another handle on the same.
#[derive(Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

struct Inner {
    settings: CacheSettings,
    limits: Limits,
    /// Made at the first question: to read the certificates takes longer than to start.
    client: OnceCell<Client>,
    memory: Memory,
}

impl Cache {
    /// A cache in a directory, which is made if need be.
    ///
    /// A directory in which other users could replace files is refused; `/tmp` with its sticky bit is none.
    pub fn new(settings: CacheSettings) -> Result<Self, Error> {
        Self::with_limits(settings, Limits::default())
    }

    fn with_limits(settings: CacheSettings, limits: Limits) -> Result<Self, Error> {
        files::prepare_directory(&settings.directory)?;
        let inner = Inner { settings, limits, client: OnceCell::new(), memory: Memory::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// How the cache works.
    pub fn settings(&self) -> &CacheSettings {
        &self.inner.settings
    }

    /// Asks the publisher for the image without fetching it: `HEAD`, which must answer 200 within 15 seconds.
    ///
    /// Redirects are followed; a server that refuses the method is asked once more by a `GET` of one byte.
    pub async fn head(&self, image: &Image) -> Result<Remote, Error> {
        self.client().await?.head(&image.url).await
    }

    /// Like [`head`](Self::head), but under [`Head::Optional`] a whole image in the cache passes without an answer.
    ///
    /// `None` then; a notice says why.
    pub async fn validate(
        &self,
        image: &Image,
        mut on_update: impl FnMut(Update) + Send,
    ) -> Result<Option<Remote>, Error> {
        let error = match self.head(image).await {
            Ok(remote) => return Ok(Some(remote)),
            Err(error) => error,
        };
        if self.inner.settings.head == Head::Required
            || !matches!(self.look(&self.place(image)?, image).await?, Look::Agreed)
        {
            return Err(error);
        }
        on_update(Update::Notice(format!(
            "{}; the whole image in the cache is used",
            with_causes(&error)
        )));
        Ok(None)
    }

    /// The image's file, if it lies in the cache, whole; `None` when it must be downloaded.
    ///
    /// A file that the notes beside it do not fit is looked at again: changed since, or put there by somebody else.
    /// It is taken when its checksum is the noted one or in the publisher's list; without a list, when its length is
    /// that of `remote`. Else a notice says that it is to be downloaded anew.
    pub async fn cached(
        &self,
        image: &Image,
        remote: Option<&Remote>,
        mut on_update: impl FnMut(Update) + Send,
    ) -> Result<Option<PathBuf>, Error> {
        let place = self.place(image)?;
        match self.look(&place, image).await? {
            Look::Absent => return Ok(None),
            Look::Agreed => return Ok(Some(place.whole())),
            Look::Doubtful(doubt) => {
                if let Some(reason) = self.inner.memory.unfit(&image.url, &doubt) {
                    on_update(judge::anew(&place, &reason));
                    return Ok(None);
                }
            }
        }
        match self.turn(&place, image, remote, &mut on_update).await? {
            Turn::Whole => Ok(Some(place.whole())),
            Turn::Ours(_hold) => self.judge(&place, image, remote, &mut on_update).await,
        }
    }

    /// Downloads the image and gives its file: whole, verified, flushed to disk.
    ///
    /// When another task or process is at it already, waits for that one and tells of its progress.
    /// Goes on where an interrupted download ended. The future can be dropped at any time: what has come stays for the
    /// next one.
    pub async fn download(
        &self,
        image: &Image,
        remote: Option<&Remote>,
        mut on_update: impl FnMut(Update) + Send,
    ) -> Result<PathBuf, Error> {
        let place = self.place(image)?;
        let hold = match self.turn(&place, image, remote, &mut on_update).await? {
            Turn::Whole => return Ok(place.whole()),
            Turn::Ours(hold) => hold,
        };
        match self.fetch(&hold, image, remote, &mut on_update).await {
            Ok(path) => Ok(path),
            Err(error) => {
                self.inner.memory.remember_failure(&image.url, &error);
                if error.spoils_the_part()
                    && let Err(other) = hold.discard()
                {
                    on_update(Update::Notice(with_causes(&other)));
                }
                Err(error)
            }
        }
    }

    /// The download itself, by the holder of the lock.
    async fn fetch(
        &self,
        hold: &Hold,
        image: &Image,
        remote: Option<&Remote>,
        on_update: Listener<'_>,
    ) -> Result<PathBuf, Error> {
        let client = self.client().await?;
        let place = hold.place();
        if let Some(length) = remote.and_then(|remote| remote.length) {
            place.check_room(length.saturating_sub(hold.length()?))?;
        }
        let transfer = Transfer { client, limits: &self.inner.limits, hold, image, remote };
        let Some(sums) = self.list_of(image) else {
            if self.inner.settings.verify {
                on_update(Update::Notice(format!(
                    "{} has no checksum list in the catalogue: only its length and format are looked at",
                    place.name
                )));
            }
            let received = transfer.run(None, false, on_update).await?;
            return hold.publish(image, received, false).await;
        };

        let listed = self.listed(sums, place, false).await?;
        let received = transfer.run(Some(listed.algorithm()), false, on_update).await?;
        if received.sum == listed {
            return hold.publish(image, received, true).await;
        }
        on_update(Update::Notice(format!(
            "{} has another checksum than {sums} says: both are fetched once more",
            place.name
        )));
        let again = self.once_more(&transfer, sums, received, on_update).await?;
        hold.publish(image, again, true).await
    }

    /// The list, and if need be the image, once more: the publisher may have moved on between the two.
    async fn once_more(
        &self,
        transfer: &Transfer<'_>,
        sums: &Url,
        first: Received,
        on_update: Listener<'_>,
    ) -> Result<Received, Error> {
        let listed = self.listed(sums, transfer.hold.place(), true).await?;
        if first.sum == listed {
            return Ok(first);
        }
        let received = transfer.run(Some(listed.algorithm()), true, on_update).await?;
        if received.sum == listed {
            return Ok(received);
        }
        Err(Error::Checksum {
            url: transfer.image.url.to_string(),
            sums: sums.to_string(),
            expected: listed.to_string(),
            got: received.sum.to_string(),
        })
    }

    /// The checksum of a file in the publisher's list.
    async fn listed(&self, sums: &Url, place: &Place, anew: bool) -> Result<Sum, Error> {
        let list = self.client().await?.list(sums, anew).await?;
        checksum::find(&list, &place.name)
            .ok_or_else(|| Error::NotListed { sums: sums.to_string(), name: place.name.clone() })
    }

    /// The list that the image has to be in, unless verification is off.
    fn list_of<'a>(&self, image: &'a Image) -> Option<&'a Url> {
        image.sums.as_ref().filter(|_| self.inner.settings.verify)
    }

    async fn look(&self, place: &Place, image: &Image) -> Result<Look, Error> {
        let (place, url, verified) =
            (place.clone(), image.url.clone(), self.list_of(image).is_some());
        blocking(move || note::look(&place, &url, verified)).await
    }

    fn place(&self, image: &Image) -> Result<Place, Error> {
        Place::new(&self.inner.settings.directory, image)
    }

    async fn client(&self) -> Result<&Client, Error> {
        let limits = &self.inner.limits;
        self.inner.client.get_or_try_init(|| async { Client::new(limits.clone()) }).await
    }
}

/// Runs something that waits for the disk where that hinders nobody.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::Setup(error.into())),
    }
}
