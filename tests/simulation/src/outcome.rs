//! What a simulation found, and the resource that it names. Times are in seconds.

/// What tasks wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cause {
    Place,
    Controller,
    /// The node's first copy of the image, and its preparation.
    Image,
    /// Bundle and result.
    Files,
    /// Between a refused call and its repetition.
    Call,
    /// Between two attempts, after exit code 75.
    Attempt,
    /// From the failure of a node until the task may start again.
    Failure,
}

/// The names of the causes, in their order.
pub(crate) const CAUSES: [&str; 7] =
    ["a place", "controller", "image", "files", "repeated call", "next attempt", "failed node"];
pub(crate) const RESOURCES: [&str; 5] = ["places", "file system", "controller", "API limit", "arrivals"];

/// The sums over all tasks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Until the last task ended.
    pub(crate) makespan: f64,
    /// How many results each task has.
    pub(crate) results: Vec<u32>,
    pub(crate) given_up: u32,
    pub(crate) starts: u32,
    /// Attempts that ended with exit code 75.
    pub(crate) limited: u32,
    /// Attempts that ended with their node.
    pub(crate) failed: u32,
    /// In which a place was taken.
    pub(crate) held: f64,
    /// The part of it by attempts without a result.
    pub(crate) lost: f64,
    /// Of [`RESOURCES`], from 0 to 1.
    pub(crate) utilisation: [f64; RESOURCES.len()],
    /// By [`Cause`].
    pub(crate) waits: [f64; CAUSES.len()],
}

impl Outcome {
    pub(crate) fn wait(&mut self, cause: Cause, seconds: f64) {
        if let Some(wait) = self.waits.get_mut(cause as usize) {
            *wait += seconds;
        }
    }

    /// The resource with the highest utilisation.
    pub(crate) fn bottleneck(&self) -> &'static str {
        let used = RESOURCES.into_iter().zip(self.utilisation);
        used.max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or("", |(name, _)| name)
    }
}
