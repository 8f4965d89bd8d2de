//! A caller's request for an image.

use std::fmt;
use std::path::Path;

use crate::spec::ImageSource;

/// An image to find or build, and callbacks for its build. A reference to an [`ImageSource`]
/// converts into one.
///
/// ```
/// use std::path::Path;
///
/// use sandbox::ImageSource;
/// use sandbox::image::ImageRequest;
///
/// let source = ImageSource::existing("localhost/agent:latest");
/// let request = ImageRequest::new(&source)
///     .network_log_dir(Path::new("/var/log/my-gateway/build"))
///     .on_line(|line| eprintln!("{line}"));
/// ```
pub struct ImageRequest<'a> {
    pub(super) source: &'a ImageSource,
    pub(super) network_log_dir: Option<&'a Path>,
    pub(super) on_line: Box<dyn FnMut(&str) + Send + 'a>,
}

impl<'a> ImageRequest<'a> {
    /// An image of `source`, without a log.
    #[must_use]
    pub fn new(source: &'a ImageSource) -> Self {
        Self { source, network_log_dir: None, on_line: Box::new(|_| {}) }
    }

    /// The folder of the log to which the network activity of a build's steps is appended;
    /// [`NetworkLog`](crate::network::NetworkLog) reads it. A build without a proxy does not touch
    /// the folder. Default: no log.
    #[must_use]
    pub fn network_log_dir(mut self, dir: &'a Path) -> Self {
        self.network_log_dir = Some(dir);
        self
    }

    /// Calls `callback` with each line of a build's output as it comes. It must not block.
    #[must_use]
    pub fn on_line(mut self, callback: impl FnMut(&str) + Send + 'a) -> Self {
        self.on_line = Box::new(callback);
        self
    }
}

impl<'a> From<&'a ImageSource> for ImageRequest<'a> {
    fn from(source: &'a ImageSource) -> Self {
        Self::new(source)
    }
}

impl fmt::Debug for ImageRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageRequest")
            .field("source", self.source)
            .field("network_log_dir", &self.network_log_dir)
            .finish_non_exhaustive()
    }
}
