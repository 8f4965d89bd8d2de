//! The limit on the memory of all decoders together.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::DecodeError;

/// In bytes. It must fit into the memory of the proxy's container. A brotli stream takes up to 20
/// MiB (usually 0.5 to 4), a zstd stream up to 17, and a gzip stream 0.05.
const MOST_MEMORY: usize = 64 * 1024 * 1024;

static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// The share of one decoder, released on drop.
#[derive(Debug)]
pub(super) struct Reservation {
    /// By all decoders together.
    reserved: &'static AtomicUsize,
    most: usize,
    share: usize,
}

impl Reservation {
    /// Creates an empty share of the memory of this process.
    pub(super) fn new() -> Self {
        Self { reserved: &RESERVED, most: MOST_MEMORY, share: 0 }
    }

    /// Ensures that the share has at least `bytes`.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), DecodeError> {
        let more = bytes.saturating_sub(self.share);
        if more == 0 {
            return Ok(());
        }
        let before = self.reserved.fetch_add(more, Ordering::Relaxed);
        self.share += more;
        if before + more > self.most {
            return Err(DecodeError::Busy);
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.reserved.fetch_sub(self.share, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bounded_together_and_released_on_drop() {
        let reserved: &AtomicUsize = Box::leak(Box::default());
        let share = || Reservation { reserved, most: 100, share: 0 };
        let (mut first, mut second) = (share(), share());
        assert_eq!(first.grow(60), Ok(()));
        assert_eq!(first.grow(50), Ok(()));
        assert_eq!(second.grow(41), Err(DecodeError::Busy));
        drop(second);
        let mut third = share();
        assert_eq!(third.grow(40), Ok(()));
        drop(first);
        drop(third);
        assert_eq!(reserved.load(Ordering::Relaxed), 0);
    }
}
