//! Errors that only YAML can contain, with their positions: `json::tests` has those of both
//! formats.

use crate::Allowlist;
use crate::UrlRule;
use proptest::prelude::*;

fn check(text: &str, line: usize, column: usize, words: &str) {
    let error = Allowlist::from_yaml(text, "policy.yaml").expect_err(text);
    assert_eq!((error.line(), error.column()), (line, column), "{text:?}: {error}");
    assert!(error.message().contains(words), "{text:?}: {error}");
    assert_eq!(error.to_string(), format!("policy.yaml:{line}:{column}: {}", error.message()));
}

#[test]
fn wrong_types() {
    check(
        "just text\n",
        1,
        1,
        "the document must be a mapping with the keys `presets`, `deny`, `domains`, `url_prefixes`, `vendor_tools` and `budget`, not ",
    );
    check("\n\n  12\n", 3, 3, "not a number");
    check("domains:\n  - [a]\n", 2, 5, "not a list");
    check("domains:\n  - a: b\n", 2, 5, "not a mapping");
    check("domains:\n  -\n  - a\n", 2, 4, "not nothing");
    check("domains:\n  - ~\n", 2, 5, "not nothing");
    check("domains:\n  - !env HOST\n", 2, 5, "not a tagged value");
    check("domains: !x [a]\n", 1, 10, "not a tagged value");
}

#[test]
fn missing_values() {
    check("domains:\n", 1, 1, "`domains` has no value");
    check("domains: [a]\nurl_prefixes:\n", 2, 1, "`url_prefixes` has no value");
    check("url_prefixes:\n  - host:\n    path: /x\n", 2, 5, "`host` has no value");
    check("url_prefixes:\n  - host: a\n    methods:\n", 3, 5, "`methods` has no value");
}

#[test]
fn keys() {
    check(
        "domains: [a]\nextra: 1\n",
        2,
        1,
        "`presets`, `deny`, `domains`, `url_prefixes`, `vendor_tools` or `budget`",
    );
    check("url_prefixes:\n  - host: a\n    method: [GET]\n", 3, 5, "did you mean `methods`?");
    check("url_prefixes:\n  - host: a\n    git:\n", 3, 5, "`git` has no value");
    check("url_prefixes:\n  - host: a\n    git: ~\n", 3, 5, "`git` has no value");
    check("url_prefixes:\n  - host: a\n    git: true\n", 3, 10, "must be a mapping");
    check("url_prefixes:\n  - host: a\n    git: {pull: []}\n", 3, 11, "unknown key `pull`");
    check("<<: {domains: [a]}\n", 1, 1, "unknown key `<<`");
    check("1: [a]\n", 1, 1, "a key must be a text");
    check("? [a]\n: b\n", 1, 3, "a key must be a text");
    check("domains: [a]\n\ndomains: [b]\n", 3, 1, "a second time");
    check("domains: [a]\n\"domains\": [b]\n", 2, 1, "a second time");
    check("url_prefixes:\n- {host: a, host: b}\n", 2, 13, "a second time");
}

#[test]
fn rules_that_never_match() {
    check("domains:\n  - ok.example\n  - https://a.example\n", 3, 5, "no scheme");
    check("domains: [a.example/x]\n", 1, 11, "no path");
    check("domains: [a@b]\n", 1, 11, "must not contain '@'");
    check("domains: [a b]\n", 1, 11, "must not contain ' '");
    check("domains: [a..b]\n", 1, 11, "empty label");
    check("domains: ['*.1']\n", 1, 11, "a number");
    check("domains: [bü*.example]\n", 1, 11, "wildcard");
    check("url_prefixes: [{host: é, path: x}]\n", 1, 32, "begins with `/` or `*`");
    check("url_prefixes:\n  - {host: a, path: /a/../b}\n", 2, 21, "dot segment");
    check("url_prefixes:\n  - host: a\n    path: '/[a]/../*'\n", 3, 11, "no path can match");
    check("url_prefixes: [{host: a, path: /r/, git: {}}]\n", 1, 16, "does not end in `/`");
    check("url_prefixes: [{host: a, methods: [GET], git: {}}]\n", 1, 16, "not both");
    check("url_prefixes: [{host: a, git: {push: [refs/x, main]}}]\n", 1, 47, "refs in full");
    for method in ["'*'", "''", "'GET,HEAD'", "'GET POST'"] {
        check(&format!("url_prefixes: [{{host: a, methods: [GET, {method}]}}]\n"), 1, 41, "is not a method");
    }
}

#[test]
fn byte_order_mark_does_not_shift_positions() {
    check("\u{feff}domain: [a]\n", 1, 1, "unknown key");
}

#[test]
fn columns_count_characters() {
    check("domains: [é.example, 日本.example, a b]\n", 1, 34, "must not contain ' '");
}

#[test]
fn empty_document_is_an_empty_policy() {
    for text in
        ["", "\n", "# nothing\n", "---\n", "--- ~\n", "{}", "domains: []\nurl_prefixes: []\n", "\u{feff}"]
    {
        assert_eq!(Allowlist::from_yaml(text, "policy.yaml"), Ok(Allowlist::default()), "{text:?}");
    }
}

#[test]
fn anchors_and_quotes_are_supported() {
    let text = "domains: [&h 'A.Example.', \"*.b.example\"]\nurl_prefixes:\n- host: *h\n  path: /x\n  methods: &m [get]\n- {host: c, methods: *m}\n";
    let policy = Allowlist::from_yaml(text, "policy.yaml").unwrap();
    let domains: Vec<_> = policy.domains().collect();
    let rules: Vec<_> = policy.url_rules().collect();
    assert_eq!(domains[0].as_str(), "a.example");
    assert_eq!(rules[0].host().as_str(), "a.example");
    assert_eq!(rules[1], &UrlRule::new("c", "", ["GET"]).unwrap());
}

proptest! {
    #[test]
    fn arbitrary_text_gets_an_answer(text in prop_oneof![
        "\\PC{0,60}",
        "[-&*!|>{}\\[\\]:,?'\"#%@ \\n\\ta-c~.]{0,60}",
        "(domains|url_prefixes|host|path|methods|[:\\-\\n \\[\\]{}*&,/a.]){0,30}",
    ]) {
        if let Err(error) = Allowlist::from_yaml(&text, "p") {
            prop_assert!(error.line() >= 1 && error.column() >= 1);
        }
    }
}

#[test]
fn budgets() {
    check("budget: 100\n", 1, 9, "`budget` must be a mapping such as {requests: 1000, sent: 100m}");
    check("budget: {tokens: 1}\n", 1, 10, "unknown key `tokens`: use `requests`, `sent`, ");
    check("budget:\n  requests: -1\n", 2, 13, "`requests`");
    check("budget:\n  sent: much\n", 2, 9, "a size such as 512m or 4g");
    let text = "budget: {requests: 0, sent: 1.5k, received: 7}";
    let policy = Allowlist::from_yaml(text, "policy.yaml").unwrap();
    let budget = policy.budget();
    let found = (budget.requests, budget.sent, budget.received, budget.bounds_tokens());
    assert_eq!(found, (Some(0), Some(1536), Some(7), false));
    assert_eq!(Allowlist::from_json(&policy.to_json(), "policy.json").unwrap(), policy);
}

#[test]
fn vendor_tools() {
    check("vendor_tools: [a]\n", 1, 15, "`vendor_tools` must be a mapping such as");
    check("vendor_tools: any\n", 1, 15, "`vendor_tools` must be a mapping such as");
    check("vendor_tools:\n", 1, 1, "`vendor_tools` has no value");
    check("vendor_tools:\n  websearch: any\n", 2, 3, "unknown key `websearch`: did you mean `web_search`?");
    check("vendor_tools:\n  web_search: maybe\n", 2, 15, "must be `policy` or `any`, not `maybe`");
    check("vendor_tools:\n  web_search: true\n", 2, 15, "`web_search` must be");
    check("vendor_tools:\n  web_search:\n", 2, 3, "`web_search` has no value");
    check("vendor_tools: {code_execution: policy}\n", 1, 32, "`code_execution` must be `any`, not `policy`");
    check("vendor_tools: {other: policy}\n", 1, 23, "`other` must be `any`, not `policy`");
    check("vendor_tools: {denied: drop}\n", 1, 24, "`denied` must be `remove` or `refuse`, not `drop`");
    check("vendor_tools: {hosts: llm.example}\n", 1, 23, "`hosts` must be a list");
    check("vendor_tools: {hosts: ['https://llm.example']}\n", 1, 24, "no scheme");
    check("vendor_tools: {mcp: any, mcp: any}\n", 1, 26, "a second time");

    let text =
        "vendor_tools: {web_search: policy, code_execution: any, denied: refuse, hosts: [LLM.example]}";
    let policy = Allowlist::from_yaml(text, "policy.yaml").unwrap();
    assert_eq!(
        serde_json::to_string(&policy).unwrap(),
        r#"{"domains":[],"url_prefixes":[],"vendor_tools":{"web_search":"policy","code_execution":"any","denied":"refuse","hosts":["llm.example"]}}"#
    );
    let empty = Allowlist::from_yaml("vendor_tools: {denied: remove, hosts: []}", "policy.yaml").unwrap();
    assert_eq!(empty, Allowlist::default());
}
