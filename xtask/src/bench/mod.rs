//! What `bench` prints of what was measured.

pub(crate) mod goals;
pub(crate) mod template;
