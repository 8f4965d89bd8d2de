//! The party that runs a tool, the client that defines it or the vendor, and the tool's reach.

use serde_json::value::RawValue;

use super::json;
use super::json::Object;
use crate::vendor_tools::VendorTool;

/// The party that runs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runner {
    /// The client. For the vendor, its definition is only a description.
    Client,
    /// It only groups others.
    Group,
    /// The vendor, and it reaches only data of the request or the account.
    Contained,
    /// The vendor.
    Vendor(VendorTool),
}

/// Tools that the client runs. Anthropic's have a date as a suffix.
const CLIENT: [&str; 12] = [
    "custom",
    "function",
    "bash",
    "text_editor",
    "computer",
    "computer_toolset",
    "computer_use",
    "computer_use_preview",
    "browser_toolset",
    "memory",
    "local_shell",
    "apply_patch",
];

/// Tools that the vendor runs over the request itself, the account's own files, or another model.
const CONTAINED: [&str; 6] = [
    "tool_search",
    "tool_search_tool_bm25",
    "tool_search_tool_regex",
    "advisor",
    "file_search",
    "image_generation",
];

/// Members of a tool in Gemini's form, folded.
const MEMBERS: [(&str, VendorTool); 12] = [
    ("googlesearch", VendorTool::WebSearch),
    ("googlesearchretrieval", VendorTool::WebSearch),
    ("enterprisewebsearch", VendorTool::WebSearch),
    ("exaaisearch", VendorTool::WebSearch),
    ("parallelaisearch", VendorTool::WebSearch),
    ("googlemaps", VendorTool::WebSearch),
    ("urlcontext", VendorTool::WebFetch),
    ("mcpservers", VendorTool::Mcp),
    ("codeexecution", VendorTool::CodeExecution),
    ("retrieval", VendorTool::Other),
    ("websearch", VendorTool::WebSearch),
    ("webfetch", VendorTool::WebFetch),
];

/// The party that runs a tool in the form of Messages, Responses or Chat Completions. Unknown tools
/// count as the vendor's.
pub(super) fn runner(tool: &Object<'_>) -> Runner {
    // Gateways for several vendors could obey such a member with any type.
    let member = tool.entries().iter().find_map(|entry| vendor_member(&entry.name));
    if let Some(kind) = member {
        return Runner::Vendor(kind);
    }
    let kind = match tool.value("type") {
        None => None,
        Some(raw) if json::is_null(raw) => None,
        Some(raw) => Some(json::text(raw).unwrap_or_default()),
    };
    match kind {
        Some(kind) if kind == "shell" => shell(tool),
        Some(kind) => typed(&kind),
        None if tool.text("name").is_some() || tool.value("function").is_some_and(json::is_object) => {
            Runner::Client
        }
        None => Runner::Vendor(VendorTool::Other),
    }
}

/// The party that runs a member of a tool in Gemini's form; declarations of functions are the
/// client's.
pub(super) fn member(name: &str) -> Runner {
    match (name, vendor_member(name)) {
        ("functiondeclarations" | "computeruse", _) => Runner::Client,
        ("filesearch", _) => Runner::Contained,
        (_, Some(kind)) => Runner::Vendor(kind),
        (_, None) => Runner::Vendor(VendorTool::Other),
    }
}

fn vendor_member(name: &str) -> Option<VendorTool> {
    MEMBERS.iter().find(|(member, _)| *member == name).map(|(_, kind)| *kind)
}

fn typed(kind: &str) -> Runner {
    let family = without_date(kind);
    if CLIENT.contains(&family) {
        return Runner::Client;
    }
    if CONTAINED.contains(&family) {
        return Runner::Contained;
    }
    match kind {
        "namespace" => Runner::Group,
        _ if family.starts_with("web_search") => Runner::Vendor(VendorTool::WebSearch),
        _ if family.starts_with("web_fetch") => Runner::Vendor(VendorTool::WebFetch),
        "mcp" | "mcp_toolset" => Runner::Vendor(VendorTool::Mcp),
        _ if family.starts_with("code_execution") => Runner::Vendor(VendorTool::CodeExecution),
        "code_interpreter" | "programmatic_tool_calling" => Runner::Vendor(VendorTool::CodeExecution),
        _ => Runner::Vendor(VendorTool::Other),
    }
}

/// A shell is the client's only if its environment is.
fn shell(tool: &Object<'_>) -> Runner {
    let environment = tool.value("environment").filter(|raw| json::is_object(raw));
    let local = environment.is_some_and(|raw: &RawValue| {
        Object::read(raw).is_ok_and(|environment| environment.text("type").as_deref() == Some("local"))
    });
    if local { Runner::Client } else { Runner::Vendor(VendorTool::CodeExecution) }
}

/// `bash_20250124` without its date.
fn without_date(kind: &str) -> &str {
    match kind.rsplit_once('_') {
        Some((family, date)) if date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()) => family,
        _ => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners() {
        use Runner::{Client, Contained, Group, Vendor};
        use VendorTool::{CodeExecution, Mcp, Other, WebFetch, WebSearch};
        for (tool, expected) in [
            (r#"{"name":"x","input_schema":{}}"#, Client),
            (r#"{"type":null,"name":"x"}"#, Client),
            (r#"{"type":"custom","name":"web_search"}"#, Client),
            (r#"{"type":"function","function":{"name":"x"}}"#, Client),
            (r#"{"type":"bash_20250124","name":"bash"}"#, Client),
            (r#"{"type":"text_editor_20250728"}"#, Client),
            (r#"{"type":"computer_20251124"}"#, Client),
            (r#"{"type":"memory_20250818"}"#, Client),
            (r#"{"type":"browser_toolset_20260801"}"#, Client),
            (r#"{"type":"local_shell"}"#, Client),
            (r#"{"type":"apply_patch"}"#, Client),
            (r#"{"type":"shell","environment":{"type":"local"}}"#, Client),
            (r#"{"type":"computer_use_preview"}"#, Client),
            (r#"{"type":"namespace","tools":[]}"#, Group),
            (r#"{"type":"tool_search_tool_bm25_20251119"}"#, Contained),
            (r#"{"type":"tool_search"}"#, Contained),
            (r#"{"type":"image_generation"}"#, Contained),
            (r#"{"type":"web_search_20250305","name":"web_search"}"#, Vendor(WebSearch)),
            (r#"{"type":"web_search_29990101"}"#, Vendor(WebSearch)),
            (r#"{"type":"web_search_preview_2025_03_11"}"#, Vendor(WebSearch)),
            (r#"{"type":"web_search"}"#, Vendor(WebSearch)),
            (r#"{"\u0074ype":"web\u005fsearch"}"#, Vendor(WebSearch)),
            (r#"{"type":"web_fetch_20250910"}"#, Vendor(WebFetch)),
            (r#"{"type":"mcp_toolset"}"#, Vendor(Mcp)),
            (r#"{"type":"mcp"}"#, Vendor(Mcp)),
            (r#"{"type":"code_execution_20250522"}"#, Vendor(CodeExecution)),
            (r#"{"type":"code_interpreter"}"#, Vendor(CodeExecution)),
            (r#"{"type":"shell"}"#, Vendor(CodeExecution)),
            (r#"{"type":"shell","environment":{"type":"container_auto"}}"#, Vendor(CodeExecution)),
            (r#"{"type":"bash_code_execution_20250825"}"#, Vendor(Other)),
            (r#"{"type":"browser_20990101"}"#, Vendor(Other)),
            (r#"{"type":"Function","name":"x"}"#, Vendor(Other)),
            (r#"{"type":["function"],"name":"x"}"#, Vendor(Other)),
            (r#"{"type":"function","name":"x","google_search":{}}"#, Vendor(WebSearch)),
            (r#"{"name":"x","urlContext":{}}"#, Vendor(WebFetch)),
            ("{}", Vendor(Other)),
            (r#"{"name":["x"]}"#, Vendor(Other)),
        ] {
            let tool_object = Object::read(serde_json::from_str(tool).unwrap());
            assert_eq!(runner(&tool_object.ok().unwrap()), expected, "{tool}");
        }
    }
}
