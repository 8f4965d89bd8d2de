//! The surrogates of secrets for a container: the same form, other letters and digits.
//!
//! `form` determines which characters are kept and which are random, `mint` draws until the result
//! is unique.

mod form;
mod mint;

pub(crate) use form::Form;
pub(crate) use mint::Mint;
