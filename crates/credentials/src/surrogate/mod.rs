//! What a container gets in the place of a secret: the same form, other letters and digits.
//!
//! `form` says which characters stay and which are drawn, `mint` draws until the result is unique.

mod form;
mod mint;

pub(crate) use form::Form;
pub(crate) use mint::Mint;
