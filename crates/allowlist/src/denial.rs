//! A refusal in words that its reader can act on.
//!
//! Messages go to the refused client: they name what it asked for itself, never a rule that did not match.

use crate::host::HostName;
use crate::host::InvalidHost;
use crate::method::RuleMethod;
use crate::pattern::Pattern;
use crate::reason::Reason;
use crate::request::Request;
use crate::target::PathRefusal;

/// The file that a message tells its reader to change.
const FILE: &str = ".sandbox/network-allowlist.yaml";

/// Characters of a path that a message repeats.
const PATH_SHOWN: usize = 160;

/// Why a request is refused, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denial {
    reason: Reason,
    message: String,
}

impl Denial {
    /// A denial in the words of the caller: one sentence, free of host details.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// The reason, for programs.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// One sentence with the mend, for people and agents.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// SNI, `:authority`, Host and target do not all name the same host.
    #[must_use]
    pub fn identity_mismatch() -> Self {
        Self::new(
            Reason::IdentityMismatch,
            "the request names a host other than the one its connection was made for: open a connection of its own \
             for each host, with the same name in SNI, Host and URL",
        )
    }

    /// A TLS connection without a host name to go by.
    #[must_use]
    pub fn no_sni() -> Self {
        Self::new(
            Reason::NoSni,
            "over TLS a host can be asked for by name only: use its name, or plain http for an address that the policy \
             names",
        )
    }

    /// The host resolves to addresses that are off limits only.
    #[must_use]
    pub fn address(host: &HostName) -> Self {
        Self::new(
            Reason::Address,
            format!(
                "{host} resolves to a private or reserved address: to allow it, add its network to \
                 `upstream.allow_addresses` in .sandbox/sandbox.yaml"
            ),
        )
    }

    /// The host means the machine that asks, so no name server decides where it leads.
    pub(crate) fn loopback(host: &HostName) -> Self {
        Self::new(
            Reason::Address,
            format!(
                "{host} means the machine itself and is never reached through the sandbox: ask a service of the \
                 container directly, without a proxy setting"
            ),
        )
    }

    /// A missing, doubled or malformed host: what is wrong with it, and the mend.
    #[must_use]
    pub fn identity(fault: &str, mend: &str) -> Self {
        Self::new(Reason::Identity, format!("{fault}: {mend}"))
    }

    pub(crate) fn unreadable(message: &str) -> Self {
        Self::new(Reason::Unreadable, message)
    }

    pub(crate) fn port() -> Self {
        Self::new(
            Reason::Port,
            "only port 80 for http and port 443 for https can be reached: leave the port out of the URL",
        )
    }

    pub(crate) fn method_forbidden() -> Self {
        Self::new(
            Reason::MethodForbidden,
            "CONNECT and TRACE are never allowed: send the request itself, without a proxy setting",
        )
    }

    pub(crate) fn method(request: &Request) -> Self {
        let method = request.method();
        let message = if RuleMethod::new(method.as_str()).is_ok() {
            format!(
                "{method} is not allowed for this path of {}: to allow it, {}",
                request.host(),
                entry(request, true)
            )
        } else {
            format!(
                "this method is not allowed for this path of {}: to allow it, {}",
                request.host(),
                domain(request)
            )
        };
        Self::new(Reason::Method, message)
    }

    pub(crate) fn query(request: &Request) -> Self {
        Self::new(
            Reason::Query,
            format!(
                "this path of {} is allowed without a query string only: to allow one, end the path with `*`, that is, {}",
                request.host(),
                entry(request, false),
            ),
        )
    }

    pub(crate) fn path_not_allowed(request: &Request) -> Self {
        Self::new(
            Reason::PathNotAllowed,
            format!(
                "this path of {} is not allowed: to allow it, {}",
                request.host(),
                entry(request, false)
            ),
        )
    }

    pub(crate) fn host(request: &Request) -> Self {
        Self::new(
            Reason::Host,
            format!(
                "{} is not allowed: to allow it, {}, or for this path only {}",
                request.host(),
                domain(request),
                short_entry(request, false)
            ),
        )
    }
}

impl From<InvalidHost> for Denial {
    fn from(fault: InvalidHost) -> Self {
        Self::identity(&fault.to_string(), "ask for the host by its plain name")
    }
}

impl From<PathRefusal> for Denial {
    fn from(refusal: PathRefusal) -> Self {
        let mend = match refusal {
            PathRefusal::NotAbsolute => "begin it with `/`",
            PathRefusal::Unprintable(_) | PathRefusal::Unencoded(_) => "percent-encode it, or leave it out",
            PathRefusal::MalformedEscape => "write a literal `%` as `%25`",
            PathRefusal::InvalidUtf8 => "encode it as UTF-8",
            PathRefusal::ControlCharacter | PathRefusal::Backslash => "leave it out",
            PathRefusal::DotSegment => "write the path that is meant, without `.` and `..`",
        };
        Self::new(
            Reason::Path,
            format!("{refusal}, so servers may read it in different ways: {mend}"),
        )
    }
}

fn domain(request: &Request) -> String {
    format!("add \"{}\" to `domains` in {FILE}", request.host())
}

fn entry(request: &Request, with_method: bool) -> String {
    format!("add {} in {FILE}", short_entry(request, with_method))
}

/// An entry that allows the request, in YAML that can be pasted.
fn short_entry(request: &Request, with_method: bool) -> String {
    let target = request.target();
    let shown: String = target.path().chars().take(PATH_SHOWN).collect();
    let cut = shown.len() < target.path().len() || target.query().is_some();
    let path = Pattern::escape(&shown) + if cut { "*" } else { "" };
    let methods = if with_method {
        format!(", methods: [{}]", request.method())
    } else {
        String::new()
    };
    // A JSON text is a YAML text too, whatever the path holds.
    let path = serde_json::Value::String(path);
    format!(
        "{{host: \"{}\", path: {path}{methods}}} to `url_prefixes`",
        request.host()
    )
}
