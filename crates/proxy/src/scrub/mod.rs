//! Real values that an upstream sends back are replaced by their surrogates before they reach the
//! container.
//!
//! [`Needles`] are made once per set of credentials: every usual way to write a value
//! (`text_forms`, `base64_forms`, `hex_forms`), in an index that finds all of them in one pass
//! (`index`), also across line ends in base64 (`wrapped`). [`scrub_headers`] and [`scrub_reason`]
//! clean a head, [`plan_body`] decides how a body is read, and [`Scrubbed`] cleans it on its way
//! (`stream`), decoded first where it is compressed (`decode`).
//!
//! Invariant: when bytes are held back at the end of a chunk depends on public facts only, never on
//! how much of them looks like a secret. Otherwise a task could learn a value byte by byte: it lets
//! an upstream echo its guesses and watches which are delayed. What `stream` says about this holds
//! for every answer in which no whole value occurs.
//!
//! Limits, which no search for bytes can lift: values shorter than [`needles::LEAST_VALUE`] bytes
//! are not looked for, nor values that an upstream writes backwards, in pieces, hashed, encrypted
//! or in letters of another case, in base64 that is broken into lines of less than 40 characters or
//! indented, as numbers other than hexadecimal, or spread over two ranges of a download. Who can
//! guess a value in full can confirm the guess by letting it be echoed: only values that cannot be
//! guessed are secrets. Of a value in the middle of base64 text, up to four bits at either end
//! stay.

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
