//! Replacements in a request's headers: each attack next to the request that it imitates.

mod answers;
mod fixture;
mod headers;
mod keys;
mod values;
