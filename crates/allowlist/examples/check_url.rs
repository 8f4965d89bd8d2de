//! Checks some URLs against a policy, like a program that embeds the policy.
//!
//! `cargo run -p allowlist --example check_url`

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::error::Error;

use allowlist::Allowlist;
use allowlist::Decision;
use allowlist::Reason;

const POLICY: &str = r#"
domains:
  - "*.crates.example"
url_prefixes:
  - host: api.example
    path: /search*
  - host: api.example
    path: /repos/mine/*
    methods: [GET, POST]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let policy = Allowlist::from_yaml(POLICY, "network-allowlist.yaml")?;
    let questions = [
        ("GET", "https://static.crates.example/serde/1.0.0/download", None),
        ("GET", "https://api.example/search?q=rust", None),
        ("POST", "https://api.example/repos/mine/issues", None),
        ("DELETE", "https://api.example/repos/mine/issues/1", Some(Reason::Method)),
        ("GET", "https://api.example/repos/yours/issues", Some(Reason::PathNotAllowed)),
        ("GET", "https://api.example/repos/mine/%2e%2e/yours", Some(Reason::Path)),
        ("GET", "https://evil.example/", Some(Reason::Host)),
    ];
    for (method, url, expected) in questions {
        match policy.judge(method, url) {
            Decision::Allow(rule) => {
                assert_eq!(expected, None, "{method} {url}");
                println!("allowed {method} {url} by {}[{}]", rule.kind.list(), rule.index);
            }
            Decision::NeedsBody(check) => println!("allowed {method} {url}, {}", check.condition()),
            Decision::Deny(denial) => {
                assert_eq!(Some(denial.reason()), expected, "{method} {url}");
                println!("blocked {method} {url}: {denial}");
            }
        }
    }
    for warning in policy.lint() {
        println!("warning: {warning}");
    }
    Ok(())
}
