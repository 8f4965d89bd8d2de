//! What becomes of a request's headers: each attack beside the request that it imitates.

mod answers;
mod fixture;
mod headers;
mod keys;
mod values;
