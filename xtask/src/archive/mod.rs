//! The archive that users get: what it is made of, and its test, which uses it as they do.

mod documents;
mod pack;
mod programs;
mod trial;
mod user;

pub(crate) use self::pack::{Build, make};
pub(crate) use self::trial::tested;
