//! Entries of the container's hosts file.

use std::net::IpAddr;

use super::rules;
use crate::spec::InvalidSpec;

/// A line of the container's `/etc/hosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEntry {
    /// The name.
    pub name: String,
    /// The address that it resolves to.
    pub address: IpAddr,
}

impl HostEntry {
    /// Resolves `name` to `address`.
    pub fn new(name: impl Into<String>, address: impl Into<IpAddr>) -> Self {
        Self { name: name.into(), address: address.into() }
    }

    pub(super) fn validate(&self) -> Result<(), InvalidSpec> {
        if rules::is_host_name(&self.name, 253) {
            return Ok(());
        }
        Err(InvalidSpec::new(
            "isolation.hosts",
            format!("`{}` is not a host name; write letters, digits, `-` and `.`", self.name.escape_debug()),
        ))
    }
}
