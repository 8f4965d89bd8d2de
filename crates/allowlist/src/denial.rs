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

/// Characters of a path that a message repeats.
const PATH_SHOWN: usize = 160;

/// Why a request is refused, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denial {
    reason: Reason,
    message: String,
    /// Where the message can name the file of the policy.
    file_at: Option<usize>,
}

impl Denial {
    /// The reason, for programs.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// One sentence with the fix, for people and agents.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The message with the file of the policy, where the fix is to change the policy.
    #[must_use]
    pub fn message_naming(&self, file: &str) -> String {
        let parts = self.file_at.and_then(|at| self.message.split_at_checked(at));
        match parts {
            Some((before, after)) => format!("{before} in {file}{after}"),
            None => self.message.clone(),
        }
    }

    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            file_at: None,
        }
    }

    /// A denial that a change of the policy mends: between `before` and `after` the message can name the file.
    fn of_policy(reason: Reason, before: String, after: &str) -> Self {
        Self {
            reason,
            file_at: Some(before.len()),
            message: before + after,
        }
    }

    /// A TLS connection without a host name to go by.
    pub(crate) fn no_sni() -> Self {
        Self::new(
            Reason::NoSni,
            "over TLS a host can be asked for by name only: use its name, or plain http for an address that the policy \
             names",
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

    /// A missing or malformed host: what is wrong with it, and the fix.
    pub(crate) fn identity(fault: &str, fix: &str) -> Self {
        Self::new(Reason::Identity, format!("{fault}: {fix}"))
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
        let (method, host) = (request.method(), request.host());
        let message = if RuleMethod::new(method.as_str()).is_ok() {
            let entry = entry(request, true);
            format!("{method} is not allowed for this path of {host}: to allow it, add {entry}")
        } else {
            let domain = domain(request);
            format!("this method is not allowed for this path of {host}: to allow it, add {domain}")
        };
        Self::of_policy(Reason::Method, message, "")
    }

    pub(crate) fn query(request: &Request) -> Self {
        let message = format!(
            "this path of {} is allowed without a query string only: to allow one, end the path with `*`, that is, add {}",
            request.host(),
            entry(request, false),
        );
        Self::of_policy(Reason::Query, message, "")
    }

    pub(crate) fn path_not_allowed(request: &Request) -> Self {
        let (host, entry) = (request.host(), entry(request, false));
        let message = format!("this path of {host} is not allowed: to allow it, add {entry}");
        Self::of_policy(Reason::PathNotAllowed, message, "")
    }

    pub(crate) fn host(request: &Request) -> Self {
        let message = format!(
            "{} is not allowed: to allow it, add {}",
            request.host(),
            domain(request)
        );
        let narrower = format!(", or for this path only {}", entry(request, false));
        Self::of_policy(Reason::Host, message, &narrower)
    }
}

impl From<InvalidHost> for Denial {
    fn from(fault: InvalidHost) -> Self {
        Self::identity(&fault.to_string(), "ask for the host by its plain name")
    }
}

impl From<PathRefusal> for Denial {
    fn from(refusal: PathRefusal) -> Self {
        let fix = match refusal {
            PathRefusal::NotAbsolute => "begin it with `/`",
            PathRefusal::Unprintable(_) | PathRefusal::Unencoded(_) => "percent-encode it, or leave it out",
            PathRefusal::MalformedEscape => "write a literal `%` as `%25`",
            PathRefusal::InvalidUtf8 => "encode it as UTF-8",
            PathRefusal::ControlCharacter | PathRefusal::Backslash => "leave it out",
            PathRefusal::DotSegment => "write the path that is meant, without `.` and `..`",
        };
        Self::new(
            Reason::Path,
            format!("{refusal}, so servers may read it in different ways: {fix}"),
        )
    }
}

fn domain(request: &Request) -> String {
    format!("\"{}\" to `domains`", request.host())
}

/// An entry that allows the request, in YAML that can be pasted.
fn entry(request: &Request, with_method: bool) -> String {
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
