//! Scrubbing of answers: a real value that an upstream sends back is replaced by its surrogate
//! before it reaches the container.
//!
//! [`Needles`] are built once per set of credentials: every common form of a value (`text_forms`,
//! `base64_forms`, `hex_forms`), in an index that finds all of them in one pass (`index`), even
//! across line endings in base64 (`wrapped`). [`scrub_headers`] and [`scrub_reason`] clean a head,
//! [`plan_body`] decides how a body is read, and [`Scrubbed`] cleans the body as it arrives
//! (`stream`), after decoding it if it is compressed (`decode`).
//!
//! Invariant: whether bytes at the end of a chunk are withheld depends only on public facts, never
//! on how much they resemble a secret. Otherwise a task could learn a value byte by byte, by having
//! an upstream echo its guesses and watching which of them are delayed. The guarantee of `stream`
//! holds for every answer that does not contain a whole value.
//!
//! Limits inherent in a search for bytes: it does not cover values shorter than
//! [`needles::LEAST_VALUE`] bytes, nor values that an upstream writes backwards, in pieces, hashed,
//! encrypted or in a different letter case, in base64 that is indented or broken into lines of
//! fewer than 40 characters, as numbers other than hexadecimal, or split across two ranges of a
//! download. A task that guesses a value in full can confirm the guess by having it echoed: only
//! values that cannot be guessed are secrets. Of a value in the middle of base64 text, up to four
//! bits at either end remain.

mod accept;
mod base64_forms;
mod body;
mod decode;
mod headers;
mod hex_forms;
mod index;
mod messages;
mod needles;
mod plan;
mod stream;
mod text_forms;
mod wrapped;

pub(crate) use accept::limit_encodings;
pub(crate) use body::Scrubbed;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use decode::{Coding, encode};
pub(crate) use headers::{scrub_headers, scrub_reason};
pub(crate) use needles::Needles;
pub(crate) use plan::{BodyScrub, UnknownEncoding, plan_body};
