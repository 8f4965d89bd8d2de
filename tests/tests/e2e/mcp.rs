//! A real MCP server on the host, and the real Claude Code that calls its tools.

use e2e_tests::bed::Bed;
use sandbox::{Mount, Network, NetworkSandboxConfig, Prompt, TaskSpec};

use super::services::Server;

/// Claude Code in a work tree that says where the server `mcp` is.
fn task(bed: &Bed, server: &Server, rules: &str) -> TaskSpec {
    let workspace = bed.folder().join("workspace");
    std::fs::create_dir_all(&workspace).expect("a folder");
    let servers = r#"{"mcpServers": {"mcp": {"type": "http", "url": "http://mcp:8080/mcp"}}}"#;
    std::fs::write(workspace.join(".mcp.json"), servers).expect("our own folder");
    let policy = format!("domains: [api.anthropic.com]\nurl_prefixes: [{rules}]");
    let policy = allowlist::Allowlist::from_yaml(&policy, "test.yaml").expect("a good allowlist");
    let service = server.service("mcp").port(8080).expect("a good port").http();
    let network = NetworkSandboxConfig::new(policy).services([service]).expect("good services");
    bed.agent()
        .network(Network::Sandboxed(network))
        .mount(Mount::read_only_at(&workspace, "/workspace"))
        .working_dir("/workspace")
}

/// What Claude Code says at the end, and the network log.
async fn called(bed: &Bed, server: &Server, rules: &str) -> (String, String) {
    let task = bed.sandbox.create_task(task(bed, server, rules)).expect("a good task");
    let result =
        task.execute(Prompt::new("scenario:mcp\nmessage: heliotrope")).await.expect("the sandbox works");
    let path = bed.folder().join("network-sandbox.log");
    let log = std::fs::read_to_string(&path).expect("a log");
    std::fs::remove_file(path).expect("our own folder");
    (format!("{} {:?}", result.response_text, result.error_summary), log)
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_calls_a_tool_of_a_server_on_the_host_as_far_as_the_policy_allows() {
    let bed = Bed::new().await;
    let server = Server::mcp();
    let (said, log) = called(&bed, &server, "{host: mcp, path: /mcp}").await;
    assert!(said.starts_with("The tool printed: Echo: heliotrope"), "{said}\n{log}");
    assert!(log.contains("allowed POST http://mcp/mcp -> 200"), "{log}");
    assert!(!log.contains("BLOCKED"), "{log}");
    // Control: another path, or only to look, is not enough to call anything.
    for rules in ["{host: mcp, path: /other}", "{host: mcp, path: /mcp, methods: [GET]}"] {
        let (said, log) = called(&bed, &server, rules).await;
        assert!(!said.contains("Echo: heliotrope"), "{rules}: {said}\n{log}");
        assert!(log.contains("BLOCKED POST http://mcp:8080/mcp -> 403"), "{rules}: {log}");
        assert!(!log.contains("allowed POST http://mcp"), "{rules}: {log}");
    }
    bed.close().await;
}
