//! Bodies: removed parts, refusals, and unchanged bodies.

use proptest::prelude::*;

use super::*;

/// Allows no vendor tool.
const NONE: &str = "domains: [a.example]";
const POLICY: &str = "
domains: [a.example, '*.a.example', b.example]
url_prefixes: [{host: mcp.example, path: /mcp, methods: [POST]}]
vendor_tools: {web_search: policy, web_fetch: policy, mcp: policy, files_by_url: policy}";
const REFUSE: &str = "{vendor_tools: {denied: refuse}}";
const ANY: &str = "vendor_tools: {web_search: any, web_fetch: any, mcp: any, code_execution: any, files_by_url: any, other: any}";

fn policy(text: &str) -> Allowlist {
    Allowlist::from_yaml(text, "policy.yaml").unwrap()
}

fn run(api: Api, rules: &str, body: &str) -> Result<(String, String), String> {
    let reviewed = review(body.as_bytes(), api, &policy(rules)).map_err(|denial| {
        assert_eq!(denial.reason(), Reason::VendorTool);
        denial.message().to_owned()
    })?;
    let names: Vec<&str> = reviewed.removed.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(reviewed.body.is_some(), !names.is_empty(), "{body}");
    let after = reviewed.body.map_or_else(|| body.to_owned(), |body| String::from_utf8(body).unwrap());
    // A second review removes nothing.
    let again = review(after.as_bytes(), api, &policy(rules)).unwrap();
    assert_eq!(again, Reviewed { body: None, removed: Vec::new() }, "{after}");
    Ok((after, names.join(" ")))
}

/// `after` is `None` for a body that is unchanged.
fn check(api: Api, rules: &str, body: &str, after: Option<&str>, removed: &str) {
    let expected = Ok((after.unwrap_or(body).to_owned(), removed.to_owned()));
    assert_eq!(run(api, rules, body), expected, "{body}");
    if !removed.is_empty() {
        let message = run(api, &rules.replace("vendor_tools: {", "vendor_tools: {denied: refuse, "), body);
        let message = if rules == NONE { run(api, REFUSE, body) } else { message }.unwrap_err();
        assert!(removed.split(' ').any(|kind| message.contains(&format!("`{kind}` runs"))), "{message}");
    }
    let any = run(api, ANY, body);
    assert_eq!(any, Ok((body.to_owned(), String::new())), "control: {body}");
}

fn refused(api: Api, rules: &str, body: &str, words: &str) {
    let message = run(api, rules, body).expect_err(body);
    assert!(message.contains(words), "{body}: {message}");
}

#[test]
fn messages() {
    let anthropic = |body, after, removed| check(Api::Anthropic, NONE, body, after, removed);
    anthropic(
        r#"{"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":8}]}"#,
        Some("{}"),
        "web_search",
    );
    anthropic(
        r#"{"model":"m", "tools":[{"name":"x","input_schema":{"tools":[{"type":"mcp"}]}},{"type":"web_search_20250305","name":"web_search"} ], "n":1.0e+2}"#,
        Some(
            r#"{"model":"m", "tools":[{"name":"x","input_schema":{"tools":[{"type":"mcp"}]}} ], "n":1.0e+2}"#,
        ),
        "web_search",
    );
    anthropic(
        r#"{"tools":[{"type":"web_fetch_20250910","name":"web_fetch"},{"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"tool","name":"web_fetch"},"z":0}"#,
        Some(r#"{"tools":[{"type":"bash_20250124","name":"bash"}],"z":0}"#),
        "web_fetch",
    );
    anthropic(
        r#"{"tools":[{"type":"web_fetch_20250910","name":"web_fetch"},{"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"tool","name":"bash"}}"#,
        Some(
            r#"{"tools":[{"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"tool","name":"bash"}}"#,
        ),
        "web_fetch",
    );
    anthropic(
        r#"{"a":1,"tools":[{"type":"new_thing_20990101"}],"tool_choice":{"type":"any"}}"#,
        Some(r#"{"a":1}"#),
        "other",
    );
    anthropic(
        r#"{"mcp_servers":[{"type":"url","url":"https://a.example/","name":"n"}],"tools":[{"type":"mcp_toolset","mcp_server_name":"n"},{"name":"f"}]}"#,
        Some(r#"{"tools":[{"name":"f"}]}"#),
        "mcp",
    );
    anthropic(
        r#"{"container":{"skills":[{"type":"custom","skill_id":"s"}]},"tools":[{"type":"code_execution_20250825","name":"code_execution"}]}"#,
        Some("{}"),
        "code_execution",
    );
    anthropic(
        r#"{"requests":[{"custom_id":"1","params":{"tools":[{"type":"web_search_20250305"}],"messages":[]}},{"params":{"mcp_servers":[{"url":"x"}]}}]}"#,
        Some(r#"{"requests":[{"custom_id":"1","params":{"messages":[]}},{"params":{}}]}"#),
        "web_search mcp",
    );
    anthropic(
        r#"{"fallbacks":[{"model":"m","tools":[{"type":"web_search_20250305"}]}]}"#,
        Some(r#"{"fallbacks":[{"model":"m"}]}"#),
        "web_search",
    );
    anthropic(r#"{"\u0074ools":[{"\u0074ype":"web_search_20250305"}]}"#, Some("{}"), "web_search");
    anthropic(r#"{"Tools":[{"Type":"web_search_20250305"}]}"#, Some("{}"), "web_search");
    anthropic(r#"{"tools":{"type":"web_search_20250305"},"a":[]}"#, Some(r#"{"a":[]}"#), "web_search");
}

#[test]
fn body_without_vendor_tools_is_unchanged() {
    for body in [
        r#"{"tools":null,"tool_choice":null,"container":null,"mcp_servers":null}"#,
        r#"{"tools":[],"tool_choice":{"type":"auto"}}"#,
        r#"{"tools":[{"type":"tool_search_tool_regex_20251119","name":"tool_search_tool_regex"},{"type":"custom","name":"web_search"}]}"#,
        r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"x","input":{"tools":[{"type":"mcp"}],"image_url":"http://x/"}}]}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"web_search_tool_result","content":[{"type":"web_search_result","url":"https://x/","title":"t"}]}]}]}"#,
        r#"{"messages":[{"role":"user","content":"see https://x.example/ and \"tools\":[{\"type\":\"mcp\"}]"}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]}"#,
        r#"{"metadata":{"user_id":"u","url":"http://x/"},"output_config":{"format":{"type":"json_schema","schema":{"properties":{"image_url":{}}}}}}"#,
        "",
        " \n",
        " { } ",
        r#"{"n":[1e999,-0,0.10,123456789012345678901234567890],"t":"\ud83d\ude00"}"#,
    ] {
        if body.trim().is_empty() {
            assert_eq!(run(Api::Anthropic, NONE, body), Ok((body.to_owned(), String::new())));
        } else {
            check(Api::Anthropic, NONE, body, None, "");
        }
    }
}

#[test]
fn tool_that_cannot_be_removed_is_refused() {
    use Api::{Anthropic, Gemini, OpenAi};
    for (api, body, words) in [
        (
            Anthropic,
            r#"{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://b.example/x"}}]}]}"#,
            "files_by_url",
        ),
        (
            Anthropic,
            r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"document","source":{"url":"https://x/"}}]}]}]}"#,
            "files_by_url",
        ),
        (
            Anthropic,
            r#"{"system":[{"type":"document","source":{"type":"URL","url":"https://x/"}}]}"#,
            "files_by_url",
        ),
        (
            Anthropic,
            r#"{"messages":[{"content":[{"type":"x","deep":[[{"type":"url","url":" https://x/"}]]}]}]}"#,
            "files_by_url",
        ),
        (
            Anthropic,
            r#"{"messages":[{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"web_fetch_20250910"}}}]}]}"#,
            "`web_fetch` runs",
        ),
        (Anthropic, r#"{"definition":[[{"type":"web_fetch_20250910"}]]}"#, "`web_fetch` runs"),
        // A type that has a meaning elsewhere hides nothing.
        (
            Anthropic,
            r#"{"type":"web_search_call","input":1,"action":{"image_url":"https://x/"}}"#,
            "files_by_url",
        ),
        (
            OpenAi,
            r#"{"type":"tool_use","input":[{"content":[{"type":"input_image","image_url":"https://x/"}]}]}"#,
            "files_by_url",
        ),
        (
            OpenAi,
            r#"{"input":[{"content":[{"type":"input_file","file_url":"https://x/"}]}]}"#,
            "files_by_url",
        ),
        (
            OpenAi,
            r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://x/"}}]}]}"#,
            "files_by_url",
        ),
        (
            OpenAi,
            r#"{"messages":[{"content":[{"type":"image_url","image_url":{"\u0075rl":"https://x/"}}]}]}"#,
            "files_by_url",
        ),
        (OpenAi, r#"{"input":[{"content":[{"image_url":["https://x/"]}]}]}"#, "files_by_url"),
        (OpenAi, r#"{"prompt":{"id":"pmpt_1"}}"#, "a stored prompt"),
        (OpenAi, r#"{"model":"gpt-4o-search-preview"}"#, "this model"),
        (OpenAi, r#"{"model":"o3-deep-research"}"#, "this model"),
        (
            Gemini,
            r#"{"contents":{"parts":{"fileData":{"fileUri":"https://www.youtube.com/watch?v=1"}}}}"#,
            "files_by_url",
        ),
        (Gemini, r#"{"contents":[{"parts":[{"file_data":{"file_uri":"gs://x/y"}}]}]}"#, "files_by_url"),
        (
            Gemini,
            r#"{"contents":[{"parts":[{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/../x"}}]}]}"#,
            "files_by_url",
        ),
        (Gemini, r#"{"batch":{"input_config":{"file_name":"files/x"}}}"#, "a file of requests"),
    ] {
        refused(api, NONE, body, words);
        check(api, ANY, body, None, "");
    }
}

#[test]
fn ambiguous_body_is_refused() {
    let deep = format!("{{\"messages\":{}{}}}", "[".repeat(100), "]".repeat(100));
    for (body, words) in [
        ("nonsense", "is not JSON"),
        ("[]", "not a JSON object"),
        ("\"x\"", "not a JSON object"),
        ("{} {}", "is not JSON"),
        ("{}\0", "is not JSON"),
        ("\u{feff}{}", "is not JSON"),
        ("{'a':1}", "is not JSON"),
        ("{\"a\":1,}", "is not JSON"),
        ("{\"a\":NaN}", "is not JSON"),
        ("{/**/}", "is not JSON"),
        (r#"{"tools":[],"tools":[{"type":"mcp"}]}"#, "`tools` twice"),
        (r#"{"tools":[],"t\u006fols":[{"type":"mcp"}]}"#, "`tools` twice"),
        (r#"{"tools":[],"Tools":[{"type":"mcp"}]}"#, "`Tools` twice"),
        (r#"{"tools":[{"type":"function","type":"mcp"}]}"#, "`type` twice"),
        (r#"{"messages":[{"content":[{"a":{"source":1,"source":{}}}]}]}"#, "`source` twice"),
        (r#"{"\ud800":1}"#, "is not JSON"),
        (r#"{"tools":"x"}"#, "not a list"),
        (r#"{"tools":["web_search"]}"#, "not an object"),
        (r#"{"tools":[[{"type":"mcp"}]]}"#, "not an object"),
        (r#"{"mcp_servers":{"a":1}}"#, "not a list"),
        (deep.as_str(), "too deeply"),
    ] {
        for rules in [NONE, POLICY, REFUSE] {
            refused(Api::Anthropic, rules, body, words);
        }
    }
    let many = |open: &str, part: &str, close: &str| format!("{open}{}{close}", part.repeat(10_001));
    refused(Api::OpenAi, NONE, &many("{\"tools\":[", "{\"type\":\"mcp\"},", "{}]}"), "10,000");
    let keys = (0..10_001).map(|key| format!("\"k{key}\":1")).collect::<Vec<_>>().join(",");
    refused(Api::OpenAi, NONE, &format!("{{{keys}}}"), "10,000");
    assert!(run(Api::OpenAi, NONE, &many("{\"input\":[", "{},", "{}]}")).is_ok());
    assert!(review(b"{\"a\":\"\xff\"}", Api::OpenAi, &policy(NONE)).is_err());
    assert!(
        review(
            &"{\"a\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
            Api::OpenAi,
            &policy(NONE)
        )
        .is_err()
    );
    let large = |size: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(size - 8));
    assert!(review(large(BODY_LIMIT).as_bytes(), Api::OpenAi, &policy(NONE)).is_ok());
    refused(Api::OpenAi, NONE, &large(BODY_LIMIT + 1), "32 MiB");
}

#[test]
fn responses_and_completions() {
    let openai = |body, after, removed| check(Api::OpenAi, NONE, body, after, removed);
    for kind in ["web_search", "web_search_preview", "web_search_preview_2025_03_11", "web_search_2025_08_26"]
    {
        let body = format!(r#"{{"tools":[{{"type":"{kind}"}}],"parallel_tool_calls":true}}"#);
        check(Api::OpenAi, NONE, &body, Some("{}"), "web_search");
    }
    openai(
        r#"{"tools":[{"type":"mcp","server_label":"l","server_url":"https://a.example/"},{"type":"code_interpreter","container":{"type":"auto"}},{"type":"function","name":"f","parameters":{"type":"object","type":"x"}}],"tool_choice":{"type":"mcp","server_label":"l"}}"#,
        Some(r#"{"tools":[{"type":"function","name":"f","parameters":{"type":"object","type":"x"}}]}"#),
        "mcp code_execution",
    );
    openai(r#"{"web_search_options":{},"model":"m"}"#, Some(r#"{"model":"m"}"#), "web_search");
    openai(
        r#"{"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"mcp"},{"type":"custom","name":"c"}]}]}"#,
        Some(
            r#"{"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"custom","name":"c"}]}]}"#,
        ),
        "mcp",
    );
    openai(
        r#"{"tools":[{"type":"namespace","name":"n","tools":[{"type":"web_search"},{"type":"function","name":"f"}]}]}"#,
        Some(r#"{"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]}"#),
        "web_search",
    );
    openai(
        r#"{"tools":[{"type":"shell","environment":{"type":"container_auto"}}]}"#,
        Some("{}"),
        "code_execution",
    );
    openai(
        r#"{"input":[{"type":"web_search_call","action":{"type":"search","sources":[{"type":"url","url":"https://x/"}]}},{"content":[{"type":"output_text","annotations":[{"type":"url_citation","url":"https://x/"}]}]}]}"#,
        None,
        "",
    );
    openai(
        r#"{"input":[{"content":[{"type":"input_image","image_url":"data:image/png;base64,aGk="}]}],"store":false,"background":true}"#,
        None,
        "",
    );
    openai(
        r#"{"extra_body":{"google":{"tools":[{"googleSearch":{}}]}}}"#,
        Some(r#"{"extra_body":{"google":{}}}"#),
        "web_search",
    );
}

#[test]
fn gemini() {
    let gemini = |body, after, removed| check(Api::Gemini, NONE, body, after, removed);
    gemini(
        r#"{"tools":[{"google_search":{}},{"googleSearch":{}}],"toolConfig":{}}"#,
        Some("{}"),
        "web_search",
    );
    gemini(
        r#"{"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{}}],"urlContext":{}, "codeExecution":{}}]}"#,
        Some(r#"{"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{}}]}]}"#),
        "web_fetch code_execution",
    );
    gemini(r#"{"tools":{"url_context":{}}}"#, Some("{}"), "web_fetch");
    gemini(
        r#"{"tools":[{"mcpServers":[{"name":"n","streamableHttpTransport":{"url":"https://a.example/"}}]}]}"#,
        Some("{}"),
        "mcp",
    );
    gemini(
        r#"{"tools":[{"newThing":{}},{"fileSearch":{}}]}"#,
        Some(r#"{"tools":[{"fileSearch":{}}]}"#),
        "other",
    );
    gemini(
        r#"{"batch":{"requests":{"requests":[{"request":{"tools":[{"google_maps":{}}]}}]}}}"#,
        Some(r#"{"batch":{"requests":{"requests":[{"request":{}}]}}}"#),
        "web_search",
    );
    gemini(
        r#"{"contents":[{"parts":[{"functionCall":{"args":{"tools":1}}},{"functionResponse":{"response":{"image_url":"http://x/"}}},{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/abc-1"}}]}]}"#,
        None,
        "",
    );
    refused(
        Api::Gemini,
        NONE,
        r#"{"contents":[{"parts":[{"fileData":{"fileUri":1,"file_uri":2}}]}]}"#,
        "twice",
    );
}

#[test]
fn tool_limited_to_the_policy_is_allowed() {
    use Api::{Anthropic, Gemini, OpenAi};
    for (api, body, removed) in [
        (Anthropic, r#"{"tools":[{"type":"web_search_20250305","allowed_domains":["a.example"]}]}"#, ""),
        (
            Anthropic,
            r#"{"tools":[{"type":"web_fetch_20250910","allowed_domains":["x.a.example/docs"]}]}"#,
            "",
        ),
        (
            Anthropic,
            r#"{"tools":[{"type":"web_fetch_20250910","allowed_domains":["b.example"]}]}"#,
            "web_fetch",
        ),
        (Anthropic, r#"{"tools":[{"type":"web_fetch_20250910"}]}"#, "web_fetch"),
        (
            Anthropic,
            r#"{"tools":[{"type":"web_fetch_20250910","allowed_domains":null,"blocked_domains":["x"]}]}"#,
            "web_fetch",
        ),
        (OpenAi, r#"{"tools":[{"type":"web_search","filters":{"allowed_domains":["a.example"]}}]}"#, ""),
        (
            OpenAi,
            r#"{"tools":[{"type":"web_search","filters":{"allowed_domains":["a.example"]},"allowed_domains":["c"]}]}"#,
            "web_search",
        ),
        (
            OpenAi,
            r#"{"tools":[{"type":"web_search_preview","filters":{"allowed_domains":["a.example"]}}]}"#,
            "web_search",
        ),
        (OpenAi, r#"{"web_search_options":{"filters":{"allowed_domains":["a.example"]}}}"#, "web_search"),
        (OpenAi, r#"{"tools":[{"type":"mcp","server_url":"https://mcp.example/mcp"}]}"#, ""),
        (OpenAi, r#"{"tools":[{"type":"mcp","server_url":"https://mcp.example/other"}]}"#, "mcp"),
        (
            OpenAi,
            r#"{"tools":[{"type":"mcp","server_url":"https://mcp.example/mcp","connector_id":"connector_gmail"}]}"#,
            "mcp",
        ),
        (OpenAi, r#"{"tools":[{"type":"mcp","connector_id":"connector_gmail"}]}"#, "mcp"),
        (OpenAi, r#"{"tools":[{"type":"code_interpreter"}]}"#, "code_execution"),
        (
            Anthropic,
            r#"{"mcp_servers":[{"type":"url","url":"https://mcp.example/mcp","name":"n"}],"tools":[{"type":"mcp_toolset","mcp_server_name":"n"}]}"#,
            "",
        ),
        (Anthropic, r#"{"tools":[{"type":"mcp_toolset","mcp_server_name":"n"}]}"#, "mcp"),
        (
            Gemini,
            r#"{"tools":[{"mcpServers":[{"streamableHttpTransport":{"url":"https://mcp.example/mcp"}}]}]}"#,
            "",
        ),
        (Gemini, r#"{"tools":[{"googleSearch":{}}]}"#, "web_search"),
        (Gemini, r#"{"tools":[{"urlContext":{}}]}"#, "web_fetch"),
    ] {
        let after = (!removed.is_empty()).then_some("{}");
        check(api, POLICY, body, after, removed);
    }
    check(
        Anthropic,
        POLICY,
        r#"{"mcp_servers":[{"url":"https://mcp.example/mcp","name":"n"},{"url":"https://evil.example/","name":"e"}],"tools":[{"type":"mcp_toolset","mcp_server_name":"n"},{"type":"mcp_toolset","mcp_server_name":"e"}]}"#,
        Some(
            r#"{"mcp_servers":[{"url":"https://mcp.example/mcp","name":"n"}],"tools":[{"type":"mcp_toolset","mcp_server_name":"n"}]}"#,
        ),
        "mcp",
    );
    let image = |url: &str| format!(r#"{{"input":[{{"image_url":"{url}"}}]}}"#);
    check(OpenAi, POLICY, &image("https://b.example/x.png"), None, "");
    for url in ["https://c.example/x.png", "https://mcp.example/mcp", "//b.example/", "ftp://b.example/", ""]
    {
        refused(OpenAi, POLICY, &image(url), "allow its URL too");
    }
}

fn json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just("web_search_20250305"),
        Just("web_fetch_20250910"),
        Just("mcp"),
        Just("function"),
        Just("custom"),
        Just("url"),
        Just("https://x.example/"),
        Just("data:x"),
        Just("tool_use"),
        Just("x"),
        Just("shell"),
        Just("namespace"),
    ];
    let leaf = prop_oneof![Just(Value::Null), any::<i32>().prop_map(Value::from), text.prop_map(Value::from)];
    let key = prop_oneof![
        Just("tools"),
        Just("type"),
        Just("url"),
        Just("source"),
        Just("image_url"),
        Just("content"),
        Just("name"),
        Just("messages"),
        Just("mcp_servers"),
        Just("tool_choice"),
        Just("container"),
        Just("a"),
        Just("file_uri"),
        Just("definition"),
        Just("Tools"),
        Just("web_search_options"),
        Just("google_search"),
        Just("functionDeclarations"),
        Just("model"),
    ];
    leaf.prop_recursive(6, 60, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..6).prop_map(|pairs| {
                Value::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

/// A vendor tool or file in `value`, found by a method independent of the walk.
fn offence(value: &Value, key: &str) -> Option<String> {
    match value {
        Value::Array(items) => items.iter().find_map(|item| offence(item, key)),
        Value::String(text) if matches!(key, "image_url" | "file_uri") && text != "data:x" => {
            Some(text.clone())
        }
        Value::Object(object) => {
            let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
            let is_file = matches!(key, "source" | "image_url" | "file_uri") || kind == "url";
            if is_file && object.get("url").is_some_and(|url| url.is_string() && url != "data:x") {
                return Some(format!("{value}"));
            }
            for (name, value) in object {
                if matches!(name.as_str(), "mcp_servers" | "container" | "web_search_options")
                    && !value.is_null()
                    && !value.as_array().is_some_and(Vec::is_empty)
                {
                    return Some(name.clone());
                }
                if matches!(name.as_str(), "tool_choice") {
                    continue;
                }
                if matches!(name.as_str(), "tools" | "Tools" | "definition") {
                    let items = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
                    for item in items.iter().filter_map(Value::as_object) {
                        let kind = item.get("type").filter(|kind| !kind.is_null());
                        let client = kind.is_none_or(|kind| {
                            matches!(kind.as_str(), Some("function" | "custom" | "namespace"))
                        }) && !item.contains_key("google_search")
                            && !item.contains_key("mcp_servers");
                        if !client {
                            return Some(format!("{item:?}"));
                        }
                        if kind.is_some_and(|kind| kind == "namespace") {
                            return offence(&Value::Object(item.clone()), "");
                        }
                    }
                } else if let Some(found) = offence(value, name) {
                    return Some(found);
                }
            }
            None
        }
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn body_that_passes_has_no_vendor_tool(value in json()) {
        for api in [Api::Anthropic, Api::OpenAi] {
            let body = value.to_string();
            let Ok(reviewed) = review(body.as_bytes(), api, &policy(NONE)) else { continue };
            let unchanged = reviewed.body.is_none();
            prop_assert_eq!(unchanged, reviewed.removed.is_empty());
            let after = reviewed.body.unwrap_or_else(|| body.into_bytes());
            let after: Value = serde_json::from_slice(&after).unwrap();
            prop_assert_eq!(unchanged, after == value);
            prop_assert_eq!(offence(&after, ""), None, "{}", after);
        }
    }

    #[test]
    fn body_is_unchanged_if_everything_is_allowed(value in json()) {
        if let Ok(reviewed) = review(value.to_string().as_bytes(), Api::Anthropic, &policy(ANY)) {
            prop_assert_eq!(reviewed, Reviewed { body: None, removed: Vec::new() });
        }
    }

    #[test]
    fn arbitrary_bytes_get_a_decision(body in proptest::collection::vec(any::<u8>(), 0..60), text in "[{}\\[\\]\":,a-z0\\\\]{0,40}") {
        for api in [Api::Anthropic, Api::OpenAi, Api::Gemini] {
            let _ = review(&body, api, &policy(NONE));
            let _ = review(text.as_bytes(), api, &policy(NONE));
        }
    }
}
