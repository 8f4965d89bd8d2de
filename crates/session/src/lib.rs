#![doc = include_str!("../README.md")]
//!
//! **How it is written.** Rewriting `context.json` on each event would cost the square of a reply's length. So each event is
//! appended to the journal with one write, and `context.json` is refreshed when the reply begins, when its session id is known,
//! when its first result arrives, whenever what was appended since is as long as the file, and when the reply ends: its
//! cost stays linear, and a program that reads only `context.json` sees progress too. At the end the journal is folded in and removed.
//!
//! **What holds at any moment.** `context.json` is replaced by a rename, the journal only grows, and half a line at its end
//! counts as not written. A reader takes the journal first and `context.json` second, so that whatever leaves the journal is already
//! in the file: it sees every event whose write had returned when it began, and never half a file. A kill loses at most the event
//! that was being written. A journal that a killed process left is merged by every reader, and folded in by the next execution.
//!
//! **How much is kept.** The events of a reply may weigh 128 MiB: the bytes of their JSON, what their values take in memory beside their
//! texts, the same again for events that are understood, and the text that the answer repeats. So a reply takes no more than that, in memory
//! and in the file. What comes later is counted ([`MissingEvents`]) and dropped, but for results and API errors, which report how the run ended and have
//! 16 MiB more. After a kill the count is a lower bound: it is written to the journal whenever it has doubled.
//!
//! **What a start reads.** Earlier replies stay in the file: an [outline](SessionOutline) of them is read in a few kibibytes of memory, and their
//! text is copied from file to file. Only a journal that a killed process left is read whole, with its reply.
//!
//! **What survives a power loss.** Every `context.json` is synced before and its folder after the rename. The journal is synced when a
//! result arrives, when the reply ends, and with the first event that comes a second or more after the last sync; a loss of power may
//! cost the events since then.

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
