//! One row of the table, and the test of it.

use e2e_tests::bed::Bed;
use e2e_tests::engine;
use e2e_tests::setting::Setting;
use sandbox::{ByteSize, Isolation, ResourceLimits, SandboxError};
use serde_json::Value;

use super::super::bed::spec;

/// A field of the Docker-compatible API.
pub(super) struct Row {
    /// As the table calls it.
    pub(super) field: &'static str,
    /// The rest of the container, with the field and without.
    pub(super) base: &'static str,
    /// The field, as JSON.
    pub(super) asked: &'static str,
    /// What shows whether it was obeyed.
    pub(super) look: Look,
    /// What is seen where it was.
    pub(super) wanted: &'static str,
    /// What podman 4 makes of it.
    pub(super) four: Gives,
    /// What podman 5 makes of it.
    pub(super) five: Gives,
    /// What the sandbox makes of it.
    pub(super) ours: &'static [Ours],
}

/// What shows whether a field was obeyed.
pub(super) enum Look {
    /// What this script prints in the container.
    Inside(&'static str),
    /// What the engine reports afterwards at this place.
    Inspect(&'static str),
}

/// What podman makes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gives {
    /// The container is as it is without the field.
    Ignored,
    /// The container is as it was wanted.
    Obeyed,
    /// There is no container.
    Refused,
    /// This is seen.
    Other(&'static str),
}

/// What the sandbox makes of it.
pub(super) enum Ours {
    /// No type has a field for it.
    Unaskable,
    /// The script prints that.
    Works(fn() -> Isolation, &'static str, &'static str),
    /// An error of the engine's part, with this field.
    Refused(fn() -> Isolation, &'static str),
    /// The specification is refused, for this field.
    Invalid(fn() -> Isolation, &'static str),
}

pub(super) fn is_four() -> bool {
    Setting::of_this_run().podman == "4"
}

/// Asks for each of `rows`, behind the sandbox's back and of the sandbox.
pub(super) async fn check(rows: &[Row]) {
    let bed = Bed::new().await;
    for row in rows {
        podmans(row).await;
        for ours in row.ours {
            of_sandbox(&bed, row.field, ours).await;
        }
    }
    bed.close().await;
}

async fn podmans(row: &Row) {
    let (without, with) = (seen(row, false).await, seen(row, true).await);
    let field = format!("{} {}", row.field, row.asked);
    assert_ne!(without, row.wanted, "{field}: the control: nothing would differ");
    match if is_four() { row.four } else { row.five } {
        Gives::Ignored => assert_eq!(with, without, "{field}"),
        Gives::Obeyed => assert_eq!(with, row.wanted, "{field}"),
        Gives::Refused => assert!(with.starts_with("refused: 500"), "{field}: {with}"),
        Gives::Other(other) => assert_eq!(with, other, "{field}"),
    }
}

/// What is seen of a container that is asked for with the row's field or without.
async fn seen(row: &Row, asked: bool) -> String {
    let parse = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
    let mut body = parse(row.base);
    if asked {
        engine::merge(&mut body, &parse(row.asked));
    }
    let script = match row.look {
        Look::Inside(script) => script,
        Look::Inspect(_) => "true",
    };
    let made = engine::compatible(script, &body).await;
    match (made.refusal, &row.look) {
        (Some((status, text)), _) => format!("refused: {status} {text}"),
        (None, Look::Inside(_)) => made.output,
        (None, Look::Inspect(pointer)) => match made.facts.pointer(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        },
    }
}

async fn of_sandbox(bed: &Bed, field: &str, ours: &Ours) {
    match ours {
        Ours::Unaskable => {}
        Ours::Works(isolation, script, expected) => {
            let spec =
                spec(bed, isolation(), script).limits(ResourceLimits::default().memory(ByteSize::mib(64)));
            let ran = bed.run_spec(spec).await;
            assert_eq!(ran.stdout, *expected, "{field}: {}", ran.stderr);
        }
        Ours::Refused(isolation, expected) => {
            let (refused, text) = super::super::bed::refusal(bed, isolation()).await;
            assert_eq!(refused, *expected, "{field}: {text}");
        }
        Ours::Invalid(isolation, expected) => {
            match bed.sandbox.create_command(spec(bed, isolation(), "true")) {
                Err(SandboxError::Spec(error)) => assert_eq!(error.field(), *expected, "{field}: {error}"),
                other => panic!("{field}: {other:?}"),
            }
        }
    }
}
