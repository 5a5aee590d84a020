//! What tasks of one process tell each other, so that what has failed for one is not tried again by those beside it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use url::Url;

use super::note::Doubt;
use crate::error::Error;
use crate::error::with_causes;
use crate::files::Modified;

#[derive(Default)]
pub(super) struct Memory {
    images: Mutex<HashMap<Url, Known>>,
}

/// What is known of one image.
#[derive(Default)]
struct Known {
    failure: Failure,
    /// The file that lies in the cache and is not the image, and why not.
    unfit: Option<(u64, Modified, String)>,
}

/// The last failed download, for those who waited for it.
#[derive(Default, Clone)]
pub(super) struct Failure {
    pub(super) number: u64,
    pub(super) reason: String,
}

impl Memory {
    pub(super) fn failure(&self, url: &Url) -> Failure {
        self.images().get(url).map(|known| known.failure.clone()).unwrap_or_default()
    }

    pub(super) fn remember_failure(&self, url: &Url, error: &Error) {
        let mut images = self.images();
        let known = images.entry(url.clone()).or_default();
        known.failure = Failure { number: known.failure.number + 1, reason: with_causes(error) };
    }

    /// Why a file is not the image, if that was found out before.
    pub(super) fn unfit(&self, url: &Url, doubt: &Doubt) -> Option<String> {
        let images = self.images();
        let (size, modified, reason) = images.get(url)?.unfit.as_ref()?;
        (*size == doubt.size && *modified == doubt.modified).then(|| reason.clone())
    }

    pub(super) fn remember_unfit(&self, url: &Url, doubt: &Doubt, reason: &str) {
        let unfit = (doubt.size, doubt.modified, reason.to_owned());
        self.images().entry(url.clone()).or_default().unfit = Some(unfit);
    }

    fn images(&self) -> MutexGuard<'_, HashMap<Url, Known>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
