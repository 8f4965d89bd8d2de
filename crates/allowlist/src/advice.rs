//! Suggested changes to a policy that does not allow a request.

use crate::denial::Denial;
use crate::git::Service;
use crate::method::RuleMethod;
use crate::pattern::Pattern;
use crate::reason::Reason;
use crate::request::Request;
use crate::rule::Reach;

/// Maximum number of a path's characters in a message.
const PATH_SHOWN: usize = 160;

/// The denial of a request that no rule covers beyond `nearest`.
pub(crate) fn denial(nearest: Reach, request: &Request) -> Denial {
    match nearest {
        Reach::All | Reach::Head | Reach::Path => method(request),
        Reach::PathWithoutQuery => query(request),
        Reach::Host => path_not_allowed(request),
        Reach::Nothing => host(request),
    }
}

/// The denial of a possible push to a host with rules for repositories, none of which covers more
/// than `nearest`.
pub(crate) fn no_push(nearest: Reach, request: &Request) -> Denial {
    let host = request.host();
    if nearest == Reach::Path {
        let message = format!(
            "nothing may be pushed to this repository of {host}: to allow it, add `push: [refs/heads/agent/*]` to its `git` \
             entry"
        );
        return Denial::of_policy(Reason::RefNotAllowed, message, "");
    }
    let fix = match Service::of(request) {
        Some((_, repository)) => {
            let shown: String = repository.chars().take(PATH_SHOWN).collect();
            let cut = if shown.len() < repository.len() { "*" } else { "" };
            let path = serde_json::Value::String(Pattern::escape(&shown) + cut);
            format!(
                "to allow this one, add {{host: \"{host}\", path: {path}, git: {{push: [\"refs/heads/agent/*\"]}}}} to \
                 `url_prefixes`"
            )
        }
        None => "push to one of these over git's smart HTTP, or add an entry with `git` to `url_prefixes`"
            .to_owned(),
    };
    let message = format!("{host} takes pushes to the repositories of `git` entries only: {fix}");
    Denial::of_policy(Reason::PathNotAllowed, message, "")
}

fn method(request: &Request) -> Denial {
    let (method, host) = (request.method(), request.host());
    let message = if RuleMethod::new(method.as_str()).is_ok() {
        let entry = entry(request, true);
        format!("{method} is not allowed for this path of {host}: to allow it, add {entry}")
    } else {
        let domain = domain(request);
        format!("this method is not allowed for this path of {host}: to allow it, add {domain}")
    };
    Denial::of_policy(Reason::Method, message, "")
}

fn query(request: &Request) -> Denial {
    let message = format!(
        "this path of {} is allowed without a query string only: to allow one, end the path with `*`, that is, add {}",
        request.host(),
        entry(request, false),
    );
    Denial::of_policy(Reason::Query, message, "")
}

fn path_not_allowed(request: &Request) -> Denial {
    let (host, entry) = (request.host(), entry(request, false));
    let message = format!("this path of {host} is not allowed: to allow it, add {entry}");
    Denial::of_policy(Reason::PathNotAllowed, message, "")
}

fn host(request: &Request) -> Denial {
    let message = format!("{} is not allowed: to allow it, add {}", request.host(), domain(request));
    let narrower = format!(", or for this path only {}", entry(request, false));
    Denial::of_policy(Reason::Host, message, &narrower)
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
    let methods = if with_method { format!(", methods: [{}]", request.method()) } else { String::new() };
    // A JSON string is a YAML string too, for any path.
    let path = serde_json::Value::String(path);
    format!("{{host: \"{}\", path: {path}{methods}}} to `url_prefixes`", request.host())
}
