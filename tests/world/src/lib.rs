//! The internet as tests, demo and benchmarks have it.
//!
//! [`world`] is a name server and an origin that answers for every name, with certificates of an
//! authority of its own; [`messages_api`] is what it answers under the name of the Messages API,
//! [`other_apis`] under those of other vendors; [`layouts`] are projects to work in. This package
//! knows nothing of the sandbox, and its programs link statically: the demo runs one in an empty
//! container.
//!
//! ```no_run
//! use test_world::world::WorldServer;
//!
//! let world = WorldServer::start([127, 0, 0, 1].into())?;
//! println!("{} knows every name; its certificates are signed by\n{}", world.dns(), world.roots_pem());
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod layouts;
pub mod messages_api;
pub mod other_apis;
pub mod world;
