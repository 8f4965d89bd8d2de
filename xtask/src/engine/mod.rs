//! Podman engines: the user's, or private ones with separate storage.

mod find;
mod http;
mod image;
mod launch;
mod leftovers;
pub(crate) mod ordinary_user;
mod private;
mod program;

pub(crate) use self::find::find_running;
pub(crate) use self::http::{Socket, ping};
pub(crate) use self::image::{Image, ensure_image};
pub(crate) use self::private::{Podman, PrivateEngine};
pub(crate) use self::program::ensure_program_image;
