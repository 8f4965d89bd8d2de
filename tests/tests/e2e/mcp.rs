//! A real MCP server on the host, and the real Claude Code that calls its tools.

use e2e_tests::fixture::Fixture;
use sandbox::{Mount, Network, NetworkSandboxConfig, Prompt, TaskSpec};

use super::services::Server;

/// Claude Code in a work tree that configures the server `mcp`.
fn task(fixture: &Fixture, server: &Server, rules: &str) -> TaskSpec {
    let workspace = fixture.folder().join("workspace");
    std::fs::create_dir_all(&workspace).expect("a folder");
    let servers = r#"{"mcpServers": {"mcp": {"type": "http", "url": "http://mcp:8080/mcp"}}}"#;
    std::fs::write(workspace.join(".mcp.json"), servers).expect("our own folder");
    let policy = format!("domains: [api.anthropic.com]\nurl_prefixes: [{rules}]");
    let policy = allowlist::Allowlist::from_yaml(&policy, "test.yaml").expect("a good allowlist");
    let service = server.service("mcp").port(8080).expect("a good port").http();
    let network = NetworkSandboxConfig::new(policy).services([service]).expect("good services");
    fixture
        .agent()
        .network(Network::Sandboxed(network))
        .mount(Mount::read_only_at(&workspace, "/workspace"))
        .working_dir("/workspace")
}

/// The response of Claude Code, and the network log.
async fn called(fixture: &Fixture, server: &Server, rules: &str) -> (String, String) {
    let task = fixture.sandbox.create_task(task(fixture, server, rules)).expect("a good task");
    let result =
        task.execute(Prompt::new("scenario:mcp\nmessage: heliotrope")).await.expect("the sandbox works");
    let path = fixture.folder().join("network-sandbox.log");
    let log = std::fs::read_to_string(&path).expect("a log");
    std::fs::remove_file(path).expect("our own folder");
    (format!("{} {:?}", result.response_text, result.error_summary), log)
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_calls_a_tool_on_the_host_only_as_permitted() {
    let fixture = Fixture::new().await;
    let server = Server::mcp();
    let (said, log) = called(&fixture, &server, "{host: mcp, path: /mcp}").await;
    assert!(said.starts_with("The tool printed: Echo: heliotrope"), "{said}\n{log}");
    assert!(log.contains("allowed POST http://mcp/mcp -> 200"), "{log}");
    assert!(!log.contains("BLOCKED"), "{log}");
    // The control: permission for another path, or only for reading, is not enough for a call.
    for rules in ["{host: mcp, path: /other}", "{host: mcp, path: /mcp, methods: [GET]}"] {
        let (said, log) = called(&fixture, &server, rules).await;
        assert!(!said.contains("Echo: heliotrope"), "{rules}: {said}\n{log}");
        assert!(log.contains("BLOCKED POST http://mcp:8080/mcp -> 403"), "{rules}: {log}");
        assert!(!log.contains("allowed POST http://mcp"), "{rules}: {log}");
    }
    fixture.close().await;
}
