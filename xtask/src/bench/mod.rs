//! What `bench` prints of what was measured.

pub(crate) mod table;
