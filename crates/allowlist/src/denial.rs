//! A refusal that its reader can act on.
//!
//! Messages go to the refused client: they quote only its own request, never a rule that did not
//! match.

use crate::host::HostName;
use crate::host::InvalidHost;
use crate::push_report::PushReport;
use crate::reason::Reason;
use crate::target::PathRefusal;

/// The reason why a request is refused, and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denial {
    reason: Reason,
    message: String,
    /// Where the message can name the policy file.
    file_at: Option<usize>,
    push: Option<Box<PushReport>>,
    /// The index of the rule of `deny` that matched.
    rule: Option<usize>,
    /// The document of the outer policy that refuses the request.
    document: Option<String>,
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

    /// The message with the policy file, if the fix is to change the policy.
    #[must_use]
    pub fn message_naming(&self, file: &str) -> String {
        let parts = self.file_at.and_then(|at| self.message.split_at_checked(at));
        match parts {
            Some((before, after)) => format!("{before} in {file}{after}"),
            None => self.message.clone(),
        }
    }

    /// The answer to git's client, if a push is refused because of a ref.
    #[must_use]
    pub fn push_report(&self) -> Option<&PushReport> {
        self.push.as_deref()
    }

    /// The index of the rule in [`Allowlist::denied`](crate::Allowlist::denied) that covers the
    /// request, if one does.
    #[must_use]
    pub fn denied_by(&self) -> Option<usize> {
        self.rule
    }

    /// The document of the outer policy that refuses the request, if one does. See
    /// [`Allowlist::within`](crate::Allowlist::within).
    #[must_use]
    pub fn document(&self) -> Option<&str> {
        self.document.as_deref()
    }

    /// A request to `host` that the rule of `deny` with this index covers.
    pub(crate) fn by_rule(index: usize, host: &HostName) -> Self {
        let message =
            format!("a rule of `deny` forbids this request to {host}: to allow it, remove `deny[{index}]`");
        Self { rule: Some(index), ..Self::of_policy(Reason::Denied, message, "") }
    }

    /// The same denial, by an outer policy, if a change of its document can fix it. Those of pushes
    /// and vendor tools keep their reason: they depend on more than rules.
    pub(crate) fn outside(self, document: &str) -> Self {
        if self.file_at.is_none() {
            return self;
        }
        let message = format!("refused by {document}: {}", self.message_naming(document));
        let reason = match self.reason {
            Reason::RefNotAllowed | Reason::RefLost | Reason::VendorTool => self.reason,
            _ => Reason::OuterPolicy,
        };
        let document = Some(document.to_owned());
        Self { push: self.push, document, ..Self::new(reason, message) }
    }

    /// The same denial, for a push.
    pub(crate) fn of_push(self, report: PushReport) -> Self {
        Self { push: Some(Box::new(report)), ..self }
    }

    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), file_at: None, push: None, rule: None, document: None }
    }

    /// A denial that a change of the policy can fix: between `before` and `after` the message can
    /// name the file.
    pub(crate) fn of_policy(reason: Reason, before: String, after: &str) -> Self {
        Self { file_at: Some(before.len()), ..Self::new(reason, before + after) }
    }

    /// A TLS connection without a host name.
    pub(crate) fn no_sni() -> Self {
        Self::new(
            Reason::NoSni,
            "over TLS a host can be asked for by name only: use its name, or plain http for an address that the policy \
             names",
        )
    }

    /// The host means the client's own machine, so it is never resolved.
    pub(crate) fn loopback(host: &HostName) -> Self {
        Self::new(
            Reason::Address,
            format!(
                "{host} means the machine itself and is never reached through the sandbox: ask a service of the \
                 container directly, without a proxy setting"
            ),
        )
    }

    /// A missing or malformed host: the problem and the fix.
    pub(crate) fn identity(problem: &str, fix: &str) -> Self {
        Self::new(Reason::Identity, format!("{problem}: {fix}"))
    }

    /// An unreadable body that the decision depends on: the problem and the fix.
    pub(crate) fn body(problem: &str, fix: &str) -> Self {
        Self::new(Reason::Body, format!("{problem}: {fix}"))
    }

    pub(crate) fn unreadable(message: &str) -> Self {
        Self::new(Reason::Unreadable, message)
    }

    /// A request to a model's vendor whose body cannot be judged: the problem and the fix.
    pub(crate) fn vendor_unreadable(problem: &str, fix: &str) -> Self {
        Self::new(
            Reason::VendorTool,
            format!("the request may name tools that a model's vendor runs, and {problem}: {fix}"),
        )
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
}

impl From<InvalidHost> for Denial {
    fn from(error: InvalidHost) -> Self {
        Self::identity(&error.to_string(), "ask for the host by its plain name")
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
        Self::new(Reason::Path, format!("{refusal}, so servers may read it in different ways: {fix}"))
    }
}
