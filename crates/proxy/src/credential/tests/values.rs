//! Places of a credential in one value.

use allowlist::Glob;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use http::{HeaderMap, HeaderValue};
use sandbox_proxy_protocol::Scheme;

use super::fixture::*;

#[test]
fn only_a_whole_credential_is_replaced() {
    let good = [
        ("ghp_SurrogateA", "ghp_RealValueA"),
        ("Bearer ghp_SurrogateA", "Bearer ghp_RealValueA"),
        ("bearer ghp_SurrogateA", "bearer ghp_RealValueA"),
        ("BEARER   ghp_SurrogateA", "BEARER   ghp_RealValueA"),
        ("token ghp_SurrogateA", "token ghp_RealValueA"),
        ("X-My-Scheme ghp_SurrogateA", "X-My-Scheme ghp_RealValueA"),
        // The token of `Basic` may itself be a secret.
        ("Basic ghp_SurrogateA", "Basic ghp_RealValueA"),
    ];
    for (value, real) in good {
        check(&usual(), "authorization", value, Some(real));
    }
    let bad = [
        "Bearer attackerkey.ghp_SurrogateA",
        "Bearer ghp_SurrogateA.attackerkey",
        "Bearer ghp_SurrogateA, Bearer attackerkey",
        "Bearer attackerkey, Bearer ghp_SurrogateA",
        "ghp_SurrogateA,attackerkey",
        "ghp_SurrogateA attackerkey",
        "attackerkey ghp_SurrogateA x",
        "Bearer ghp_SurrogateA attackerkey",
        "Bearer attackerkey ghp_SurrogateA",
        "Bearer \"ghp_SurrogateA\"",
        "Bearer token=ghp_SurrogateA",
        "Bearer=attackerkey ghp_SurrogateA",
        "Bearer, ghp_SurrogateA",
        "Bearer\tghp_SurrogateA",
        "Bearer \t ghp_SurrogateA",
        "Bearer:ghp_SurrogateA",
        "Bearerghp_SurrogateA",
        "Bearer GHP_SURROGATEA",
        "Bearer ghp_Surrogate",
        "Digest username=\"ghp_SurrogateA\", response=\"x\"",
        "Bearer attackerkey",
        "attackerkey",
        "",
    ];
    for value in bad {
        check(&usual(), "authorization", value, None);
    }
}

#[test]
fn white_space_around_a_value_is_preserved() {
    let mut headers = HeaderMap::new();
    headers.append("authorization", HeaderValue::from_bytes(b"\t Bearer ghp_SurrogateA \t").unwrap());
    let plan = plan_for(&usual(), Scheme::Https, "a.example", headers).unwrap();
    assert_eq!(lines(&plan.headers), ["authorization: \t Bearer ghp_RealValueA \t"]);
}

#[test]
fn either_half_of_a_basic_pair_is_replaced() {
    for (held, real) in [
        ("user:ghp_SurrogateA", "user:ghp_RealValueA"),
        ("ghp_SurrogateA:", "ghp_RealValueA:"),
        ("ghp_SurrogateA:x-oauth-basic", "ghp_RealValueA:x-oauth-basic"),
        (":ghp_SurrogateA", ":ghp_RealValueA"),
    ] {
        check(&usual(), "authorization", &basic(held), Some(&basic(real)));
        for scheme in ["basic", "BASIC", "bAsIc  "] {
            let value = |pair: &str| format!("{scheme} {}", BASE64_STANDARD.encode(pair));
            check(&usual(), "authorization", &value(held), Some(&value(real)));
        }
        // A client that omits padding gets none.
        let unpadded = |pair: &str| format!("Basic {}", BASE64_STANDARD_NO_PAD.encode(pair));
        check(&usual(), "authorization", &unpadded(held), Some(&unpadded(real)));
    }
    for held in [
        "user:xghp_SurrogateA",
        "user:ghp_SurrogateAx",
        "user: ghp_SurrogateA",
        // Only the first colon is the separator.
        "user:attackerkey:ghp_SurrogateA",
        "user:ghp_SurrogateA:attackerkey",
        "ghp_SurrogateA",
        "user:attackerkey",
    ] {
        check(&usual(), "authorization", &basic(held), None);
    }
    let pair = BASE64_STANDARD.encode("user:ghp_SurrogateA");
    for value in [
        format!("Bearer {pair}"),
        format!("Basic {pair}, Basic {pair}"),
        format!("Basic {pair} {pair}"),
        format!("Basic={pair}"),
        pair.clone(),
        format!("Basic -{pair}"),
    ] {
        check(&usual(), "authorization", &value, None);
    }
}

#[test]
fn basic_pair_may_hold_two_credentials_and_binary_bytes() {
    let both = [
        entry(SURROGATE, REAL, &["authorization"], as_it_is),
        entry(OTHER, OTHER_REAL, &["authorization"], as_it_is),
    ];
    let plan = plan(&both, &[("authorization", &basic("ghp_SurrogateA:ghp_SurrogateB"))]);
    let real = basic("ghp_RealValueA:ghp_RealValueB");
    assert_eq!(lines(&plan.headers), [format!("authorization: {real}")]);
    assert_eq!((plan.masked, plan.dropped), (2, 0));

    let bytes = |secret: &str| {
        format!("Basic {}", BASE64_STANDARD.encode([b"\xff\xfe:", secret.as_bytes()].concat()))
    };
    check(&usual(), "authorization", &bytes(SURROGATE), Some(&bytes(REAL)));
}

#[test]
fn other_half_of_a_pair_can_be_restricted() {
    let restricted = |pattern: &str| {
        let pattern = Glob::new(pattern);
        vec![entry(SURROGATE, REAL, &["authorization"], |injection| {
            injection.basic_user = Some(pattern);
        })]
    };
    for (pattern, held, real) in [
        ("x-access-token", "x-access-token:ghp_SurrogateA", Some("x-access-token:ghp_RealValueA")),
        ("x-access-token", "attackerkey:ghp_SurrogateA", None),
        ("x-access-token", ":ghp_SurrogateA", None),
        ("x-*", "x-y:ghp_SurrogateA", Some("x-y:ghp_RealValueA")),
        // If the secret is the user, the password is the other half.
        ("x-oauth-basic", "ghp_SurrogateA:x-oauth-basic", Some("ghp_RealValueA:x-oauth-basic")),
        ("x-oauth-basic", "ghp_SurrogateA:attackerkey", None),
        ("", "ghp_SurrogateA:", Some("ghp_RealValueA:")),
        ("", "ghp_SurrogateA:attackerkey", None),
    ] {
        let real = real.map(basic);
        check(&restricted(pattern), "authorization", &basic(held), real.as_deref());
    }
    let bytes = format!("Basic {}", BASE64_STANDARD.encode(b"\xff:ghp_SurrogateA"));
    check(&restricted("?"), "authorization", &bytes, None);
    // It applies to `Basic` only.
    check(&restricted("x"), "authorization", "Bearer ghp_SurrogateA", Some("Bearer ghp_RealValueA"));
}

#[test]
fn whole_value_of_a_cookie_is_replaced() {
    for headers in [["cookie"], ["cook*"]] {
        let entries = [entry(SURROGATE, REAL, &headers, as_it_is)];
        for (held, real) in [
            ("s=ghp_SurrogateA", "s=ghp_RealValueA"),
            ("s=\"ghp_SurrogateA\"", "s=\"ghp_RealValueA\""),
            ("a=1; s=ghp_SurrogateA; b=2", "a=1; s=ghp_RealValueA; b=2"),
            ("a=1;s = ghp_SurrogateA ;b=2", "a=1;s = ghp_RealValueA ;b=2"),
            ("s=ghp_SurrogateA;", "s=ghp_RealValueA;"),
        ] {
            check(&entries, "cookie", held, Some(real));
        }
    }
    let entries = [entry(SURROGATE, REAL, &["cookie"], as_it_is)];
    for value in [
        "s=xghp_SurrogateA",
        "s=ghp_SurrogateA.x",
        "s=\"ghp_SurrogateA",
        "s=a=ghp_SurrogateA",
        "s=a, ghp_SurrogateA",
        "ghp_SurrogateA=s",
        "a=1; s=attackerkey",
    ] {
        check(&entries, "cookie", value, None);
    }
}

#[test]
fn other_cookies_of_a_replaced_name_are_removed() {
    let entries = [entry(SURROGATE, REAL, &["cookie"], as_it_is)];
    for (held, real, counts) in [
        ("s=ghp_SurrogateA; s=attackerkey; a=1", "s=ghp_RealValueA; a=1", (1, 1)),
        ("S=attackerkey; s=ghp_SurrogateA", "s=ghp_RealValueA", (1, 1)),
        ("s=ghp_SurrogateA; s=ghp_SurrogateA", "s=ghp_RealValueA", (1, 1)),
        ("s=ghp_SurrogateA; t=ghp_SurrogateA", "s=ghp_RealValueA; t=ghp_RealValueA", (2, 0)),
    ] {
        let plan = plan(&entries, &[("cookie", held)]);
        assert_eq!(lines(&plan.headers), [format!("cookie: {real}")]);
        assert_eq!((plan.masked, plan.dropped), counts, "{held}");
    }
}

#[test]
fn cookies_on_several_lines_are_one_header() {
    let crumbs = [("cookie", "a=1"), ("x", "y"), ("cookie", "s=ghp_SurrogateA"), ("cookie", "b=2")];
    let strict = [entry(SURROGATE, REAL, &["cookie"], as_it_is)];
    let found = plan(&strict, &crumbs);
    assert_eq!(lines(&found.headers), ["cookie: a=1; s=ghp_RealValueA; b=2", "x: y"]);
    assert_eq!((found.masked, found.dropped), (1, 0));
    // Without the surrogate all of them are foreign.
    let found = plan(&strict, &[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")]);
    assert_eq!(lines(&found.headers), ["x: y"]);
    // If no entry covers cookies, they stay unchanged.
    let found = plan(&usual(), &[("cookie", "a=1"), ("cookie", "b=2")]);
    assert_eq!(lines(&found.headers), ["cookie: a=1", "cookie: b=2"]);
}

#[test]
fn parts_of_lists_are_replaced_for_wildcards_only() {
    let loose = [entry(SURROGATE, REAL, &["x-*"], as_it_is)];
    for (held, real) in [
        ("a, ghp_SurrogateA,b", "a, ghp_RealValueA,b"),
        ("ghp_SurrogateA", "ghp_RealValueA"),
        ("Bearer ghp_SurrogateA", "Bearer ghp_RealValueA"),
    ] {
        check(&loose, "x-keys", held, Some(real));
    }
    for same in ["a, xghp_SurrogateA", "a, Bearer ghp_SurrogateA", "a; ghp_SurrogateA", "a"] {
        check(&loose, "x-keys", same, Some(same));
    }
    let exact = [entry(SURROGATE, REAL, &["x-keys"], as_it_is)];
    check(&exact, "x-keys", "a, ghp_SurrogateA", None);
    // Another entry's wildcard does not bypass an exact name.
    let both = [entry(SURROGATE, REAL, &["x-keys"], as_it_is), entry(OTHER, OTHER_REAL, &["x-*"], as_it_is)];
    check(&both, "x-keys", "attackerkey, ghp_SurrogateB", None);
    check(&both, "x-keys", "ghp_SurrogateB", Some("ghp_RealValueB"));
    // Nor are lists searched for an entry without a wildcard.
    let both = [
        entry(SURROGATE, REAL, &["x-keys"], |injection| {
            injection.allow_foreign_credentials = true;
        }),
        entry(OTHER, OTHER_REAL, &["x-*"], as_it_is),
    ];
    check(&both, "x-keys", "a, ghp_SurrogateA", Some("a, ghp_SurrogateA"));
    check(&both, "x-keys", "a, ghp_SurrogateB", Some("a, ghp_RealValueB"));
}

#[test]
fn text_next_to_a_credential_is_bounded() {
    for (length, fits) in [(1024, true), (1025, false), (40_000, false)] {
        let other = "x".repeat(length);
        for (held, real) in [
            (format!("{other}:{SURROGATE}"), format!("{other}:{REAL}")),
            (format!("{SURROGATE}:{other}"), format!("{REAL}:{other}")),
        ] {
            let real = fits.then(|| basic(&real));
            check(&usual(), "authorization", &basic(&held), real.as_deref());
        }
    }
    // The length of our own credentials is up to their configuration.
    let long: &str = "s".repeat(2000).leak();
    let both = [
        entry(SURROGATE, REAL, &["authorization"], as_it_is),
        entry(long, "ghp_RealValueOfTheLongOne", &["authorization"], as_it_is),
    ];
    let held = basic(&format!("{SURROGATE}:{long}"));
    let real = basic(&format!("{REAL}:ghp_RealValueOfTheLongOne"));
    assert_eq!(lines(&plan(&both, &[("authorization", &held)]).headers), [format!("authorization: {real}")]);
}

#[test]
fn pairs_of_a_request_are_bounded_together() {
    let anywhere = [entry(SURROGATE, REAL, &["x-*"], as_it_is)];
    let names = ["x-0", "x-1", "x-2", "x-3", "x-4", "x-5"];
    for (length, replaced) in [(10, 6), (490, 3), (1000, 1)] {
        let pair = |value: &str| basic(&format!("{}:{value}", "x".repeat(length)));
        let (held, real) = (pair(SURROGATE), pair(REAL));
        let plan = plan(&anywhere, &names.map(|name| (name, held.as_str())));
        let expected: Vec<String> = (0..)
            .zip(names)
            .map(|(place, name)| format!("{name}: {}", if place < replaced { &real } else { &held }))
            .collect();
        assert_eq!(lines(&plan.headers), expected);
        assert_eq!((plan.masked, plan.dropped), (replaced, 0));
    }
}
