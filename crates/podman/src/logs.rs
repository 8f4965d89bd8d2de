//! The output of a container that the engine keeps.

use bollard::query_parameters::LogsOptionsBuilder;

use crate::attach::Output;
use crate::connection::Engine;

impl Engine {
    /// What a container with a log has written so far, as far as it is kept.
    ///
    /// There is no call that follows a log: podman's own loses lines, of a container that has ended
    /// and of one that runs (measured on 4.3.1 and 5.4.2: of 100,000 lines written at once, a third
    /// never came).
    #[must_use]
    pub fn logs(&self, container: &str) -> Output {
        let options = LogsOptionsBuilder::default().stdout(true).stderr(true).build();
        Output::of_frames(container, Box::pin(self.docker().logs(container, Some(options))))
    }
}
