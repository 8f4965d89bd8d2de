//! Credentials at a host that a key signs for: all but the key's own are removed, unless every key
//! allows them.

use allowlist::HostPattern;
use http::header::AUTHORIZATION;
use sandbox_credentials::SecretValue;
use sandbox_credentials::wire::{Replacement, SigningReplacement};
use sandbox_proxy_protocol::Scheme;

use super::fixture::*;
use crate::credential::Plan;

const ID: &str = "AKIASURROGATE0000000";
const OTHER_ID: &str = "AKIASURROGATE1111111";
const REAL_ID: &str = "AKIAREALVALUE7654321";
const ATTACKER: &str = "AKIAATTACKERSOWNKEY0";

/// A temporary key for `a.example`.
fn key(surrogate: &'static str, allow_foreign_credentials: bool) -> Entry {
    let replacement = SigningReplacement {
        name: "AWS".to_owned(),
        access_key_id: SecretValue::new(REAL_ID),
        secret_access_key: SecretValue::new("the real key"),
        surrogate_secret_access_key: "the surrogate of the key".to_owned(),
        session_token: Some((SecretValue::new("the-real-token"), "the-surrogate".to_owned())),
        scopes: vec![HostPattern::new("a.example").unwrap()],
        allow_foreign_credentials,
    };
    (surrogate, Replacement::Signing(replacement))
}

fn strict() -> Vec<Entry> {
    vec![key(ID, false)]
}

fn lenient() -> Vec<Entry> {
    vec![key(ID, true)]
}

fn signature(id: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential={id}/20150830/eu-west-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=aa"
    )
}

fn presigned(id: &str) -> String {
    format!(
        "/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={id}%2F20150830%2Feu-west-1%2Fs3%2Faws4_request\
         &X-Amz-Date=20150830T123600Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=aa&q=1"
    )
}

fn plan_at(entries: &[Entry], target: &str, headers: &[(&str, &str)]) -> Plan {
    plan_to(entries, Scheme::Https, "a.example", target, map(headers)).unwrap()
}

fn has(plan: &Plan, name: &str) -> bool {
    plan.headers.contains_key(name)
}

#[test]
fn other_authorization_is_removed() {
    for foreign in [
        "Bearer attackerkey",
        "bearer attackerkey",
        &basic("x:attackerkey"),
        "attackerkey",
        "AWS AKIAATTACKERSOWNKEY0:c2ln",
        &signature(ATTACKER),
    ] {
        check_dated(&strict(), foreign, None);
        // The control, and the strictest of several decides.
        check_dated(&lenient(), foreign, Some(foreign));
        check_dated(&[key(ID, true), key(OTHER_ID, false)], foreign, None);
        check_dated(&[key(ID, true), key(OTHER_ID, true)], foreign, Some(foreign));
    }
    let twice = [("authorization", "Bearer attackerkey"), ("authorization", "Bearer other"), ("x", "y")];
    let plan = plan(&strict(), &twice);
    assert_eq!(lines(&plan.headers), ["x: y"]);
    assert_eq!((plan.masked, plan.dropped), (0, 2));
}

/// Like [`check`], with the date that a signature needs.
#[track_caller]
fn check_dated(entries: &[Entry], authorization: &str, expected: Option<&str>) {
    let held = [("x-amz-date", "20150830T123600Z"), ("authorization", authorization)];
    let plan = plan(entries, &held);
    let mut left = vec!["x-amz-date: 20150830T123600Z".to_owned()];
    left.extend(expected.map(|value| format!("authorization: {value}")));
    assert_eq!(lines(&plan.headers), left, "{authorization}");
    let dropped = u32::from(expected.is_none());
    assert_eq!((plan.masked, plan.dropped), (0, dropped), "{authorization}");
}

#[test]
fn other_authorization_is_removed_over_plain_http_too() {
    let held = [("authorization", "Bearer attackerkey"), ("x", "y")];
    let plan = plan_for(&strict(), Scheme::Http, "a.example", map(&held)).unwrap();
    assert_eq!(lines(&plan.headers), ["x: y"]);
    let plan = plan_for(&lenient(), Scheme::Http, "a.example", map(&held)).unwrap();
    assert!(has(&plan, "authorization"));
}

#[test]
fn anonymous_requests_and_hosts_out_of_scope_are_unchanged() {
    for entries in [strict(), lenient()] {
        let found = plan_at(&entries, "/k?token=t&q", &[("x-api-key", "k"), ("accept", "a")]);
        assert_eq!(lines(&found.headers)[..2], ["x-api-key: k", "accept: a"]);
        assert_eq!((found.target, found.masked, found.dropped), (None, 0, 0));
    }
    let held = [("authorization", "Bearer attackerkey"), ("x-amz-security-token", "t")];
    let found = plan_for(&strict(), Scheme::Https, "b.example", map(&held)).unwrap();
    assert_eq!(lines(&found.headers), ["authorization: Bearer attackerkey", "x-amz-security-token: t"]);
}

#[test]
fn only_our_own_signature_is_forwarded() {
    let own = signature(ID);
    for entries in [strict(), lenient()] {
        let held = [
            ("x-amz-date", "20150830T123600Z"),
            ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
            ("authorization", own.as_str()),
            ("x-amz-security-token", "anything"),
        ];
        let found = plan_at(&entries, "/k?x-amz-security-token=attackers", &held);
        let authorization = found.headers[AUTHORIZATION].to_str().unwrap();
        assert!(authorization.contains(&format!("Credential={REAL_ID}/")));
        assert_eq!(found.headers["x-amz-security-token"], "the-real-token");
        assert_eq!(found.target.unwrap(), "/k?x-amz-security-token=the-real-token");
        assert_eq!((found.masked, found.dropped), (1, 0));
    }
    let held = [("x-amz-security-token", "anything"), ("authorization", "Bearer attackerkey")];
    let found = plan_at(&strict(), &presigned(ID), &held);
    assert!(found.target.as_deref().unwrap().contains(REAL_ID));
    assert!(!has(&found, "authorization"));
    assert_eq!(found.headers["x-amz-security-token"], "the-real-token");
    assert_eq!((found.masked, found.dropped), (1, 1));
}

#[test]
fn foreign_presigned_signature_is_removed() {
    let target = presigned(ATTACKER);
    let found = plan_at(&strict(), &target, &[]);
    assert_eq!((found.target.as_deref(), found.dropped), (Some("/k?q=1"), 1));
    let found = plan_at(&lenient(), &target, &[]);
    assert_eq!((found.target, found.dropped), (None, 0));
}

#[test]
fn session_token_without_our_signature_is_removed() {
    for name in ["x-amz-security-token", "x-amz-s3session-token"] {
        let held = [(name, "attackers"), ("x", "y")];
        let found = plan(&strict(), &held);
        assert_eq!(lines(&found.headers), ["x: y"]);
        assert_eq!(found.dropped, 1);
        assert!(has(&plan(&lenient(), &held), name));

        let target = format!("/k?a=1&{}=attackers", name.to_uppercase());
        let found = plan_at(&strict(), &target, &[("x", "y")]);
        assert_eq!((found.target.as_deref(), found.dropped), (Some("/k?a=1"), 1));
        assert_eq!(plan_at(&lenient(), &target, &[]).target, None);
        // With a foreign signature it is removed as well.
        let foreign = signature(ATTACKER);
        let held = [("x-amz-date", "20150830T123600Z"), ("authorization", &foreign), (name, "attackers")];
        let found = plan_at(&strict(), &target, &held);
        assert_eq!(lines(&found.headers), ["x-amz-date: 20150830T123600Z"]);
        assert_eq!((found.target.as_deref(), found.dropped), (Some("/k?a=1"), 1));
    }
}

#[test]
fn masked_secret_is_replaced_where_requests_are_signed() {
    for foreign in [true, false] {
        let entries = [
            key(ID, false),
            entry(SURROGATE, REAL, &["authorization"], |injection| {
                injection.allow_foreign_credentials = foreign;
            }),
        ];
        check(&entries, "authorization", "Bearer ghp_SurrogateA", Some("Bearer ghp_RealValueA"));
        check(&entries, "authorization", "Bearer attackerkey", None);
    }
    // Nor does a lenient key allow what a masked secret forbids.
    let entries = [key(ID, true), usual().remove(0)];
    check(&entries, "authorization", "Bearer attackerkey", None);
}

#[test]
fn trailers_must_not_have_names_that_keys_authorise_with() {
    for entries in [strict(), lenient()] {
        assert_eq!(
            plan(&entries, &[]).no_trailers,
            ["authorization", "x-amz-security-token", "x-amz-s3session-token"]
        );
    }
}
