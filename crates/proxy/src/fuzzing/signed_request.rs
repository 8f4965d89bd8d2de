//! Properties that hold for every request, regardless of its credentials.

use std::time::SystemTime;

use allowlist::HostName;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sandbox_proxy_protocol::Scheme;

use super::real_values::{
    FOREIGN_HOST, HOST, KEY_ID, OTHER_HOST, SECRET_KEY, SESSION, VAULT, belongs, found_in, found_in_target,
    is_spoilt, key,
};
use crate::credential::{BodyPlan, Plan, Wire};
use crate::signing::{Claim, Request, Resigned, SignError, Signed, claim, resign, without_signature};

/// Reads, removes and replaces all credentials of the request.
pub(super) fn check(headers: &HeaderMap, target: &str) {
    if is_spoilt(headers, target) {
        return;
    }
    match claim(headers, target) {
        Ok(Some(claim)) => check_claim(&claim, headers, target),
        Ok(None) => {}
        Err(error) => check_error(&error.to_string()),
    }
    for host in [HOST, OTHER_HOST, FOREIGN_HOST] {
        for scheme in [Scheme::Https, Scheme::Http] {
            check_plan(host, scheme, headers, target);
        }
    }
}

/// Checks that a claim can be removed without a trace, and is recomputed in full or not at all.
fn check_claim(found: &Claim, headers: &HeaderMap, target: &str) {
    let (left, rest) = without_signature(Some(found), headers, target);
    assert_eq!(claim(&left, &rest), Ok(None), "a part of a signature is left");
    let request = Request { method: "GET", host: HOST, target, headers: headers.clone() };
    match signed(found, request) {
        Ok(signed) => check_signed(&signed),
        Err(error) => check_error(&error.to_string()),
    }
}

fn signed(found: &Claim, request: Request<'_>) -> Result<Signed, SignError> {
    match resign(found, &key(), request)? {
        Resigned::Ready(signed) | Resigned::Chunked(signed, _) => Ok(signed),
        Resigned::Hash(pending) => pending.finish([7; 32]),
    }
}

fn check_signed(signed: &Signed) {
    let made = claim(&signed.headers, &signed.target);
    assert!(
        matches!(&made, Ok(Some(made)) if made.key_id() == KEY_ID),
        "the new signature is not by the real key"
    );
    for value in signed.headers.get_all("x-amz-security-token") {
        assert_eq!(value, SESSION, "another session token is left");
    }
    let found = signed.headers.values().flat_map(|value| found_in(value.as_bytes()));
    for real in found.chain(found_in_target(&signed.target)) {
        assert_ne!(real, SECRET_KEY, "the key itself leaves");
    }
    assert!(!format!("{signed:?}").contains(KEY_ID), "a value is shown");
}

fn check_plan(host: &'static str, scheme: Scheme, headers: &HeaderMap, target: &str) {
    let Ok(name) = HostName::from_wire(host.as_bytes()) else {
        return;
    };
    let wire = Wire {
        scheme,
        host: &name,
        method: "PUT",
        target,
        headers: headers.clone(),
        now: SystemTime::UNIX_EPOCH,
    };
    let mut plan = match VAULT.plan(wire) {
        Ok(plan) => plan,
        Err(error) => return check_error(&error.to_string()),
    };
    assert!(found_in(format!("{plan:?} {:?}", plan.warnings).as_bytes()).is_empty());
    if let BodyPlan::Hash(pending) = std::mem::replace(&mut plan.body, BodyPlan::Pass) {
        match pending.finish([7; 32]) {
            Ok(signed) => (plan.headers, plan.target) = (signed.headers, Some(signed.target)),
            Err(error) => return check_error(&error.to_string()),
        }
    }
    if host == FOREIGN_HOST {
        assert_eq!(&plan.headers, headers, "a request out of scope is changed");
        assert_eq!((plan.target, plan.masked, plan.dropped), (None, 0, 0));
        return;
    }
    check_places(host, scheme, &plan);
}

/// Checks that real values are where they belong, in a single line for each header, with no foreign
/// credential next to them.
fn check_places(host: &str, scheme: Scheme, plan: &Plan) {
    let mut carried = 0;
    for (name, value) in &plan.headers {
        let found = found_in(value.as_bytes());
        assert!(found.iter().all(|real| belongs(real, host, name)), "a real value is in {name} for {host}");
        if !found.is_empty() {
            carried += 1;
            assert!(value.is_sensitive(), "a real value is not marked in {name}");
            assert_eq!(plan.headers.get_all(name).iter().count(), 1, "{name} is there twice");
        } else if *name == AUTHORIZATION || (host == HOST && name.as_str() == "x-amz-security-token") {
            panic!("a foreign credential goes to {host}");
        }
    }
    for real in plan.target.iter().flat_map(|target| found_in_target(target)) {
        carried += 1;
        assert!(
            host == HOST && [KEY_ID, SESSION].contains(&real),
            "a real value is in the target for {host}"
        );
    }
    assert!(carried == 0 || plan.masked > 0, "a replaced value is not counted");
    assert!(carried == 0 || scheme == Scheme::Https, "a real value goes over plain HTTP");
}

fn check_error(text: &str) {
    assert!(found_in(text.as_bytes()).is_empty(), "an error shows a real value");
}
