//! The variables that a bundle takes, from stdin in place of the environment.

use std::collections::BTreeMap;
use std::io::Read;

use sandbox_bundle::Settings;

use crate::commands::bundle;
use crate::config::Environment;
use crate::failure::Failure;
use crate::printer::plain_or_quoted;

/// Bytes of all variables as JSON.
const LONGEST: u64 = 1 << 20;

/// Reads a JSON object with the values of variables.
///
/// # Errors
///
/// If it is another document. No error quotes a value.
pub(in crate::commands) fn object(input: impl Read) -> Result<BTreeMap<String, String>, Failure> {
    let mut text = Vec::new();
    let failed = || Failure::doing("read the variables from stdin");
    input.take(LONGEST + 1).read_to_end(&mut text).map_err(failed())?;
    if text.len() as u64 > LONGEST {
        return Err(invalid(&format!("have more than {LONGEST} bytes")));
    }
    serde_json::from_slice(&text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        invalid(&format!("are not a JSON object of texts, at line {line}, column {column}"))
            .with_hint(r#"write {"NAME": "VALUE"} for the names that `sandbox bundle show` lists"#)
    })
}

/// Reads the values of the variables that a bundle with `settings` takes.
///
/// # Errors
///
/// Like [`object`]; also if one is missing, or there is one that it does not take.
pub(super) fn read(settings: &Settings, input: impl Read) -> Result<Environment, Failure> {
    let values = object(input)?;
    let (required, optional) = bundle::given(settings);
    if let Some(missing) = required.iter().find(|name| !values.contains_key(**name)) {
        return Err(invalid(&format!("lack {}, which the bundle needs", plain_or_quoted(missing))));
    }
    let is_taken = |name: &str| required.contains(name) || optional.contains(name);
    if let Some(other) = values.keys().find(|name| !is_taken(name)) {
        return Err(invalid(&format!("have {}, which the bundle does not take", plain_or_quoted(other))));
    }
    if let Some((name, _)) = values.iter().find(|(_, value)| value.contains('\0')) {
        return Err(invalid(&format!("have a zero byte in {}", plain_or_quoted(name))));
    }
    Ok(values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect())
}

fn invalid(problem: &str) -> Failure {
    Failure::usage(format!("the variables on stdin {problem}"))
}

#[cfg(test)]
mod tests {
    use sandbox_bundle::{Variable, VariableName};

    use super::*;

    #[test]
    fn variables_are_those_that_the_bundle_takes_and_no_value_is_quoted() {
        let name = |name: &str| VariableName::try_from(name.to_owned()).unwrap();
        let variables = [
            (name("A"), Variable::Value("a".to_owned())),
            (name("B"), Variable::Required(name("NEEDED"))),
            (name("C"), Variable::IfSet(None)),
        ];
        let settings = Settings { variables: variables.into(), ..Settings::default() };
        let read = |text: &str| super::read(&settings, text.as_bytes());
        let given = read(r#"{"NEEDED": "b", "C": "hunter2"}"#).unwrap();
        assert_eq!(
            (given.text("NEEDED"), given.text("C"), given.text("A")),
            (Some("b"), Some("hunter2"), None)
        );
        assert!(read(r#"{"NEEDED": "b"}"#).is_ok(), "the control");
        for (text, problem) in [
            (r#"{"C": "hunter2"}"#, "lack NEEDED, which the bundle needs"),
            (r#"{"NEEDED": "b", "A": "hunter2"}"#, "have A, which the bundle does not take"),
            (r#"{"NEEDED": "hunter2""#, "not a JSON object of texts, at line 1"),
            (r#"{"NEEDED": 4242}"#, "not a JSON object of texts, at line 1"),
            (r#"{"NEEDED": "hunter2\u0000"}"#, "have a zero byte in NEEDED"),
            ("NEEDED=hunter2", "not a JSON object of texts, at line 1"),
            ("", "not a JSON object of texts, at line 1"),
            (&" ".repeat(2 << 20), "more than 1048576 bytes"),
        ] {
            let error = format!("{:?}", read(text).unwrap_err());
            assert!(error.contains(problem), "{text}: {error}");
            assert!(!error.contains("hunter2") && !error.contains("4242"), "{error}");
        }
    }
}
