//! The egress policy of a sandbox: which hosts, paths and methods may be reached, with reasons for what may not.
//!
//! An [`Allowlist`] is read from YAML or JSON and answers for one [`Request`] at a time with a [`Decision`]. A request
//! can only be made of parts that mean one thing: [`HostName`], [`Authority`], [`Method`] and [`Target`] are read from
//! the bytes on the wire and refuse whatever two programs could read in two ways. [`Allowlist::judge`] does all of it
//! for a URL, [`Allowlist::lint`] reports what a careful author would change.
//!
//! There are two kinds of rules. `domains` allow hosts whole; `url_prefixes` allow some paths of a host, for some methods.
//! Patterns are those of Python's `fnmatch`. An empty policy allows nothing.
//!
//! ```
//! use allowlist::{Allowlist, Decision, Reason, Request, Scheme};
//!
//! let policy = Allowlist::from_yaml(
//!     r#"
//! domains:
//!   - "*.docs.example"
//! url_prefixes:
//!   - host: api.example
//!     path: /repos/*
//!     methods: [GET]
//! "#,
//!     "network-allowlist.yaml",
//! )?;
//!
//! let request = Request::from_wire(Scheme::Https, b"api.example", b"POST", b"/repos/mine")?;
//! let Decision::Deny(denial) = policy.decide(&request) else { panic!("only GET is allowed") };
//! assert_eq!(denial.reason(), Reason::Method);
//! assert!(denial.message_naming("network-allowlist.yaml").contains("network-allowlist.yaml"));
//!
//! assert!(policy.judge("GET", "https://www.docs.example/guide?page=2").is_allowed());
//!
//! let error = Allowlist::from_yaml("domains: docs.example", "network-allowlist.yaml").unwrap_err();
//! assert_eq!((error.line(), error.column()), (1, 10));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate does no I/O, reads no clock and no environment, and never panics on what it is given.

mod authority;
mod decision;
mod denial;
mod glob;
mod host;
mod host_pattern;
mod invalid_rule;
mod judge;
mod lint;
mod method;
mod parse;
mod path_pattern;
mod pattern;
mod policy;
mod reason;
mod request;
mod rule;
mod scheme;
mod target;
mod url;

pub use authority::Authority;
pub use decision::Decision;
pub use decision::Match;
pub use denial::Denial;
pub use glob::Glob;
pub use host::HostName;
pub use host::InvalidHost;
pub use host_pattern::HostPattern;
pub use invalid_rule::InvalidRule;
pub use lint::Warning;
pub use method::Method;
pub use method::RuleMethod;
pub use parse::ParseError;
pub use path_pattern::PathPattern;
pub use policy::Allowlist;
pub use reason::Reason;
pub use request::Request;
pub use rule::Rule;
pub use rule::RuleKind;
pub use rule::UrlRule;
pub use scheme::Scheme;
pub use target::PathRefusal;
pub use target::Target;
pub use url::AbsoluteUrl;
