//! Accepted and refused pushes.

use proptest::prelude::*;

use super::*;
use crate::git::RefPattern;

const A: &str = "1111111111111111111111111111111111111111";
const B: &str = "2222222222222222222222222222222222222222";
const ZERO: &str = "0000000000000000000000000000000000000000";

fn rule(push: &[&str], delete: bool) -> GitRule {
    GitRule { push: push.iter().map(|text| RefPattern::new(text).unwrap()).collect(), force: true, delete }
}

fn check() -> PushCheck {
    let rules = vec![rule(&["refs/heads/agent/*"], false), rule(&["refs/heads/gone/*", "refs/tags/*"], true)];
    PushCheck::new(rules, "a.example".to_owned())
}

fn line(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [format!("{:04x}", text.len() + 4).as_bytes(), text].concat()
}

/// A push of these refs, from [`A`] to [`B`].
fn push(names: &[&str]) -> Vec<u8> {
    let mut lines = names.iter().map(|name| format!("{A} {B} {name}")).collect::<Vec<_>>();
    lines[0] += "\0 report-status-v2 side-band-64k object-format=sha1 agent=git/2.39.5";
    [lines.iter().flat_map(line).collect(), b"0000PACK and more".to_vec()].concat()
}

/// The decision about a whole body.
fn whole(body: &[u8]) -> Result<Option<usize>, Denial> {
    Ok(check().advance(body, true)?.map(|(rule, _)| rule))
}

/// The decision about a body that arrives byte by byte.
fn bytewise(body: &[u8]) -> Result<Option<usize>, Denial> {
    let mut check = check();
    for length in 0..body.len() {
        if let Some((rule, _)) = check.advance(&body[..length], false)? {
            return Ok(Some(rule));
        }
    }
    Ok(check.advance(body, true)?.map(|(rule, _)| rule))
}

fn verdict(body: &[u8]) -> Result<usize, Reason> {
    let (at_once, bytewise) = (whole(body), bytewise(body));
    assert_eq!(at_once.as_ref().ok(), bytewise.as_ref().ok(), "{}", body.escape_ascii());
    assert_eq!(
        at_once.as_ref().map_err(Denial::reason).err(),
        bytewise.as_ref().map_err(Denial::reason).err()
    );
    at_once.map(|rule| rule.expect("the body has ended")).map_err(|denial| denial.reason())
}

#[test]
fn push_is_allowed_only_if_some_rule_allows_each_ref() {
    use Reason::{RefLost, RefNotAllowed};
    for (names, expected) in [
        (["refs/heads/agent/x"].as_slice(), Ok(0)),
        (&["refs/tags/v1"], Ok(1)),
        (&["refs/heads/agent/x", "refs/tags/v1"], Ok(0)),
        (&["refs/heads/main"], Err(RefNotAllowed)),
        (&["refs/heads/agent/x", "refs/heads/main"], Err(RefNotAllowed)),
        (&["refs/heads/main", "refs/heads/agent/x"], Err(RefNotAllowed)),
        (&["refs/heads/agent/x", "refs/heads/agent/y", "refs/heads/agentz"], Err(RefNotAllowed)),
    ] {
        assert_eq!(verdict(&push(names)), expected, "{names:?}");
    }
    let delete = |name: &str| [line(format!("{A} {ZERO} {name}\0 delete-refs")), b"0000".to_vec()].concat();
    assert_eq!(verdict(&delete("refs/heads/agent/x")), Err(RefLost));
    assert_eq!(verdict(&delete("refs/heads/gone/x")), Ok(1));
    assert_eq!(verdict(&delete("refs/heads/main")), Err(RefNotAllowed));
    let denial = whole(&push(&["refs/heads/agent/x", "refs/heads/main"])).unwrap_err();
    assert_eq!(denial.push_report().unwrap().ref_name(), "refs/heads/main");
    let message = whole(&push(&["refs/heads/main"])).unwrap_err().message_naming("the policy");
    assert_eq!(
        message,
        "refs/heads/main of this repository of a.example may not be pushed: push to another ref, or to allow it, add it to \
         `push` of the repository's `git` entry in the policy"
    );
}

#[test]
fn push_in_gits_own_form_is_read() {
    let long = "3".repeat(64);
    let caps = "\0 report-status push-options object-format=sha1";
    let name = "refs/heads/agent/x";
    let sha256 = format!("{long} {long} {name}\0 object-format=sha256 agent=git/2.39.5");
    for body in [
        [line(format!("{A} {B} {name}\n")), b"0000".to_vec()].concat(),
        [line(format!("{A} {B} {name}\0caps\n")), b"0000".to_vec()].concat(),
        [line(format!("shallow {A}\n")), line(format!("shallow {B}")), push(&[name])].concat(),
        [line(format!("{A} {B} {name}{caps}")), b"0000".to_vec(), line("ci.skip\n"), b"0000PACK".to_vec()]
            .concat(),
        [line(format!("{A} {B} {name}{caps}")), b"00000000PACK".to_vec()].concat(),
        [line(&sha256), line(format!("{long} {long} {name}2")), b"0000PACK".to_vec()].concat(),
        b"0000".to_vec(),
    ] {
        assert_eq!(verdict(&body), Ok(0), "{}", body.escape_ascii());
    }
}

#[test]
fn push_in_another_form_is_refused() {
    let good = format!("{A} {B} refs/heads/agent/x");
    let command = |text: String| [line(text), b"0000PACK".to_vec()].concat();
    let two = |second: String| [line(&good), line(second), b"0000PACK".to_vec()].concat();
    let (upper, long) = (A.replace('1', "A"), "3".repeat(64));
    let bodies = [
        vec![],
        b"000".to_vec(),
        b"0000x".to_vec(),
        b"00000000".to_vec(),
        b"PACK".to_vec(),
        b"0001".to_vec(),
        line(&good),
        [line(&good), b"0001".to_vec()].concat(),
        [line(&good), b"0004".to_vec(), b"0000".to_vec()].concat(),
        [line(format!("shallow {A}")), b"0000".to_vec()].concat(),
        [line("shallow x"), push(&["refs/heads/agent/x"])].concat(),
        two(format!("shallow {A}")),
        command(format!("{upper} {B} refs/heads/agent/x")),
        command(format!("{A}  {B} refs/heads/agent/x")),
        command(format!("{A} {B}  refs/heads/agent/x")),
        command(format!("{A} {B}\trefs/heads/agent/x")),
        command(format!("{A} {B} ")),
        command(format!("{A} {B}")),
        command(format!("{A}1 {B}1 refs/heads/agent/x")),
        command(format!("{long} {long} refs/heads/agent/x")),
        command(format!("{good}\0 object-format=sha256")),
        command(format!("{good}\0 object-format=sha512")),
        command(format!("{good}\0 push-options=1")),
        command(format!("{good}\0 a\0push-options")),
        command(format!("{good}\0 a\tpush-options")),
        command(format!("{good}\n\0 report-status")),
        two(format!("{good}\0 report-status")),
        two(format!("{long} {long} refs/heads/agent/x")),
        command(format!("{good}\n\nrefs/heads/main")),
        command(format!("{A} {B} refs/heads/agent/../main")),
        command(format!("{A} {B} refs/heads/agent/x y")),
        command(format!("{A} {B} HEAD")),
        command("push-cert".to_owned()),
        [line("push-cert\0 report-status"), line("certificate version 0.1"), line("push-cert-end\n")]
            .concat(),
        two("push-cert".to_owned()),
        [line(format!("{good}\0 push-options")), b"0000".to_vec(), b"PACK".to_vec()].concat(),
    ];
    for body in bodies {
        assert_eq!(verdict(&body), Err(Reason::Body), "{}", body.escape_ascii());
    }
    let message = whole(&line("push-cert\0 x")).unwrap_err().to_string();
    assert_eq!(message, "signed pushes cannot be checked: push with `--no-signed`");
}

#[test]
fn push_with_too_many_commands_is_refused() {
    let one = line(format!("{A} {B} refs/heads/agent/x"));
    let mut body = one.repeat(LIMIT / one.len());
    assert_eq!(check().advance(&body, false), Ok(None));
    assert_eq!(
        check().advance(&[body.as_slice(), b"0000"].concat(), false).ok(),
        (body.len() + 4 <= LIMIT).then_some(Some((0, None)))
    );
    body.extend(one.repeat(2));
    assert_eq!(check().advance(&body, false).unwrap_err().reason(), Reason::Body);
}

proptest! {
    /// The verdict does not depend on how a body is split, and nothing panics.
    #[test]
    fn verdict_does_not_depend_on_how_a_body_is_split(
        parts in proptest::collection::vec(
            prop_oneof![
                Just(line(format!("{A} {B} refs/heads/agent/x\0 push-options"))),
                Just(line(format!("{A} {ZERO} refs/heads/gone/x"))),
                Just(line(format!("{A} {B} refs/heads/main"))),
                Just(line(format!("shallow {A}"))),
                Just(line("push-cert\0x")),
                Just(b"0000".to_vec()),
                Just(b"PACK".to_vec()),
                proptest::collection::vec(any::<u8>(), 0..6),
            ],
            0..6,
        )
    ) {
        let _ = verdict(&parts.concat());
    }

    /// The commands of an allowed push name allowed refs only.
    #[test]
    fn allowed_push_names_allowed_refs_only(names in proptest::collection::vec("(agent/|main|gone/)[a-z./\\n]{0,3}", 1..4)) {
        let names: Vec<String> = names.iter().map(|name| format!("refs/heads/{name}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if verdict(&push(&names)).is_ok() {
            let allowed = |name: &&str| name.starts_with("refs/heads/agent/") || name.starts_with("refs/heads/gone/");
            prop_assert!(names.iter().all(|name| allowed(name) && is_valid(name.strip_suffix('\n').unwrap_or(name).as_bytes())));
        }
    }
}

#[test]
fn update_without_force_needs_a_proof() {
    let strict = GitRule { force: false, ..rule(&["refs/heads/*"], true) };
    let check = |body: &[u8]| {
        PushCheck::new(vec![strict.clone()], "a.example".to_owned())
            .advance(body, true)
            .map(|found| found.unwrap().1)
    };
    let name = "refs/heads/x";
    for free in [format!("{ZERO} {B} {name}"), format!("{A} {ZERO} {name}"), format!("{A} {A} {name}")] {
        assert_eq!(check(&[line(free), b"0000".to_vec()].concat()), Ok(None));
    }
    let body = [
        line(format!("{ZERO} {B} {name}\0push-options")),
        line(format!("{A} {B} {name}2")),
        b"0000".to_vec(),
    ];
    let body = [body.concat(), line("option"), b"0000".to_vec()].concat();
    let pushes = check(&[body.as_slice(), b"PACK"].concat()).unwrap().unwrap();
    assert_eq!((pushes.pack_at, pushes.updates.len()), (body.len(), 1));
    assert_eq!(
        (&*pushes.updates[0].old, &*pushes.updates[0].new),
        ([0x11; 20].as_slice(), [0x22; 20].as_slice())
    );
    assert_eq!(bytes(b"00ff0a90"), [0, 255, 10, 144].into());
    let many = line(format!("{A} {B} {name}")).repeat(UPDATES + 1);
    assert_eq!(check(&[many, b"0000".to_vec()].concat()).unwrap_err().reason(), Reason::Body);
}

#[test]
fn push_reader_returns_every_ref() {
    let (zero, odd) = (ZERO, b"refs/heads/a\xff".as_slice());
    let first = [format!("{A} {B} ").as_bytes(), odd, b"\0 report-status"].concat();
    let lines = [line(first), line(format!("{B} {zero} refs/x")), line(format!("{zero} {A} refs/tags/new"))];
    let body = [lines.concat(), b"0000PACK".to_vec()].concat();
    let mut reader = PushReader::default();
    assert_eq!(reader.advance(&body[..20], false), Ok(None));
    let updates = reader.advance(&body, false).unwrap().unwrap();
    let shown = updates.iter().map(|update| {
        let id = |id: &Option<String>| id.as_deref().map_or("-", |id| &id[..1]).to_owned();
        format!("{}{} {}", id(&update.old), id(&update.new), update.name.escape_ascii())
    });
    assert_eq!(shown.collect::<Vec<_>>(), [r"12 refs/heads/a\xff", "2- refs/x", "-1 refs/tags/new"]);
    assert_eq!(PushReader::default().advance(b"0000", true), Ok(Some(Vec::new())));
    let signed = line("push-cert\0");
    assert!(PushReader::default().advance(&signed, false).is_err());
}
