//! Which function makes which check.

use sandbox_verify_probe::Order;

use crate::check::Check;
use crate::seen::Seen;

use super::{environment, files, host, kernel, limits, network, rights, sockets, works};

const TABLES: &[&[Check]] = &[
    rights::CHECKS,
    kernel::CHECKS,
    host::CHECKS,
    sockets::CHECKS,
    environment::CHECKS,
    files::CHECKS,
    network::CHECKS,
    limits::CHECKS,
    works::CHECKS,
];

/// Makes the check `id`.
pub(crate) fn make(id: &str, order: &Order) -> Seen {
    match TABLES.iter().copied().flatten().find(|(name, _)| *name == id) {
        Some((_, check)) => check(order),
        None => Seen::broken("the probe does not know this check"),
    }
}

#[cfg(test)]
mod tests {
    use sandbox_verify_probe::PROMISES;

    use super::*;

    /// What cannot be seen from inside: whoever asks sees it.
    const OF_THE_HOST: [&str; 2] = ["timeout_enforced", "exit_code_preserved"];

    #[test]
    fn each_promise_has_its_check_and_each_check_its_promise() {
        let mut checks: Vec<&str> = TABLES.iter().copied().flatten().map(|(name, _)| *name).collect();
        checks.extend(OF_THE_HOST);
        checks.sort_unstable();
        let mut promises: Vec<&str> = PROMISES.iter().map(|promise| promise.id).collect();
        promises.sort_unstable();
        assert_eq!(checks, promises);
    }
}
