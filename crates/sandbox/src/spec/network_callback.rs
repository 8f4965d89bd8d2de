//! The callback for each network event.

use std::fmt;

use sandbox_network_log::RecordCallback;

/// A function that is called with each network event and its line of the text log, in order.
#[derive(Clone)]
pub(crate) struct NetworkCallback(pub(crate) RecordCallback);

impl fmt::Debug for NetworkCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NetworkCallback(..)")
    }
}
