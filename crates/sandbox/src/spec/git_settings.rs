//! Git's configuration in variables, which hides no file of the user's: `GIT_CONFIG_COUNT`,
//! `GIT_CONFIG_KEY_0`, `GIT_CONFIG_VALUE_0`, …

use std::collections::BTreeMap;

use sandbox_credentials::GitHost;
use sandbox_workspace::GitIdentity;

use super::{ContainerEnv, InvalidSpec};

const COUNT: &str = "GIT_CONFIG_COUNT";
/// More than anybody writes.
const MOST: usize = 10_000;

/// `env` with `settings` (keys and values) before those that it has already: git takes the last one
/// of a key.
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

/// Settings with which git reaches a host over HTTPS also where a URL says SSH, which no proxy
/// passes: keys and values. The password is the surrogate that the container has anyway.
pub(crate) fn over_https(host: GitHost<'_>) -> Vec<(String, String)> {
    let GitHost { host, user, surrogate, .. } = host;
    let instead = format!("url.https://{host}/.insteadOf");
    let mut settings =
        vec![(instead.clone(), format!("git@{host}:")), (instead, format!("ssh://git@{host}/"))];
    // The shell reads it: what it could read as anything but a word is left to the user.
    if surrogate.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)) {
        let print = format!("printf 'username=%s\\npassword=%s\\n' {user} {surrogate}");
        let helper = format!("!f() {{ if test \"$1\" = get; then {print}; fi; }}; f");
        settings.push((format!("credential.https://{host}.helper"), helper));
    }
    settings
}

/// Makes git speak HTTP/1.1 with its proxy. Over HTTP/2, curl 7.88 (Debian 12) repeats parts of a
/// long upload: of 40 pushes of 4 MB six were broken, and one never ended. What the proxy speaks
/// with the upstream does not depend on it.
pub(crate) fn http_1() -> (String, String) {
    ("http.version".to_owned(), "HTTP/1.1".to_owned())
}

/// The variable that names the machine's configuration to git.
pub(crate) const SYSTEM: &str = "GIT_CONFIG_SYSTEM";
/// Where that is in the container, if the caller says who commits.
pub(crate) const SYSTEM_FILE: &str = "/run/sandbox/gitconfig";

/// A configuration of the machine that says who commits, unless the image's, the repository's or a
/// variable says otherwise: they all come later. `None` where there is nothing to say.
pub(crate) fn system_file(identity: &GitIdentity) -> Option<String> {
    let quoted = |value: &String| value.replace('\\', "\\\\").replace('"', "\\\"");
    let line = |key: &str, value: &Option<String>| {
        value.as_ref().map(|value| format!("\t{key} = \"{}\"\n", quoted(value))).unwrap_or_default()
    };
    let (name, email) = (line("name", &identity.name), line("email", &identity.email));
    (!identity.is_empty()).then(|| format!("[user]\n{name}{email}[include]\n\tpath = /etc/gitconfig\n"))
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
    use sandbox_credentials::{MaskedSecret, Preset, SecretValue, prepare_secrets};

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
    fn git_reaches_a_host_of_a_masked_secret_over_https() {
        let secret = |value: &str| {
            let value = SecretValue::new(value);
            let secret = MaskedSecret::new("TOKEN", value, Preset::Gitlab.injection());
            prepare_secrets(&[secret], &[]).unwrap()
        };
        let settings = |value: &str| {
            let prepared = secret(value);
            let settings: Vec<_> =
                prepared.replacements().git_hosts().into_iter().flat_map(over_https).collect();
            (settings, prepared.env_vars()["TOKEN"].clone())
        };
        let (plain, surrogate) = settings("glpat-0123456789abcdefghij");
        let instead = "url.https://gitlab.com/.insteadOf";
        let helper = format!(
            "!f() {{ if test \"$1\" = get; then printf 'username=%s\\npassword=%s\\n' oauth2 {surrogate}; fi; }}; f"
        );
        let expected = [
            (instead, "git@gitlab.com:"),
            (instead, "ssh://git@gitlab.com/"),
            ("credential.https://gitlab.com.helper", &helper),
        ];
        assert_eq!(plain, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let (strange, _) = settings("0123456789abcdefghij;$(reboot)'");
        assert_eq!(strange.len(), 2, "{strange:?}");
    }

    #[test]
    fn who_commits_is_said_where_everything_else_wins() {
        assert_eq!(system_file(&GitIdentity::default()), None);
        let name = Some("A \"B\" \\".to_owned());
        let text = system_file(&GitIdentity { name, email: None }).unwrap();
        assert_eq!(text, "[user]\n\tname = \"A \\\"B\\\" \\\\\"\n[include]\n\tpath = /etc/gitconfig\n");
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
