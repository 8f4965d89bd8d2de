//! What tasks share besides the nodes.

/// Serves one after the other, in the order of the requests.
#[derive(Debug, Default)]
pub(crate) struct Line {
    free_at: f64,
    /// Seconds in which it served.
    pub(crate) busy: f64,
}

impl Line {
    /// Seconds until a request that is made `now` and takes `seconds` is served.
    pub(crate) fn serve(&mut self, now: f64, seconds: f64) -> f64 {
        self.free_at = self.free_at.max(now) + seconds;
        self.busy += seconds;
        self.free_at - now
    }
}

/// A limit of calls, as a bucket of tokens: it has those of one second, and at least one.
#[derive(Debug, Default)]
pub(crate) struct Limit {
    /// When the bucket is full again.
    full_at: f64,
    pub(crate) admitted: f64,
}

impl Limit {
    pub(crate) fn admits(&mut self, now: f64, rate: f64) -> bool {
        let full_at = self.full_at.max(now) + 1.0 / rate;
        let admits = full_at <= now + (1.0 / rate).max(1.0);
        if admits {
            self.full_at = full_at;
            self.admitted += 1.0;
        }
        admits
    }
}
