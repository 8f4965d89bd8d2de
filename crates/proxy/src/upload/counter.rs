//! Counts what is sent of a body, for its record and against the budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::chunk_signing::BodyError;
use super::fault::{Fault, UploadFault};
use crate::accounting::Spending;

/// Counts what is sent of one body.
pub(crate) struct UploadCounter {
    sent: Arc<AtomicU64>,
    spending: Option<Arc<Spending>>,
    fault: UploadFault,
}

impl UploadCounter {
    /// Counts in `sent` and against `spending`; that it was exceeded is reported in `fault`.
    pub(crate) fn new(sent: Arc<AtomicU64>, spending: Option<Arc<Spending>>, fault: UploadFault) -> Self {
        Self { sent, spending, fault }
    }

    /// Counts bytes that are about to be sent.
    ///
    /// # Errors
    ///
    /// When they exceed the budget: the body ends there.
    pub(super) fn count(&self, bytes: u64) -> Result<(), BodyError> {
        if let Some(Err(denial)) = self.spending.as_ref().map(|spending| spending.send(bytes)) {
            let error = denial.message().to_owned();
            let _ = self.fault.set(Fault::Refused(denial));
            return Err(error.into());
        }
        self.sent.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}
