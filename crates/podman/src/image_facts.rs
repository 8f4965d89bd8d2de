//! The properties of images, and a memory of them by id.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The properties of an image. `Debug` shows the names of its variables, never values.
#[derive(Clone, PartialEq, Eq)]
pub struct ImageFacts {
    /// 64 hexadecimal digits.
    pub id: String,
    /// Its creation time.
    pub created: SystemTime,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The entry point; empty if it has none.
    pub entrypoint: Vec<String>,
    /// The default command, or the arguments of the entry point.
    pub command: Vec<String>,
    /// Its environment variables.
    pub env: BTreeMap<String, String>,
    /// The working directory; empty means `/`.
    pub working_dir: String,
    /// The user; empty means root.
    pub user: String,
    /// The architecture, such as `amd64`.
    pub architecture: String,
}

impl fmt::Debug for ImageFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageFacts")
            .field("id", &self.id)
            .field("env", &self.env.keys())
            .finish_non_exhaustive()
    }
}

/// The images that were seen, by id. An id is derived from the image's configuration, so its
/// properties never change.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeenImages(Arc<Mutex<BTreeMap<String, ImageFacts>>>);

impl SeenImages {
    /// A process uses few images; one that sees more begins anew.
    const MAX: usize = 64;

    pub(crate) fn add(&self, image: &ImageFacts) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= Self::MAX {
            seen.clear();
        }
        seen.insert(image.id.clone(), image.clone());
    }

    pub(crate) fn get(&self, id: &str) -> Option<ImageFacts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
}
