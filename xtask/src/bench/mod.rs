//! The output of `bench`.

pub(crate) mod goals;
pub(crate) mod template;
