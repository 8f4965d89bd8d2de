//! Warns the operator if a container's clock is wrong: signed requests then fail for no visible
//! reason.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use allowlist::HostName;
use lru::LruCache;

/// The skew that upstreams tolerate, so that a warning comes before a refusal.
const TOLERATED: Duration = Duration::from_mins(5);
/// The number of hosts that are remembered as already warned about.
const REMEMBERED_HOSTS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// Warns once for each host.
pub(super) struct ClockSkew {
    /// Held only for one lookup, so that nothing waits for it.
    warned: Mutex<LruCache<String, ()>>,
}

impl ClockSkew {
    pub(super) fn new() -> Self {
        Self { warned: Mutex::new(LruCache::new(REMEMBERED_HOSTS)) }
    }

    /// The warning about a request for `host` that was signed at `signed`, by a clock that should
    /// show `now`. A signature that may be used later (`lasting`) is not wrong because it is old.
    pub(super) fn look(
        &self,
        host: &HostName,
        signed: SystemTime,
        now: SystemTime,
        lasting: bool,
    ) -> Option<String> {
        let (skew, direction) = match signed.duration_since(now) {
            Ok(ahead) => (ahead, "ahead of"),
            Err(behind) => (behind.duration(), "behind"),
        };
        if skew <= TOLERATED || (lasting && signed < now) {
            return None;
        }
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.put(host.to_string(), ()).is_some() {
            return None;
        }
        let minutes = skew.as_secs() / 60;
        Some(format!(
            "a request to {host} was signed {minutes} minutes {direction} the proxy's clock: {host} may refuse it"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(60 * minutes)
    }

    #[test]
    fn wrong_clock_is_reported_once_for_each_host() {
        let host = |name: &str| HostName::from_wire(name.as_bytes()).unwrap();
        let now = SystemTime::UNIX_EPOCH + minutes(1_000_000);
        let watch = ClockSkew::new();
        let a = host("a.example");
        assert_eq!(watch.look(&a, now, now, false), None);
        assert_eq!(watch.look(&a, now + minutes(5), now, false), None);
        assert_eq!(watch.look(&a, now - minutes(5), now, false), None);
        let ahead = watch.look(&a, now + minutes(6), now, false).unwrap();
        assert_eq!(
            ahead,
            "a request to a.example was signed 6 minutes ahead of the proxy's clock: a.example may refuse it"
        );
        assert_eq!(watch.look(&a, now - minutes(9), now, false), None);
        let b = host("b.example");
        let behind = watch.look(&b, now - minutes(90), now, false).unwrap();
        assert!(behind.contains("b.example was signed 90 minutes behind"), "{behind}");
    }

    #[test]
    fn lasting_signature_may_be_old_but_not_from_the_future() {
        let host = HostName::from_wire(b"a.example").unwrap();
        let now = SystemTime::UNIX_EPOCH + minutes(1_000_000);
        let watch = ClockSkew::new();
        assert_eq!(watch.look(&host, now - minutes(600), now, true), None);
        assert!(watch.look(&host, now + minutes(6), now, true).is_some());
    }
}
