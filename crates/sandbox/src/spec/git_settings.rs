//! Git's configuration in variables, which hides no file of the user's: `GIT_CONFIG_COUNT`, `GIT_CONFIG_KEY_0`, `GIT_CONFIG_VALUE_0`, …

use std::collections::BTreeMap;

use super::{ContainerEnv, InvalidSpec};

const COUNT: &str = "GIT_CONFIG_COUNT";
/// More than anybody writes.
const MOST: usize = 10_000;

/// `env` with `settings` (keys and values) before those that it has already: git takes the last one of a key.
pub(crate) fn with_git_settings(
    env: &ContainerEnv,
    settings: Vec<(String, String)>,
) -> Result<ContainerEnv, InvalidSpec> {
    if settings.is_empty() {
        return Ok(env.clone());
    }
    let all: Vec<_> = settings.into_iter().chain(own(env.variables())?).collect();
    let mut with = env.clone().with(COUNT, all.len().to_string());
    for (number, (key, value)) in all.into_iter().enumerate() {
        with = with
            .with(format!("GIT_CONFIG_KEY_{number}"), key)
            .with(format!("GIT_CONFIG_VALUE_{number}"), value);
    }
    Ok(with)
}

/// What the variables of the caller say.
fn own(variables: &BTreeMap<String, String>) -> Result<Vec<(String, String)>, InvalidSpec> {
    let fault = |problem: String| InvalidSpec::new("env", problem);
    let count = match variables.get(COUNT).map(String::as_str) {
        None | Some("") => 0,
        Some(text) => text.parse().ok().filter(|count| *count <= MOST).ok_or_else(|| {
            fault(format!("`{COUNT}` is `{}`, and not a number up to {MOST}", text.escape_debug()))
        })?,
    };
    let one = |name: String| {
        let value = variables.get(&name).cloned();
        value.ok_or_else(|| fault(format!("`{COUNT}` is {count}, and `{name}` is missing")))
    };
    (0..count)
        .map(|number| {
            Ok((one(format!("GIT_CONFIG_KEY_{number}"))?, one(format!("GIT_CONFIG_VALUE_{number}"))?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(names: &[&str]) -> Vec<(String, String)> {
        names.iter().map(|name| ((*name).to_owned(), format!("value of {name}"))).collect()
    }

    fn env(variables: &[(&str, &str)]) -> ContainerEnv {
        variables.iter().copied().collect()
    }

    #[test]
    fn what_the_caller_says_stays_and_comes_last() {
        let caller = env(&[
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "user.name"),
            ("GIT_CONFIG_VALUE_0", "me"),
            ("GIT_CONFIG_KEY_1", "not counted"),
            ("OTHER", "x"),
        ]);
        let expected = env(&[
            ("GIT_CONFIG_COUNT", "3"),
            ("GIT_CONFIG_KEY_0", "a"),
            ("GIT_CONFIG_VALUE_0", "value of a"),
            ("GIT_CONFIG_KEY_1", "b"),
            ("GIT_CONFIG_VALUE_1", "value of b"),
            ("GIT_CONFIG_KEY_2", "user.name"),
            ("GIT_CONFIG_VALUE_2", "me"),
            ("OTHER", "x"),
        ]);
        assert_eq!(with_git_settings(&caller, settings(&["a", "b"])).unwrap(), expected);
        assert_eq!(with_git_settings(&caller, Vec::new()).unwrap(), caller);
    }

    #[test]
    fn without_settings_of_the_caller_there_are_ours() {
        for caller in [env(&[]), env(&[("GIT_CONFIG_COUNT", "")]), env(&[("GIT_CONFIG_COUNT", "0")])] {
            let with = with_git_settings(&caller, settings(&["a"])).unwrap();
            assert_eq!(with.variables()["GIT_CONFIG_COUNT"], "1");
        }
    }

    #[test]
    fn settings_that_git_would_refuse_are_refused() {
        for variables in [
            [("GIT_CONFIG_COUNT", "x")].as_slice(),
            &[("GIT_CONFIG_COUNT", "-1")],
            &[("GIT_CONFIG_COUNT", "99999999999999999999")],
            &[("GIT_CONFIG_COUNT", "10001")],
            &[("GIT_CONFIG_COUNT", "1")],
            &[("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "a.b")],
        ] {
            let error = with_git_settings(&env(variables), settings(&["a"])).unwrap_err();
            assert_eq!(error.field(), "env", "{variables:?}");
        }
    }
}
