//! A validated request.
//!
//! Invariant: host, port, method and path of a [`Request`] are unambiguous.

use crate::authority::Authority;
use crate::denial::Denial;
use crate::form::Form;
use crate::host::HostName;
use crate::method::Method;
use crate::scheme::Scheme;
use crate::target::Target;

/// A request with exactly one meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    scheme: Scheme,
    host: HostName,
    method: Method,
    target: Target,
    form: Form,
}

impl Request {
    /// A request from its parts.
    ///
    /// # Errors
    ///
    /// A denial with reason `no_sni` (an IPv4 address over TLS), `port`, `method_forbidden` or
    /// `address` (a name of the machine itself).
    pub fn new(scheme: Scheme, authority: Authority, method: Method, target: Target) -> Result<Self, Denial> {
        check(scheme, &authority, &method)?;
        Ok(Self { scheme, host: authority.into_host(), method, target, form: Form::default() })
    }

    /// Reads a request as received: host first, then port, method and path; the first error is
    /// reported.
    ///
    /// # Errors
    ///
    /// Like [`Authority::from_wire`], [`Method::from_wire`], [`Request::new`] and
    /// [`Target::from_wire`], in this order.
    pub fn from_wire(scheme: Scheme, authority: &[u8], method: &[u8], target: &[u8]) -> Result<Self, Denial> {
        Self::read(scheme, Authority::from_wire(authority)?, method, target)
    }

    /// The same request, with the form of its body. The default is JSON.
    #[must_use]
    pub fn with_form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// The form of the body, as declared by the head.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// The scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The requested host.
    #[must_use]
    pub fn host(&self) -> &HostName {
        &self.host
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The target.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn read(
        scheme: Scheme,
        authority: Authority,
        method: &[u8],
        target: &[u8],
    ) -> Result<Self, Denial> {
        let method = Method::from_wire(method)?;
        check(scheme, &authority, &method)?;
        let target = Target::from_wire(target)?;
        Ok(Self { scheme, host: authority.into_host(), method, target, form: Form::default() })
    }
}

/// Checks that do not depend on the path.
fn check(scheme: Scheme, authority: &Authority, method: &Method) -> Result<(), Denial> {
    if scheme == Scheme::Https && authority.host().is_ipv4().is_some() {
        return Err(Denial::no_sni());
    }
    authority.check_port(scheme)?;
    if method.is_forbidden() {
        return Err(Denial::method_forbidden());
    }
    if authority.host().is_loopback() {
        return Err(Denial::loopback(authority.host()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;

    #[test]
    fn first_error_is_reported() {
        use Scheme::{Http, Https};
        for (scheme, authority, method, target, expected) in [
            (Https, "a.example", "GET", "/", None),
            (Https, "a.example:443", "GET", "/", None),
            (Http, "a.example:80", "GET", "/", None),
            (Http, "10.0.0.1", "GET", "/", None),
            (Https, "a.example:80", "GET", "/", Some(Reason::Port)),
            (Http, "a.example:443", "GET", "/", Some(Reason::Port)),
            (Https, "10.0.0.1", "GET", "/", Some(Reason::NoSni)),
            (Https, "localhost", "GET", "/", Some(Reason::Address)),
            (Http, "a.LOCALHOST.", "GET", "/..", Some(Reason::Address)),
            (Https, "a.example", "CONNECT", "a.example:443", Some(Reason::MethodForbidden)),
            (Https, "a.example", "connect", "/", Some(Reason::MethodForbidden)),
            (Https, "a.example", "TRACE", "/..", Some(Reason::MethodForbidden)),
            (Https, "a.example", "OPTIONS", "*", Some(Reason::Path)),
            (Https, "a.example", "GET", "/..", Some(Reason::Path)),
            (Https, "a.example", "G T", "/..", Some(Reason::Unreadable)),
            (Https, "a.example:1", "TRACE", "/..", Some(Reason::Port)),
            (Https, "a@b:1", "TRACE", "/..", Some(Reason::Identity)),
        ] {
            let read = Request::from_wire(scheme, authority.as_bytes(), method.as_bytes(), target.as_bytes());
            assert_eq!(read.err().map(|d| d.reason()), expected, "{scheme} {authority} {method} {target}");
        }
    }
}
