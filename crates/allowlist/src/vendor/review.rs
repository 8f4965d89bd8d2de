//! The review of a request body: a walk over every part of it that a server could obey.
//!
//! Parts that a server only shows to the model or returns (schemas, arguments of calls, metadata)
//! are skipped, but only in their proper place: a part is never skipped because of a key that a
//! server would ignore there.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::Value;
use serde_json::value::RawValue;

use super::domains;
use super::endpoint::Api;
use super::endpoint::unreadable;
use super::json;
use super::json::Entry;
use super::json::JsonError;
use super::json::Object;
use super::tool;
use super::tool::Runner;
use crate::denial::Denial;
use crate::policy::Allowlist;
use crate::reason::Reason;
use crate::vendor_tools::Denied;
use crate::vendor_tools::Reach;
use crate::vendor_tools::VendorTool;

/// The maximum size of a body in bytes: 32 MiB, as accepted by the vendors.
pub(crate) const BODY_LIMIT: usize = 32 << 20;

/// Maximum nesting of lists and objects in the walk.
const DEPTH_LIMIT: usize = 32;

/// Location of files uploaded to Gemini.
const UPLOADED: &str = "https://generativelanguage.googleapis.com/v1beta/files/";

/// A body that may be forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reviewed {
    /// The body without the removed parts; `None` if nothing was removed.
    pub(super) body: Option<Vec<u8>>,
    /// The removed kinds, without duplicates.
    pub(super) removed: Vec<VendorTool>,
}

/// Reads the body of a request, in the form given by [`Allowlist::vendor_api`].
///
/// # Errors
///
/// A body that is not unambiguous JSON, or is larger than [`BODY_LIMIT`]; a tool that `policy` does
/// not allow and that cannot be removed, or should be refused.
pub(super) fn review(body: &[u8], api: Api, policy: &Allowlist) -> Result<Reviewed, Denial> {
    if body.len() > BODY_LIMIT {
        return Err(unreadable("its body is larger than 32 MiB", "send less at once"));
    }
    if body.trim_ascii().is_empty() {
        return Ok(Reviewed { body: None, removed: Vec::new() });
    }
    let no_json = |problem: &str| unreadable(problem, "send plain JSON in UTF-8, without a byte order mark");
    let text = std::str::from_utf8(body).map_err(|_| no_json("its body is not UTF-8"))?;
    let whole: &RawValue = serde_json::from_str(text).map_err(|_| no_json("its body is not JSON"))?;
    if !json::is_object(whole) {
        return Err(no_json("its body is not a JSON object"));
    }
    let mut walk = Walk { text, api, policy, gone: Vec::new(), removed: BTreeSet::new(), depth: 0 };
    walk.object(whole, "")?;
    let body = (!walk.gone.is_empty()).then(|| json::cut(text, walk.gone));
    Ok(Reviewed { body, removed: walk.removed.into_iter().collect() })
}

struct Walk<'a> {
    text: &'a str,
    api: Api,
    policy: &'a Allowlist,
    /// The parts to remove from the body.
    gone: Vec<Range<usize>>,
    removed: BTreeSet<VendorTool>,
    depth: usize,
}

/// The remaining remote servers of one request.
#[derive(Default)]
struct Servers {
    /// None remains.
    emptied: bool,
    names: BTreeSet<String>,
}

/// The treatment of the tools of one request.
#[derive(Default)]
struct Tools {
    /// All of them are removed.
    emptied: bool,
    /// Names by which a tool choice could refer to the removed ones.
    names: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    /// Any value under `key`, or in a list there.
    fn value(&mut self, raw: &'a RawValue, key: &str) -> Result<(), Denial> {
        if json::is_object(raw) {
            self.object(raw, key)
        } else if json::is_list(raw) {
            self.deeper(|walk| json::each(raw, |item| walk.value(item, key)))
        } else if is_location(key) && json::is_text(raw) {
            self.location(raw)
        } else {
            Ok(())
        }
    }

    fn deeper(&mut self, walk: impl FnOnce(&mut Self) -> Result<(), Denial>) -> Result<(), Denial> {
        if self.depth == DEPTH_LIMIT {
            return Err(unreadable("its body is nested too deeply", "send a flatter one"));
        }
        self.depth += 1;
        walk(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self, raw: &'a RawValue, key: &str) -> Result<(), Denial> {
        self.deeper(|walk| {
            let object = Object::read(raw)?;
            let servers = object.value("mcpservers").map(|servers| walk.servers(servers)).transpose()?;
            let servers = servers.unwrap_or_default();
            let tools = object.value("tools").map(|tools| walk.tools(tools, &servers.names)).transpose()?;
            let tools = tools.unwrap_or_default();
            let mut parts = Vec::with_capacity(object.entries().len());
            for entry in object.entries() {
                let kept = match entry.name.as_ref() {
                    "tools" => !tools.emptied,
                    "mcpservers" => !servers.emptied,
                    _ => walk.entry(entry, &object, key, &tools)?,
                };
                parts.push((entry.span(walk.text), kept));
            }
            walk.gone.extend(json::without(&parts));
            Ok(())
        })
    }

    /// Whether an entry of an object under `key` is kept.
    fn entry(
        &mut self,
        entry: &Entry<'a>,
        object: &Object<'a>,
        key: &str,
        tools: &Tools,
    ) -> Result<bool, Denial> {
        let raw = entry.value;
        match entry.name.as_ref() {
            name if is_skipped(name, object, key) => {}
            "toolchoice" => return choice_stays(raw, tools),
            "paralleltoolcalls" | "toolconfig" => return Ok(!tools.emptied),
            "websearchoptions" if !json::is_null(raw) => return self.stays(VendorTool::WebSearch, false),
            "container" if !json::is_null(raw) => return self.stays(VendorTool::CodeExecution, false),
            "model" if searches(raw) => {
                self.demand(VendorTool::WebSearch, "this model searches the web by itself")?;
            }
            "prompt" if json::is_object(raw) => {
                self.demand(VendorTool::Other, "a stored prompt may have tools")?;
            }
            "filename" if self.api == Api::Gemini && !json::is_null(raw) => {
                self.demand(VendorTool::Other, "a file of requests may have tools")?;
            }
            "definition" => self.definition(raw)?,
            "url" if gives_file(object, key) => self.value(raw, "fileurl")?,
            "connectorid" if !json::is_null(raw) => {
                self.demand(VendorTool::Mcp, "a connector is a remote server")?;
            }
            name => self.value(raw, name)?,
        }
        Ok(true)
    }

    fn servers(&mut self, raw: &'a RawValue) -> Result<Servers, Denial> {
        if json::is_null(raw) {
            return Ok(Servers::default());
        }
        let servers = json::list(raw).ok().filter(|_| json::is_list(raw));
        let servers = servers.ok_or_else(|| unreadable("its `mcp_servers` is not a list", "send a list"))?;
        let mut remaining = Servers { emptied: !servers.is_empty(), names: BTreeSet::new() };
        let mut parts = Vec::new();
        for server in servers {
            let object = if json::is_object(server) { Some(Object::read(server)?) } else { None };
            let allowed = object.as_ref().is_some_and(|server| self.server_is_allowed(server));
            let kept = self.stays(VendorTool::Mcp, allowed)?;
            if kept {
                remaining.emptied = false;
                remaining.names.extend(object.and_then(|server| server.text("name")));
            }
            parts.push((json::span(server, self.text), kept));
        }
        self.gone.extend(json::without(&parts));
        Ok(remaining)
    }

    fn tools(&mut self, raw: &'a RawValue, servers: &BTreeSet<String>) -> Result<Tools, Denial> {
        let mut tools = Tools::default();
        let items = match raw {
            raw if json::is_null(raw) => return Ok(tools),
            raw if json::is_list(raw) => json::list(raw)?,
            // Google's servers accept one tool instead of a list.
            raw if json::is_object(raw) => vec![raw],
            _ => return Err(unreadable("its `tools` is not a list", "send a list")),
        };
        let mut parts = Vec::with_capacity(items.len());
        for item in items {
            if !json::is_object(item) {
                return Err(unreadable("one of its `tools` is not an object", "send objects"));
            }
            let tool = Object::read(item)?;
            let kept =
                if self.api == Api::Gemini { self.members(&tool)? } else { self.tool(item, &tool, servers)? };
            if !kept {
                let names = ["name", "type", "serverlabel", "mcpservername"];
                tools.names.extend(names.iter().filter_map(|name| tool.text(name)));
            }
            parts.push((json::span(item, self.text), kept));
        }
        tools.emptied = !parts.is_empty() && parts.iter().all(|(_, kept)| !kept);
        self.gone.extend(json::without(&parts));
        Ok(tools)
    }

    /// Whether a tool is kept.
    fn tool(
        &mut self,
        raw: &'a RawValue,
        tool: &Object<'a>,
        servers: &BTreeSet<String>,
    ) -> Result<bool, Denial> {
        let kind = match tool::runner(tool) {
            Runner::Client => return Ok(true),
            Runner::Group | Runner::Contained => {
                self.object(raw, "")?;
                return Ok(true);
            }
            Runner::Vendor(kind) => kind,
        };
        let allowed = match kind {
            VendorTool::WebSearch | VendorTool::WebFetch => self.is_limited(tool),
            VendorTool::Mcp => match tool.text("mcpservername") {
                Some(name) => servers.contains(&name),
                None => self.server_is_allowed(tool),
            },
            _ => false,
        };
        self.stays(kind, allowed)
    }

    /// Removes members of a tool in Gemini's form; returns whether any is kept.
    fn members(&mut self, tool: &Object<'a>) -> Result<bool, Denial> {
        let mut parts = Vec::new();
        for entry in tool.entries() {
            let kept = match tool::member(&entry.name) {
                Runner::Vendor(VendorTool::Mcp) => !self.servers(entry.value)?.emptied,
                Runner::Vendor(kind) => self.stays(kind, false)?,
                Runner::Client | Runner::Contained | Runner::Group => true,
            };
            parts.push((entry.span(self.text), kept));
        }
        let any = parts.is_empty() || parts.iter().any(|(_, kept)| *kept);
        if any {
            self.gone.extend(json::without(&parts));
        }
        Ok(any)
    }

    /// A tool that a message adds: its message cannot be sent without it.
    fn definition(&mut self, raw: &'a RawValue) -> Result<(), Denial> {
        if json::is_list(raw) {
            return self.deeper(|walk| json::each(raw, |item| walk.definition(item)));
        }
        if !json::is_object(raw) {
            return Ok(());
        }
        let tool = Object::read(raw)?;
        match tool::runner(&tool) {
            Runner::Client => Ok(()),
            Runner::Group | Runner::Contained => self.object(raw, ""),
            Runner::Vendor(kind) if self.is_allowed(kind, self.is_limited(&tool)) => Ok(()),
            Runner::Vendor(kind) => Err(self.denial(kind, "a message adds a tool that the vendor runs")),
        }
    }

    /// Whether the tool is limited to domains that the policy allows.
    fn is_limited(&self, tool: &Object<'_>) -> bool {
        let kind = tool.text("type").unwrap_or_default();
        // It supports no filter.
        if kind.starts_with("web_search_preview") {
            return false;
        }
        let filters = tool.value("filters").filter(|raw| json::is_object(raw));
        let filtered = filters.and_then(|raw| Object::read(raw).ok()?.value("alloweddomains"));
        let named = [tool.value("alloweddomains"), filtered];
        let mut named = named.into_iter().flatten().filter(|raw| !json::is_null(raw)).peekable();
        named.peek().is_some() && named.all(|raw| domains::are_allowed(raw, self.policy))
    }

    /// Whether the policy allows requests to a remote server.
    fn server_is_allowed(&self, server: &Object<'_>) -> bool {
        let transport = server.value("streamablehttptransport").filter(|raw| json::is_object(raw));
        let transport = transport.and_then(|raw| Object::read(raw).ok()?.text("url"));
        let url = server.text("serverurl").or_else(|| server.text("url")).or(transport);
        let elsewhere = ["connectorid", "tunnelid"].iter().any(|name| server.value(name).is_some());
        !elsewhere && url.is_some_and(|url| self.policy.judge("POST", url).is_allowed())
    }

    /// A file that the vendor would fetch.
    fn location(&self, raw: &RawValue) -> Result<(), Denial> {
        let location = json::text(raw).unwrap_or_default();
        let uploaded = |location: &str| {
            let id = location.strip_prefix(UPLOADED).unwrap_or_default();
            !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if location.starts_with("data:")
            || (self.api == Api::Gemini && uploaded(&location))
            || self.is_allowed(VendorTool::FilesByUrl, self.policy.judge("GET", &location).is_allowed())
        {
            return Ok(());
        }
        Err(self.denial(
            VendorTool::FilesByUrl,
            "an image or a document is given by its URL: send its content in the request",
        ))
    }

    /// Whether a tool may be used; `limited` if it meets the limits of `policy`.
    fn is_allowed(&self, kind: VendorTool, limited: bool) -> bool {
        match self.policy.vendor_tools().reach(kind) {
            Some(Reach::Any) => true,
            Some(Reach::Policy) => limited,
            None => false,
        }
    }

    /// Whether a removable part is kept; records it otherwise.
    fn stays(&mut self, kind: VendorTool, limited: bool) -> Result<bool, Denial> {
        if self.is_allowed(kind, limited) {
            return Ok(true);
        }
        if self.policy.vendor_tools().denied == Denied::Refuse {
            return Err(self.denial(kind, "leave this tool out"));
        }
        self.removed.insert(kind);
        Ok(false)
    }

    /// Refuses a part that cannot be removed.
    fn demand(&self, kind: VendorTool, what: &str) -> Result<(), Denial> {
        if self.is_allowed(kind, false) { Ok(()) } else { Err(self.denial(kind, what)) }
    }

    fn denial(&self, kind: VendorTool, what: &str) -> Denial {
        let limited = self.policy.vendor_tools().reach(kind) == Some(Reach::Policy);
        let fix = match kind {
            VendorTool::WebSearch | VendorTool::WebFetch if limited => {
                "limit it to `allowed_domains` that the policy allows with their subdomains, and of which `deny` names no part, or write `any` in".to_owned()
            }
            _ if limited => "allow its URL too".to_owned(),
            _ => format!("to allow it, write `{kind}: {}` in", kind.least()),
        };
        let before = format!(
            "`{kind}` runs at the model's vendor, where it reaches the web past this sandbox: {what}; {fix} `vendor_tools`"
        );
        Denial::of_policy(Reason::VendorTool, before, "")
    }
}

/// Whether no server obeys a part in this place.
fn is_skipped(name: &str, object: &Object<'_>, key: &str) -> bool {
    let kind = || object.text("type").unwrap_or_default();
    match name {
        "inputschema" | "responseformat" | "responseschema" | "responsejsonschema" | "outputformat"
        | "schema" | "metadata" | "logitbias" | "functions" | "functioncall" | "toolcall"
        | "toolresponse" | "partmetadata" => true,
        "format" => matches!(key, "outputconfig" | "text"),
        "response" => key == "functionresponse",
        // Arguments of a call that the model made. In these lists the type decides how an item is
        // read.
        "input" => {
            key == "content" && matches!(kind().as_str(), "tool_use" | "server_tool_use" | "mcp_tool_use")
        }
        "action" | "actions" | "operation" | "results" => {
            matches!(key, "input" | "items") && kind().ends_with("_call")
        }
        _ => false,
    }
}

/// Whether a tool choice names no removed tool.
fn choice_stays(raw: &RawValue, tools: &Tools) -> Result<bool, Denial> {
    if tools.emptied {
        return Ok(false);
    }
    let choice: Value = serde_json::from_str(raw.get()).map_err(|_| JsonError::Syntax)?;
    Ok(!names_any(&choice, &tools.names))
}

fn names_any(choice: &Value, names: &BTreeSet<String>) -> bool {
    match choice {
        Value::String(text) => names.contains(text),
        Value::Array(items) => items.iter().any(|item| names_any(item, names)),
        Value::Object(entries) => entries.values().any(|value| names_any(value, names)),
        _ => false,
    }
}

/// Whether the model searches the web without a tool.
fn searches(raw: &RawValue) -> bool {
    let model = json::text(raw).unwrap_or_default().to_lowercase();
    model.contains("search")
}

/// Whether the text of a key is the location of a file.
fn is_location(key: &str) -> bool {
    key != "url" && (key.ends_with("url") || key.ends_with("uri"))
}

/// Whether the URL of this object is a file to fetch: most are citations.
fn gives_file(object: &Object<'_>, key: &str) -> bool {
    matches!(key, "source" | "image" | "file" | "document" | "video" | "audio")
        || is_location(key)
        || object.text("type").is_some_and(|kind| kind.eq_ignore_ascii_case("url"))
}

impl From<JsonError> for Denial {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Syntax => unreadable("its body is not JSON", "send plain JSON in UTF-8"),
            JsonError::Twice(key) => {
                let problem = format!("its body has the key `{}` twice in one object", key.escape_debug());
                unreadable(&problem, "send it once")
            }
            JsonError::TooMany => {
                unreadable("its body has more than 10,000 keys or tools in one place", "send fewer")
            }
        }
    }
}

#[cfg(test)]
mod tests;
