//! Which requests to a vendor's API can name tools, and which cannot be judged at all.

use crate::denial::Denial;
use crate::form::Form;
use crate::policy::Allowlist;
use crate::reason::Reason;
use crate::request::Request;
use crate::target::decode_fully;
use crate::vendor_tools::VendorTool;
use crate::vendor_tools::is_vendor;

/// The form of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    /// Messages, batches of them, and their counts.
    Anthropic,
    /// Responses, Chat Completions, and similar endpoints.
    OpenAi,
    /// `generateContent` and similar endpoints.
    Gemini,
}

/// The treatment of a request by its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    /// Its body is JSON that can name tools.
    Json(Api),
    /// Its body is a form with a file, or JSON that can name tools.
    Upload(Api),
    /// A model never obeys any part of its body.
    Harmless,
    /// It may store tools for later, start something that has tools, or have unknown effects.
    Unknown,
}

/// The last segments of a path, in lower case; `*` is any segment.
const ENDPOINTS: [(&[&str], Endpoint); 28] = [
    (&["messages"], Endpoint::Json(Api::Anthropic)),
    (&["messages", "count_tokens"], Endpoint::Json(Api::Anthropic)),
    (&["messages", "batches"], Endpoint::Json(Api::Anthropic)),
    (&["messages", "batches", "*", "cancel"], Endpoint::Json(Api::Anthropic)),
    (&["complete"], Endpoint::Json(Api::Anthropic)),
    (&["chat", "completions"], Endpoint::Json(Api::OpenAi)),
    (&["chat", "completions", "*"], Endpoint::Json(Api::OpenAi)),
    (&["responses"], Endpoint::Json(Api::OpenAi)),
    (&["responses", "compact"], Endpoint::Json(Api::OpenAi)),
    (&["responses", "input_tokens"], Endpoint::Json(Api::OpenAi)),
    (&["responses", "*", "cancel"], Endpoint::Json(Api::OpenAi)),
    (&["conversations"], Endpoint::Json(Api::OpenAi)),
    (&["conversations", "*"], Endpoint::Json(Api::OpenAi)),
    (&["conversations", "*", "items"], Endpoint::Json(Api::OpenAi)),
    (&["completions"], Endpoint::Json(Api::OpenAi)),
    (&["embeddings"], Endpoint::Json(Api::OpenAi)),
    (&["moderations"], Endpoint::Json(Api::OpenAi)),
    (&["audio", "speech"], Endpoint::Json(Api::OpenAi)),
    (&["images", "generations"], Endpoint::Json(Api::OpenAi)),
    (&["images", "edits"], Endpoint::Upload(Api::OpenAi)),
    (&["images", "variations"], Endpoint::Upload(Api::OpenAi)),
    (&["audio", "transcriptions"], Endpoint::Upload(Api::OpenAi)),
    (&["audio", "translations"], Endpoint::Upload(Api::OpenAi)),
    (&["files"], Endpoint::Upload(Api::OpenAi)),
    (&["uploads"], Endpoint::Json(Api::OpenAi)),
    (&["uploads", "*", "parts"], Endpoint::Upload(Api::OpenAi)),
    (&["uploads", "*", "complete"], Endpoint::Json(Api::OpenAi)),
    (&["cachedcontents"], Endpoint::Json(Api::Gemini)),
];

/// The part after the colon in Google's paths, in lower case.
const VERBS: [(&str, Api); 11] = [
    ("generatecontent", Api::Gemini),
    ("streamgeneratecontent", Api::Gemini),
    ("batchgeneratecontent", Api::Gemini),
    ("counttokens", Api::Gemini),
    ("computetokens", Api::Gemini),
    ("embedcontent", Api::Gemini),
    ("batchembedcontents", Api::Gemini),
    ("asyncbatchembedcontent", Api::Gemini),
    ("predict", Api::Gemini),
    ("rawpredict", Api::Anthropic),
    ("streamrawpredict", Api::Anthropic),
];

/// Endpoints at which Claude Code signs in and reports to its vendor.
const HARMLESS: [&[&str]; 5] = [
    &["api", "oauth"],
    &["api", "event_logging"],
    &["api", "claude_code"],
    &["api", "claude_cli_feedback"],
    &["v1", "oauth", "token"],
];

impl Allowlist {
    /// The form in which the body of `request` must be reviewed before it is forwarded; `None` if
    /// it may pass unread.
    ///
    /// # Errors
    ///
    /// An unreadable request to a vendor's API, or one to an unknown endpoint.
    pub(crate) fn vendor_api(&self, request: &Request) -> Result<Option<Api>, Denial> {
        let tools = self.vendor_tools();
        if !tools.concerns(request.host()) || tools.is_unlimited() {
            return Ok(None);
        }
        let unknown_may_pass = tools.reach(VendorTool::Other).is_some();
        let form = request.form();
        if form == Form::WebSocket {
            return if unknown_may_pass {
                Ok(None)
            } else {
                Err(unread("a WebSocket", "use plain requests"))
            };
        }
        // Their bodies have no meaning, and headers that override the method are removed.
        if matches!(request.method().as_str(), "GET" | "HEAD" | "OPTIONS" | "DELETE") {
            return Ok(None);
        }
        let endpoint = endpoint(request, is_vendor(request.host()));
        if has_query_instructions(request) && endpoint != Endpoint::Harmless {
            return Err(unreadable(
                "its query holds `$` parameters, which could replace headers or body",
                "leave them out",
            ));
        }
        match endpoint {
            Endpoint::Harmless => Ok(None),
            Endpoint::Unknown if unknown_may_pass => Ok(None),
            Endpoint::Unknown => Err(unread(
                "this endpoint of a model's vendor",
                "use one that takes the whole request in JSON",
            )),
            Endpoint::Upload(_) if form == Form::Multipart => Ok(None),
            Endpoint::Json(api) | Endpoint::Upload(api) if form == Form::Json => Ok(Some(api)),
            Endpoint::Json(_) | Endpoint::Upload(_) => Err(unreadable(
                "its Content-Type is not JSON in UTF-8",
                "send `Content-Type: application/json`, once",
            )),
        }
    }
}

impl Allowlist {
    /// Whether the response to `request` may report tokens: it calls a model at a vendor's host, or
    /// at one of `vendor_tools.hosts`.
    #[must_use]
    pub fn counts_tokens_of(&self, request: &Request) -> bool {
        self.concerns_vendor(request.host()) && request.asks_a_model()
    }

    /// Whether a later response reports the tokens of `request`, as with a batch.
    #[must_use]
    pub fn defers_tokens_of(&self, request: &Request) -> bool {
        self.concerns_vendor(request.host()) && request.defers_an_answer()
    }
}

impl Request {
    /// Whether its path calls a model, so that the response may report tokens.
    fn asks_a_model(&self) -> bool {
        let asks = matches!(endpoint(self, false), Endpoint::Json(_) | Endpoint::Upload(_));
        asks && self.method().as_str() == "POST"
    }

    /// Whether its path calls a model that answers later, in another response.
    fn defers_an_answer(&self) -> bool {
        let path = self.target().path().to_lowercase();
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let verb = segments.last().and_then(|last| last.rsplit_once(':')).map(|(_, verb)| verb);
        let is_batch = matches!(verb, Some("batchgeneratecontent" | "asyncbatchembedcontent"))
            || matches!(segments.as_slice(), [.., "messages", "batches"] | [.., "batches"]);
        is_batch && self.method().as_str() == "POST"
    }
}

/// An ambiguous or unreadable request to a vendor.
pub(super) fn unreadable(problem: &str, fix: &str) -> Denial {
    Denial::vendor_unreadable(problem, fix)
}

fn unread(what: &str, fix: &str) -> Denial {
    let before = format!(
        "{what} may name tools that the vendor runs on its side, where they reach the web past this sandbox: {fix}, or write \
         `vendor_tools: {{other: any}}`"
    );
    Denial::of_policy(Reason::VendorTool, before, "")
}

/// The endpoint of a path, parsed at least as leniently as by any server: ignoring case and empty
/// segments.
fn endpoint(request: &Request, strict: bool) -> Endpoint {
    let path = request.target().path().to_lowercase();
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    // It creates a key that would outlive the task and is not masked.
    if strict && segments.starts_with(&["api", "oauth", "claude_cli"]) {
        return Endpoint::Unknown;
    }
    if strict && HARMLESS.iter().any(|prefix| segments.starts_with(prefix)) {
        return Endpoint::Harmless;
    }
    if let Some((_, verb)) = segments.last().and_then(|last| last.rsplit_once(':')) {
        let known = VERBS.iter().find(|(name, _)| *name == verb);
        return known.map_or(Endpoint::Unknown, |(_, api)| Endpoint::Json(*api));
    }
    let known = ENDPOINTS.iter().find(|(pattern, _)| {
        let start = segments.len().checked_sub(pattern.len());
        let (before, tail) = start.and_then(|start| segments.split_at_checked(start)).unwrap_or_default();
        // Gateways prepend their own prefix.
        let placed = !strict
            || matches!(
                before,
                ["v1" | "v1beta"] | ["v1beta", "openai"] | ["upload", "v1beta"] | ["backend-api", "codex"]
            );
        let same = |(pattern, segment): (&&str, &&str)| *pattern == "*" || pattern == segment;
        placed && tail.len() == pattern.len() && pattern.iter().zip(tail).all(same)
    });
    known.map_or(Endpoint::Unknown, |(_, endpoint)| *endpoint)
}

/// Google's servers accept headers and bodies in such parameters. `$alt` is the form of the answer.
fn has_query_instructions(request: &Request) -> bool {
    parameters(request).any(|name| name.contains('$') && name != "$alt")
}

/// Whether the query of a request to one of Google's APIs selects its account, or may override the
/// header that does.
pub(crate) fn query_has_key(request: &Request) -> bool {
    const KEYS: [&str; 4] = ["key", "access_token", "oauth_token", "bearer_token"];
    let host = request.host().as_str();
    (host == "googleapis.com" || host.ends_with(".googleapis.com"))
        && (has_query_instructions(request) || parameters(request).any(|name| KEYS.contains(&name.as_str())))
}

/// The names of the query's parameters, decoded and in lower case.
fn parameters(request: &Request) -> impl Iterator<Item = String> {
    let query = request.target().query().unwrap_or_default();
    query.split(|byte| matches!(byte, b'&' | b';')).map(|parameter| {
        let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
        String::from_utf8_lossy(&decode_fully(name)).to_lowercase()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::Scheme;

    const JSON: &[&[u8]] = &[b"application/json"];

    fn ask(
        policy: &str,
        method: &str,
        url: &str,
        types: &[&[u8]],
        upgrade: bool,
    ) -> Result<Option<Api>, String> {
        let policy = Allowlist::from_yaml(policy, "policy.yaml").unwrap();
        let (host, path) = url.split_at(url.find('/').unwrap());
        let request =
            Request::from_wire(Scheme::Https, host.as_bytes(), method.as_bytes(), path.as_bytes()).unwrap();
        let form = if upgrade { Form::WebSocket } else { Form::of(types.iter().copied()) };
        policy.vendor_api(&request.with_form(form)).map_err(|denial| {
            assert_eq!(denial.reason(), Reason::VendorTool);
            denial.message_naming("FILE")
        })
    }

    #[test]
    fn endpoints_whose_bodies_are_reviewed() {
        use Api::{Anthropic, Gemini, OpenAi};
        for (url, expected) in [
            ("api.anthropic.com/v1/messages", Anthropic),
            ("api.anthropic.com/v1/messages?beta=true", Anthropic),
            ("api.anthropic.com/v1/messages/", Anthropic),
            ("api.anthropic.com//v1//messages", Anthropic),
            ("api.anthropic.com/V1/Messages", Anthropic),
            ("api.anthropic.com/v1/%6dessages", Anthropic),
            ("api.anthropic.com/v1%2Fmessages", Anthropic),
            ("api.anthropic.com/v1/messages/batches", Anthropic),
            ("api.anthropic.com/v1/messages/count_tokens?beta=true", Anthropic),
            ("api.anthropic.com/v1/chat/completions", OpenAi),
            ("api.openai.com/v1/responses", OpenAi),
            ("eu.api.openai.com/v1/responses", OpenAi),
            ("api.openai.com/v1/responses/compact", OpenAi),
            ("chatgpt.com/backend-api/codex/responses", OpenAi),
            ("api.openai.com/v1/conversations/conv_1/items", OpenAi),
            ("api.openai.com/v1/images/edits", OpenAi),
            ("generativelanguage.googleapis.com/v1beta/models/gemini:generateContent", Gemini),
            ("generativelanguage.googleapis.com/v1beta/models/gemini:streamGenerateContent?alt=sse", Gemini),
            ("generativelanguage.googleapis.com/v1beta/models/gemini%3AgenerateContent?$alt=json", Gemini),
            ("generativelanguage.googleapis.com/v1beta/cachedContents", Gemini),
            ("generativelanguage.googleapis.com/v1beta/openai/chat/completions", OpenAi),
            ("llm.corp.example/proxy/anthropic/v1/messages", Anthropic),
            ("llm.corp.example/v1/projects/p/models/claude:streamRawPredict", Anthropic),
        ] {
            let policy = "vendor_tools: {hosts: [llm.corp.example]}";
            for method in ["POST", "PUT", "post", "QUERY"] {
                assert_eq!(ask(policy, method, url, JSON, false), Ok(Some(expected)), "{method} {url}");
            }
            // A setting that permits unknown endpoints has no effect on known ones.
            assert_eq!(
                ask("vendor_tools: {hosts: [llm.corp.example], other: any}", "POST", url, JSON, false),
                Ok(Some(expected))
            );
            assert_eq!(ask(policy, "GET", url, &[], false), Ok(None));
            let any = "vendor_tools: {web_search: any, web_fetch: any, mcp: any, code_execution: any, files_by_url: any, other: any}";
            assert_eq!(ask(any, "POST", url, &[b"text/plain"], false), Ok(None));
        }
    }

    #[test]
    fn requests_that_pass_unread() {
        for (url, content_type) in [
            ("example.com/v1/messages", b"text/plain".as_slice()),
            ("api.openai.example/v1/batches", b"text/plain"),
            ("api.anthropic.com/api/event_logging/v2/batch", b"application/json"),
            ("api.anthropic.com/api/oauth/claude_cli_feedback", b"application/json"),
            ("api.anthropic.com/v1/files", b"multipart/form-data; boundary=x"),
            ("api.openai.com/v1/files", b"multipart/form-data; boundary=x"),
            ("api.openai.com/v1/audio/transcriptions", b"Multipart/Form-Data; boundary=x"),
        ] {
            assert_eq!(ask("", "POST", url, &[content_type], false), Ok(None), "{url}");
        }
    }

    #[test]
    fn endpoints_that_are_refused() {
        for url in [
            "api.anthropic.com/v1/sessions",
            "api.anthropic.com/api/oauth/claude_cli/create_api_key",
            "api.anthropic.com/api/OAuth//claude_cli/roles",
            "chatgpt.com/backend-api/conversation",
            "api.anthropic.com/v1/code/sessions",
            "api.anthropic.com/v1/agents",
            "api.anthropic.com/v1/mcp/server",
            "api.anthropic.com/v1/messages;x=1",
            "api.anthropic.com/",
            "api.openai.com/v1/batches",
            "api.openai.com/v1/assistants",
            "api.openai.com/v1/threads/runs",
            "api.openai.com/v1/threads/t/messages",
            "api.openai.com/v1/containers",
            "api.openai.com/v1/realtime/client_secrets",
            "api.openai.com/v1/fine_tuning/jobs",
            "api.openai.com/v1/evals",
            "generativelanguage.googleapis.com/v1beta/interactions",
            "generativelanguage.googleapis.com/v1beta/files:register",
            "generativelanguage.googleapis.com/batch",
        ] {
            let error = ask("", "POST", url, JSON, false).unwrap_err();
            assert!(error.contains("`vendor_tools: {other: any}` in FILE"), "{error}");
            assert_eq!(ask("vendor_tools: {other: any}", "POST", url, JSON, false), Ok(None), "{url}");
        }
        let url = "api.openai.com/v1/realtime?model=x";
        assert!(ask("", "GET", url, &[], true).unwrap_err().contains("a WebSocket"));
        assert_eq!(ask("vendor_tools: {other: any}", "GET", url, &[], true), Ok(None));
    }

    #[test]
    fn ambiguous_request_is_refused() {
        let url = "api.openai.com/v1/responses";
        let types: [&[&[u8]]; 9] = [
            &[],
            &[b""],
            &[b"text/plain"],
            &[b"application/x-www-form-urlencoded"],
            &[b"multipart/form-data; boundary=x"],
            &[b"application/x-protobuf"],
            &[b"application/json; charset=utf-7"],
            &[b"application/json", b"application/json"],
            &[b"application/json, text/plain"],
        ];
        for types in types {
            assert!(ask("vendor_tools: {other: any}", "POST", url, types, false).is_err(), "{types:?}");
        }
        for content_type in [b"application/json; charset=UTF-8".as_slice(), b"Application/JSON;charset=utf-8"]
        {
            assert!(ask("", "POST", url, &[content_type], false).is_ok());
        }
        let url = "generativelanguage.googleapis.com/v1beta/models/g:generateContent";
        for query in ["$req=x", "%24req=x", "key=1&$ct=x", "$httpHeaders=a"] {
            assert!(ask("", "POST", &format!("{url}?{query}"), JSON, false).is_err(), "{query}");
        }
    }
}
