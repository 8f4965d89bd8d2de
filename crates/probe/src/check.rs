//! A check is a name and a function.

use sandbox_verify_probe::Order;

use crate::seen::Seen;

/// A check that the probe makes.
pub(crate) type Check = (&'static str, fn(&Order) -> Seen);
