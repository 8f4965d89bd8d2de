//! Tools that a model's vendor runs on its side: the real Claude Code with its web search, and
//! hostile requests for them.

use e2e_tests::assert_held;
use e2e_tests::fixture::{Fixture, network};
use sandbox::{Outcome, Prompt};

const NONE: &str = "domains: [api.anthropic.com]";
const REFUSE: &str = "domains: [api.anthropic.com]\nvendor_tools: {denied: refuse}";
const SEARCH: &str = "domains: [api.anthropic.com]\nvendor_tools: {web_search: any}";
const ANY: &str = "domains: [api.anthropic.com]\nvendor_tools: {web_search: any, web_fetch: any, mcp: any, code_execution: any, \
                   files_by_url: any, other: any}";

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_continues_without_a_forbidden_search() {
    for (policy, seen, line) in [
        (NONE, "The request has no tools", "-> 200 [removed: web_search]"),
        (REFUSE, "runs at the model's vendor", "-> 403 [reason: vendor_tool]"),
        (SEARCH, "The request has the tools: web_search_2", ""),
    ] {
        let fixture = Fixture::new().await;
        let task =
            fixture.sandbox.create_task(fixture.agent().network(network(policy))).expect("a good task");
        let result = task.execute(Prompt::new("scenario:web-search")).await.expect("the sandbox works");
        let log = std::fs::read_to_string(fixture.folder().join("network-sandbox.log")).expect("a log");
        assert_eq!(result.outcome, Outcome::Success, "{:?}\n{log}", result.error_summary);
        assert!(result.response_text.starts_with("The tool printed: "), "{}\n{log}", result.response_text);
        assert!(result.response_text.contains(seen), "{policy}: {}\n{log}", result.response_text);
        let logged = log.lines().any(|other| !line.is_empty() && other.ends_with(line));
        assert_eq!(logged, !line.is_empty(), "{log}");
        assert_eq!(log.contains("vendor_tool") || log.contains("removed"), logged, "{log}");
        fixture.close().await;
    }
}

/// Requests for tools that reach the web, and requests that cannot be parsed, each with its result
/// under a policy without such tools.
const HOSTILE: &str = r#"
ask() { printf '%s ' "$1"; shift; curl -sS --max-time 120 -o answer -w '%{http_code}\n' -H 'content-type: application/json' "$@"; }
messages=https://api.anthropic.com/v1/messages
search='{"type":"web_search_20250305","name":"web_search"}'
end='"messages":[{"role":"user","content":"hello"}]}'
ask plain -d "{$end" "$messages"
ask doubled -d "{\"tools\":[],\"tools\":[$search],$end" "$messages"
ask escaped -d "{\"tools\":[],\"t\\u006fols\":[$search],$end" "$messages"
ask case -d "{\"tools\":[],\"Tools\":[$search],$end" "$messages"
ask nested -d '{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"document","source":{"type":"url","url":"https://evil.test/"}}]}]}]}' "$messages"
ask added -d '{"messages":[{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"web_fetch_20250910"}}}]}]}' "$messages"
ask batch -d '{"requests":[{"params":{"tools":[],"tools":[{"type":"web_search_20250305"}]}}]}' "$messages/batches"
ask beta -H 'anthropic-beta: mcp-client-2025-11-20' -d "{\"tools\":{},\"tools\":[{\"type\":\"mcp_toolset\"}],$end" "$messages"
printf '%s' "{$end" | gzip > body.gz
ask gzip -H 'content-encoding: gzip' --data-binary @body.gz "$messages"
ask other-type -H 'content-type: text/plain' -d "{$end" "$messages"
ask garbage -d "{$end []" "$messages"
ask slashes -d "{\"tools\":[],\"tools\":[$search],$end" --path-as-is 'https://api.anthropic.com//v1/messages/'
ask sessions -d '{}' https://api.anthropic.com/v1/sessions
{ printf '{"system":"'; head -c 31457280 /dev/zero | tr '\0' x; printf '","tools":[{"type":"x"},{"type":"x","type":"mcp"}],%s' "$end"; } > large
ask large --data-binary @large "$messages"
{ printf '{"system":"'; head -c 31457280 /dev/zero | tr '\0' x; printf '",%s' "$end"; } > large
ask large-plain --data-binary @large "$messages"
ask removed -d "{\"tools\":[$search],$end" "$messages"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn hostile_requests_fail_closed() {
    let fixture = Fixture::new().await;
    for (policy, open) in [(NONE, false), (ANY, true)] {
        let ran = fixture.run(policy, HOSTILE).await;
        let lines: Vec<(&str, &str)> = ran.stdout.lines().filter_map(|line| line.split_once(' ')).collect();
        assert_eq!(lines.len(), 16, "{}\n{}", ran.stdout, ran.stderr);
        for (name, status) in lines {
            let passes = open || ["plain", "large-plain", "removed"].contains(&name);
            // The fake API knows few paths, and answers others with 404.
            assert_held!(passes || status != "200", "{name} {status} under {policy}\n{}", ran.log);
            assert_eq!(status != "403", passes, "{name} {status} under {policy}\n{}", ran.log);
        }
        let removed = ran.log.lines().filter(|line| line.ends_with("[removed: web_search]")).count();
        assert_eq!(removed, usize::from(!open), "{}", ran.log);
    }
    fixture.close().await;
}
