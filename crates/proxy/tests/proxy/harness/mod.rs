//! A proxy with its owner, clients, upstreams, name server and certificates.

mod body;
mod client;
mod dns;
mod pki;
mod proxy;
mod upstream;

pub(crate) use body::{Body, streaming_body};
pub(crate) use client::{Answer, body, empty, get, raw, raw_tls};
pub(crate) use pki::{Pki, client_config};
pub(crate) use proxy::{HTTP, HTTPS, Proxy, Setup, TIMEOUT, fresh_address, peak_memory};
pub(crate) use upstream::{Upstream, goaway, plain_capture, send_goaway};
