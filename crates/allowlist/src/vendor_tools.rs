//! A policy's settings for tools that a model's vendor runs.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;

use crate::host::HostName;
use crate::host_pattern::HostPattern;

/// Hosts of the vendors' own APIs, in addition to those that a policy names.
const HOSTS: [&str; 5] = [
    "api.anthropic.com",
    // Codex with a subscription.
    "chatgpt.com",
    "api.openai.com",
    "generativelanguage.googleapis.com",
    "generativelanguage.mtls.googleapis.com",
];

/// Suffixes of further hosts: every subdomain is a region of the same API.
const REGIONAL: [&str; 2] = [".api.anthropic.com", ".api.openai.com"];

/// The key `vendor_tools` of a policy: the tools that a model's vendor may run on its servers,
/// where they reach the web past the sandbox. The default allows none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a mapping such as {web_search: policy}")]
pub struct VendorTools {
    /// Searches the web.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_search: Option<Reach>,
    /// Fetches pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_fetch: Option<Reach>,
    /// Calls remote MCP servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Reach>,
    /// Runs code that the model writes in the vendor's containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_execution: Option<Anywhere>,
    /// Fetches images and documents that a request gives by URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_by_url: Option<Reach>,
    /// Unknown or unreadable parts: other tools, other endpoints, stored prompts, web sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<Anywhere>,
    /// The treatment of tools that are not allowed.
    #[serde(skip_serializing_if = "Denied::is_default")]
    pub denied: Denied,
    /// Further hosts whose requests are read like those to the vendors' own APIs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostPattern>,
}

/// How far a tool may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Only where the policy itself allows a request; a tool that cannot be limited so is not
    /// allowed.
    Policy,
    /// Wherever the vendor lets it.
    Any,
}

/// The reach of a tool that cannot be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Anywhere {
    /// Wherever the vendor lets it.
    Any,
}

/// The treatment of tools that are not allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Denied {
    /// It is removed from the request; if that is impossible, the request is refused.
    #[default]
    Remove,
    /// The request is refused.
    Refuse,
}

/// A kind of tool that a vendor runs, by its key in a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum VendorTool {
    /// Searches the web.
    WebSearch,
    /// Fetches pages.
    WebFetch,
    /// Calls a remote MCP server.
    Mcp,
    /// Runs code.
    CodeExecution,
    /// Fetches an image or a document.
    FilesByUrl,
    /// Anything else.
    Other,
}

impl VendorTool {
    /// Its key in a policy, which is also its name in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WebSearch => "web_search",
            Self::WebFetch => "web_fetch",
            Self::Mcp => "mcp",
            Self::CodeExecution => "code_execution",
            Self::FilesByUrl => "files_by_url",
            Self::Other => "other",
        }
    }

    /// The minimal setting that allows it.
    pub(crate) fn least(self) -> &'static str {
        match self {
            Self::WebSearch | Self::WebFetch | Self::Mcp | Self::FilesByUrl => "policy",
            Self::CodeExecution | Self::Other => "any",
        }
    }

    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::WebSearch, Self::WebFetch, Self::Mcp, Self::CodeExecution, Self::FilesByUrl, Self::Other];
}

impl fmt::Display for VendorTool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl VendorTools {
    /// How far a tool of this kind may reach; `None` if it is not allowed.
    #[must_use]
    pub fn reach(&self, tool: VendorTool) -> Option<Reach> {
        let anywhere = |allowed: Option<Anywhere>| allowed.map(|Anywhere::Any| Reach::Any);
        match tool {
            VendorTool::WebSearch => self.web_search,
            VendorTool::WebFetch => self.web_fetch,
            VendorTool::Mcp => self.mcp,
            VendorTool::CodeExecution => anywhere(self.code_execution),
            VendorTool::FilesByUrl => self.files_by_url,
            VendorTool::Other => anywhere(self.other),
        }
    }

    /// Whether requests to `host` can name vendor tools.
    #[must_use]
    pub fn concerns(&self, host: &HostName) -> bool {
        is_vendor(host) || self.hosts.iter().any(|pattern| pattern.matches(host))
    }

    /// The kinds without a limit of the policy.
    pub fn unlimited(&self) -> impl Iterator<Item = VendorTool> {
        VendorTool::ALL.into_iter().filter(|tool| self.reach(*tool) == Some(Reach::Any))
    }

    /// Everything is allowed.
    pub(crate) fn unrestricted() -> Self {
        Self {
            web_search: Some(Reach::Any),
            web_fetch: Some(Reach::Any),
            mcp: Some(Reach::Any),
            code_execution: Some(Anywhere::Any),
            files_by_url: Some(Reach::Any),
            other: Some(Anywhere::Any),
            ..Self::default()
        }
    }

    /// Whether everything is allowed, so that no request needs to be read.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.unlimited().count() == VendorTool::ALL.len()
    }
}

/// In one line: `web_search: policy, others removed`.
impl fmt::Display for VendorTools {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = "all are";
        for tool in VendorTool::ALL {
            if self.reach(tool).is_some() {
                rest = "others are";
            }
            match self.reach(tool) {
                Some(Reach::Policy) => write!(formatter, "{tool}: policy, ")?,
                Some(Reach::Any) => write!(formatter, "{tool}: any, ")?,
                None => {}
            }
        }
        match self.denied {
            _ if self.is_unlimited() => formatter.write_str("nothing is removed"),
            Denied::Remove => write!(formatter, "{rest} removed"),
            Denied::Refuse => write!(formatter, "{rest} refused"),
        }
    }
}

impl Denied {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_default(&self) -> bool {
        *self == Self::Remove
    }
}

/// Whether `host` belongs to a vendor.
pub(crate) fn is_vendor(host: &HostName) -> bool {
    let host = host.as_str();
    HOSTS.contains(&host) || REGIONAL.iter().any(|suffix| host.ends_with(suffix))
}

/// The hosts of vendors, as patterns.
pub(crate) fn vendor_hosts() -> impl Iterator<Item = HostPattern> {
    let regions = REGIONAL.iter().map(|suffix| format!("*{suffix}"));
    let hosts = HOSTS.into_iter().map(str::to_owned).chain(regions);
    hosts.filter_map(|host| HostPattern::new(&host).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let tools = VendorTools { hosts: vec![HostPattern::new("llm.*").unwrap()], ..VendorTools::default() };
        for (host, expected) in [
            ("api.anthropic.com", true),
            ("API.Anthropic.com.", true),
            ("api.openai.com", true),
            ("eu.api.openai.com", true),
            ("generativelanguage.googleapis.com", true),
            ("llm.corp.example", true),
            ("notapi.openai.com", false),
            ("openai.com", false),
            ("api.anthropic.com.example", false),
        ] {
            assert_eq!(tools.concerns(&HostName::from_wire(host.as_bytes()).unwrap()), expected, "{host}");
        }
        assert_eq!(vendor_hosts().count(), HOSTS.len() + REGIONAL.len());
    }

    #[test]
    fn one_line() {
        let tools = VendorTools::default();
        assert_eq!(tools.to_string(), "all are removed");
        let tools = VendorTools {
            web_search: Some(Reach::Policy),
            code_execution: Some(Anywhere::Any),
            denied: Denied::Refuse,
            ..tools
        };
        assert_eq!(tools.to_string(), "web_search: policy, code_execution: any, others are refused");
    }
}
