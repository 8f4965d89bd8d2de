//! The release for users: the archive and the packages, their content, and their test, which uses
//! them as users do.

mod documents;
mod licences;
mod pack;
mod package;
mod programs;
mod record;
mod trial;
mod user;

pub(crate) use self::pack::{Build, make};
pub(crate) use self::trial::{recorded, tested};
