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
    /// The file that lies in the cache and is not the image.
    unfit: Option<(u64, Modified)>,
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

    pub(super) fn is_unfit(&self, url: &Url, doubt: &Doubt) -> bool {
        self.images()
            .get(url)
            .is_some_and(|known| known.unfit == Some((doubt.size, doubt.modified)))
    }

    pub(super) fn remember_unfit(&self, url: &Url, doubt: &Doubt) {
        self.images().entry(url.clone()).or_default().unfit = Some((doubt.size, doubt.modified));
    }

    fn images(&self) -> MutexGuard<'_, HashMap<Url, Known>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
