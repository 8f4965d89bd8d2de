#![doc = include_str!("../README.md")]

mod check;
mod decoder;
mod end;
mod finding;
mod frame;
mod limits;
mod order;
mod request;

pub use check::{Category, Check};
pub use decoder::{Decoder, ProtocolError};
pub use end::End;
pub use finding::Finding;
pub use frame::{Frame, LARGEST_CHUNK};
pub use limits::{CommandLimits, ExceededLimit};
pub use order::{Order, ProcessLimit, Scratch};
pub use request::{CommandLine, Request};
