//! Replacements in all headers of a request.

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use sandbox_credentials::Injection;
use sandbox_proxy_protocol::Scheme;

use super::fixture::*;
use crate::credential::BodyPlan;
use crate::credential::Vault;

#[test]
fn replaced_header_has_one_line() {
    for held in [
        [("authorization", "Bearer attackerkey"), ("x", "y"), ("authorization", "Bearer ghp_SurrogateA")],
        [("authorization", "Bearer ghp_SurrogateA"), ("authorization", "Bearer attackerkey"), ("x", "y")],
        [("authorization", "Bearer ghp_SurrogateA"), ("authorization", "token ghp_SurrogateA"), ("x", "y")],
    ] {
        let plan = plan(&usual(), &held);
        assert_eq!(lines(&plan.headers), ["authorization: Bearer ghp_RealValueA", "x: y"]);
        assert_eq!((plan.masked, plan.dropped), (1, 1));
    }
    let loose = [entry(SURROGATE, REAL, &["x-*"], as_it_is)];
    let plan = plan(&loose, &[("x-key", "attackerkey"), ("x-key", "ghp_SurrogateA"), ("x-other", "1")]);
    assert_eq!(lines(&plan.headers), ["x-key: ghp_RealValueA", "x-other: 1"]);
}

#[test]
fn order_and_duplicates_of_other_headers_are_kept() {
    let held = [
        ("accept", "1"),
        ("authorization", "Bearer ghp_SurrogateA"),
        ("accept", "2"),
        ("x-api-key", "attackerkey"),
        ("zeta", "z"),
        ("beta", "b"),
    ];
    let entries = [
        entry(SURROGATE, REAL, &["authorization"], as_it_is),
        entry(OTHER, OTHER_REAL, &["x-api-key"], as_it_is),
    ];
    let plan = plan(&entries, &held);
    let expected = ["accept: 1", "accept: 2", "authorization: Bearer ghp_RealValueA", "zeta: z", "beta: b"];
    assert_eq!(lines(&plan.headers), expected);
    assert_eq!((plan.masked, plan.dropped), (1, 1));
}

#[test]
fn foreign_credentials_are_removed_unless_every_entry_naming_the_header_allows_them() {
    let allow = |injection: &mut Injection| injection.allow_foreign_credentials = true;
    let foreign = "Bearer attackerkey";
    check(&usual(), "authorization", foreign, None);
    check(&[entry(SURROGATE, REAL, &["authorization"], allow)], "authorization", foreign, Some(foreign));
    // A wildcard names nothing.
    check(&[entry(SURROGATE, REAL, &["auth*"], as_it_is)], "authorization", foreign, Some(foreign));
    check(&[entry(SURROGATE, REAL, &["x-api-key"], as_it_is)], "authorization", foreign, Some(foreign));
    let two = [
        entry(SURROGATE, REAL, &["authorization"], allow),
        entry(OTHER, OTHER_REAL, &["authorization"], as_it_is),
    ];
    check(&two, "authorization", foreign, None);
    // A value that any entry replaced is not foreign to the others.
    check(&two, "authorization", "Bearer ghp_SurrogateA", Some("Bearer ghp_RealValueA"));
    check(&two, "authorization", "Bearer ghp_SurrogateB", Some("Bearer ghp_RealValueB"));
}

/// Gateways hand both to programs under one name.
#[test]
fn hyphens_and_underscores_are_equivalent() {
    let entries = [entry(SURROGATE, REAL, &["x-api-key"], as_it_is)];
    check(&entries, "x_api_key", "ghp_SurrogateA", Some("ghp_RealValueA"));
    check(&entries, "x_api-key", "attackerkey", None);
    for held in [
        [("x-api-key", "ghp_SurrogateA"), ("x_api_key", "attackerkey")],
        [("x-api-key", "ghp_SurrogateA"), ("x_api_key", "ghp_SurrogateA")],
    ] {
        let plan = plan(&entries, &held);
        assert_eq!(lines(&plan.headers), ["x-api-key: ghp_RealValueA"], "{held:?}");
        assert_eq!((plan.masked, plan.dropped), (1, 1));
    }
    let named = [entry(SURROGATE, REAL, &["x_api_key"], as_it_is)];
    check(&named, "x-api-key", "attackerkey", None);
}

#[test]
fn all_lines_of_a_foreign_header_are_removed() {
    let plan = plan(&usual(), &[("authorization", "Bearer a"), ("x", "y"), ("authorization", "Bearer b")]);
    assert_eq!(lines(&plan.headers), ["x: y"]);
    assert_eq!((plan.masked, plan.dropped), (0, 2));
}

#[test]
fn headers_out_of_scope_are_unchanged() {
    let held = [
        ("authorization", "Bearer ghp_SurrogateA"),
        ("authorization", "Bearer attackerkey"),
        ("accept-encoding", "exotic"),
        ("cookie", "a=1"),
        ("cookie", "b=2"),
    ];
    for host in ["b.example", "xa.example", "a.example.evil.example", "sub.a.example"] {
        let plan = plan_for(&usual(), Scheme::Https, host, map(&held)).unwrap();
        assert_eq!(lines(&plan.headers), lines(&map(&held)), "{host}");
        assert_eq!((plan.masked, plan.dropped), (0, 0));
        assert!(plan.scrub.is_none() && plan.no_trailers.is_empty() && plan.target.is_none());
        assert!(matches!(plan.body, BodyPlan::Pass));
    }
    let plan = plan_for(&[], Scheme::Https, "a.example", map(&held)).unwrap();
    assert_eq!(lines(&plan.headers), lines(&map(&held)));
    assert!(plan.scrub.is_none());
}

#[test]
fn plain_http_gets_no_real_value_and_loses_foreign_credentials() {
    let allowed = [entry(SURROGATE, REAL, &["authorization"], |injection| {
        injection.allow_plaintext = true;
    })];
    for (entries, scheme, value, expected) in [
        (usual().as_slice(), Scheme::Http, "Bearer ghp_SurrogateA", None),
        (usual().as_slice(), Scheme::Http, "Bearer attackerkey", None),
        (
            allowed.as_slice(),
            Scheme::Http,
            "Bearer ghp_SurrogateA",
            Some("authorization: Bearer ghp_RealValueA"),
        ),
        (allowed.as_slice(), Scheme::Http, "Bearer attackerkey", None),
        (
            usual().as_slice(),
            Scheme::Https,
            "Bearer ghp_SurrogateA",
            Some("authorization: Bearer ghp_RealValueA"),
        ),
    ] {
        let plan = plan_for(entries, scheme, "a.example", map(&[("authorization", value)])).unwrap();
        assert_eq!(lines(&plan.headers), Vec::from_iter(expected), "{scheme:?} {value}");
        assert_eq!(plan.dropped, u32::from(expected.is_none()));
    }
    let loose = [entry(SURROGATE, REAL, &["x-*"], as_it_is)];
    let held = [("x-key", "ghp_SurrogateA")];
    let plan = plan_for(&loose, Scheme::Http, "a.example", map(&held)).unwrap();
    assert_eq!(lines(&plan.headers), ["x-key: ghp_SurrogateA"]);
}

#[test]
fn framing_header_is_never_replaced() {
    let entries = [entry(SURROGATE, REAL, &["*"], as_it_is)];
    let held = [("host", "ghp_SurrogateA"), ("content-length", "ghp_SurrogateA"), ("x", "ghp_SurrogateA")];
    let plan = plan(&entries, &held);
    let expected = ["host: ghp_SurrogateA", "content-length: ghp_SurrogateA", "x: ghp_RealValueA"];
    assert_eq!(lines(&plan.headers), expected);
}

#[test]
fn binary_header_value_is_not_replaced() {
    for value in
        [&b"\xff\xfe"[..], b"Bearer \xff", b"Basic \xff\xff", b"\xc3\x28 ghp_SurrogateA", b"a=\xff; s"]
    {
        for name in ["authorization", "cookie", "x-any"] {
            let mut headers = HeaderMap::new();
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
            let entries = [entry(SURROGATE, REAL, &["authorization", "cookie", "x-*"], as_it_is)];
            let plan = plan_for(&entries, Scheme::Https, "a.example", headers).unwrap();
            assert_eq!(plan.masked, 0, "{name}: {value:?}");
        }
    }
}

#[test]
fn value_with_forbidden_bytes_is_an_error_without_the_value() {
    for real in ["secret\nvalue", "secret\r\nx: y", "secret\0value"] {
        let entries = [entry(SURROGATE, real, &["authorization"], as_it_is)];
        let headers = map(&[("authorization", "Bearer ghp_SurrogateA")]);
        let error = plan_for(&entries, Scheme::Https, "a.example", headers).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(
            shown.contains("authorization") && !shown.contains("secret\\") && !shown.contains("secret\n"),
            "{shown}"
        );
        // In a pair it is encoded, and valid.
        let pair = basic("u:ghp_SurrogateA");
        check(&entries, "authorization", &pair, Some(&basic(&format!("u:{real}"))));
    }
}

#[test]
fn debug_output_omits_values() {
    let entries = [
        entry(SURROGATE, REAL, &["authorization"], as_it_is),
        entry(OTHER, OTHER_REAL, &["cookie"], as_it_is),
    ];
    let vault = Vault::of(entries.iter().map(|(surrogate, replacement)| (*surrogate, replacement)));
    let held =
        [("authorization", "Bearer ghp_SurrogateA"), ("cookie", "a=1"), ("cookie", "s=ghp_SurrogateB")];
    let plan = plan(&entries, &held);
    assert_eq!(plan.masked, 2);
    assert_eq!(plan.credentials, [SURROGATE, OTHER].map(|name| format!("{name}'s name")));
    for value in plan.headers.values() {
        assert!(value.is_sensitive(), "compression would keep it");
    }
    let shown = format!("{vault:?} {plan:?} {:?}", plan.headers);
    assert!(!shown.contains("RealValue"), "{shown}");
}

#[test]
fn entry_with_an_empty_surrogate_or_value_is_ignored() {
    for empty in
        [entry("", REAL, &["authorization"], as_it_is), entry(SURROGATE, "", &["authorization"], as_it_is)]
    {
        check(&[empty], "authorization", "", Some(""));
    }
}

#[test]
fn responses_are_searched_unless_every_entry_in_scope_allows_echo() {
    let echo = |injection: &mut Injection| injection.allow_echo = true;
    let quiet = entry(SURROGATE, REAL, &["authorization"], as_it_is);
    let open = entry(OTHER, OTHER_REAL, &["x-key"], echo);
    assert!(plan(std::slice::from_ref(&quiet), &[]).scrub.is_some());
    assert!(plan(std::slice::from_ref(&open), &[]).scrub.is_none());
    assert!(plan(&[quiet, open], &[]).scrub.is_some());
}

#[test]
fn trailers_must_not_have_names_that_entries_name() {
    let entries = [
        entry(SURROGATE, REAL, &["X-Key", "x-wild-*"], as_it_is),
        entry(OTHER, OTHER_REAL, &["x-other"], |injection| {
            injection.allow_foreign_credentials = true;
        }),
    ];
    assert_eq!(plan(&entries, &[]).no_trailers, ["x-key", "x-other"]);
}

proptest! {
    /// For any text around a surrogate in a header that is named exactly: the real value is sent
    /// only if the whole credential is the surrogate, and otherwise nothing is.
    #[test]
    fn real_value_is_sent_only_for_a_whole_surrogate(before in "[ -~]{0,12}", after in "[ -~]{0,12}") {
        let value = format!("{before}{SURROGATE}{after}");
        let plan = plan(&usual(), &[("authorization", &value)]);
        let scheme = before.trim_start();
        let name = scheme.trim_end();
        let whole = after.trim().is_empty()
            && (scheme.is_empty() || (scheme.ends_with(' ') && !name.contains([' ', ',', '=', ':', ';', '"', '/', '(', ')', '<', '>', '@', '?', '[', ']', '\\', '{', '}'])));
        let expected = whole.then(|| format!("authorization: {before}{REAL}{after}"));
        prop_assert_eq!(lines(&plan.headers), Vec::from_iter(expected));
    }

    /// Any bytes at all: no panic, and no real value without its surrogate.
    #[test]
    fn real_value_is_never_sent_without_its_surrogate(values in proptest::collection::vec("[ -~]{0,40}", 0..6), name in 0..3_usize) {
        let name = ["authorization", "cookie", "x-any"][name];
        let entries = [entry(SURROGATE, REAL, &["authorization", "cookie", "x-*"], as_it_is)];
        let held: Vec<(&str, &str)> = values.iter().map(|value| (name, value.as_str())).collect();
        let plan = plan(&entries, &held);
        prop_assert_eq!(plan.masked, 0);
        prop_assert!(!lines(&plan.headers).concat().contains(REAL));
    }
}
