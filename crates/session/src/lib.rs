#![doc = include_str!("../README.md")]
//!
//! **Writing.** Rewriting `context.json` on each event would cost the square of a reply's length.
//! So each event is appended to the journal with one write. `context.json` is refreshed when the
//! reply begins, when its session id is known, when its first result arrives, whenever the bytes
//! appended since the last refresh equal the file's length, and when the reply ends. Its cost
//! remains linear, and a program that reads only `context.json` sees progress too. At the end the
//! journal is merged into it and removed.
//!
//! **Invariants.** `context.json` is replaced by a rename, the journal only grows, and a partial
//! line at its end counts as not written. A reader reads the journal first and `context.json`
//! second, so that events that leave the journal are already in the file: it sees every event whose
//! write had returned when it began, and never a partial file. A kill loses at most the event that
//! was being written. Every reader merges a journal that a killed process left, and the next
//! execution writes it to the file.
//!
//! **Limits.** The events of a reply may weigh 128 MiB: the bytes of their JSON, the memory of
//! their values in addition to their texts, the same again for events that are understood, and the
//! text that the answer repeats. So a reply takes no more than that, in memory and in the file.
//! Later events are counted ([`MissingEvents`]) and dropped, except for results and API errors,
//! which report how the run ended and have 16 MiB more. After a kill the count is a lower bound: it
//! is written to the journal whenever it has doubled.
//!
//! **Starting.** Earlier replies remain in the file: an [outline](SessionOutline) of them is read
//! in a few kibibytes of memory, and their text is copied from file to file. Only a journal that a
//! killed process left is read completely, with its reply.
//!
//! **Loss of power.** Every `context.json` is synced before the rename, and its folder after it.
//! The journal is synced when a result arrives, when the reply ends, and with the first event that
//! arrives a second or more after the last sync; a loss of power may lose the events since then.

mod budget;
mod directory;
mod error;
mod journal;
mod metadata;
mod outline;
mod snapshot;
mod store;
mod writer;

pub use budget::MissingEvents;
pub use error::SessionError;
pub use metadata::{SessionMetadata, SessionReply};
pub use outline::{ReplyOutline, SessionOutline};
pub use store::SessionStore;
pub use writer::{ReplyEnd, ReplyWriter};
