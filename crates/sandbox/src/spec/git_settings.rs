//! Git configuration in variables, which leaves the user's files in effect: `GIT_CONFIG_COUNT`,
//! `GIT_CONFIG_KEY_0`, `GIT_CONFIG_VALUE_0`, …

use std::collections::BTreeMap;

use sandbox_credentials::GitHost;
use sandbox_workspace::GitIdentity;

use super::{ContainerEnv, InvalidSpec};

const COUNT: &str = "GIT_CONFIG_COUNT";
/// The most settings that are read.
const MAX_SETTINGS: usize = 10_000;

/// `env` with `settings` (keys and values) before those that it already has: git uses the last
/// value of a key.
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

/// Settings (keys and values) with which git reaches a host over HTTPS even if a URL uses SSH,
/// which no proxy passes. The password is the surrogate, which the container has anyway.
pub(crate) fn over_https(host: GitHost<'_>) -> Vec<(String, String)> {
    let GitHost { host, user, surrogate, .. } = host;
    let instead = format!("url.https://{host}/.insteadOf");
    let mut settings =
        vec![(instead.clone(), format!("git@{host}:")), (instead, format!("ssh://git@{host}/"))];
    // The shell reads it: a surrogate that is not a plain word is left to the user.
    if surrogate.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)) {
        let print = format!("printf 'username=%s\\npassword=%s\\n' {user} {surrogate}");
        let helper = format!("!f() {{ if test \"$1\" = get; then {print}; fi; }}; f");
        settings.push((format!("credential.https://{host}.helper"), helper));
    }
    settings
}

/// Makes git use HTTP/1.1 with its proxy. Over HTTP/2, curl 7.88 (Debian 12) repeats parts of a
/// long upload: of 40 pushes of 4 MB, six were corrupt and one never ended. The proxy's protocol
/// with the upstream is independent of it.
pub(crate) fn http_1() -> (String, String) {
    ("http.version".to_owned(), "HTTP/1.1".to_owned())
}

/// The variable that names the system configuration to git.
pub(crate) const SYSTEM: &str = "GIT_CONFIG_SYSTEM";
/// The path of that configuration in the container, if the caller sets an identity.
pub(crate) const SYSTEM_FILE: &str = "/run/sandbox/gitconfig";

/// A system configuration with the committer's identity. It includes the image's own, which like
/// the repository's and the variables overrides it. `None` for an empty identity.
pub(crate) fn system_file(identity: &GitIdentity) -> Option<String> {
    let quoted = |value: &String| value.replace('\\', "\\\\").replace('"', "\\\"");
    let line = |key: &str, value: &Option<String>| {
        value.as_ref().map(|value| format!("\t{key} = \"{}\"\n", quoted(value))).unwrap_or_default()
    };
    let (name, email) = (line("name", &identity.name), line("email", &identity.email));
    (!identity.is_empty()).then(|| format!("[user]\n{name}{email}[include]\n\tpath = /etc/gitconfig\n"))
}

/// The settings in the caller's variables.
fn own(variables: &BTreeMap<String, String>) -> Result<Vec<(String, String)>, InvalidSpec> {
    let invalid = |problem: String| InvalidSpec::new("env", problem);
    let count = match variables.get(COUNT).map(String::as_str) {
        None | Some("") => 0,
        Some(text) => text.parse().ok().filter(|count| *count <= MAX_SETTINGS).ok_or_else(|| {
            invalid(format!("`{COUNT}` must be a number up to {MAX_SETTINGS}, not `{}`", text.escape_debug()))
        })?,
    };
    let one = |name: String| {
        let value = variables.get(&name).cloned();
        value.ok_or_else(|| invalid(format!("`{COUNT}` is {count}, and `{name}` is missing")))
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
    fn settings_of_the_caller_are_kept_and_come_last() {
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
    fn settings_without_any_of_the_caller_are_ours() {
        for caller in [env(&[]), env(&[("GIT_CONFIG_COUNT", "")]), env(&[("GIT_CONFIG_COUNT", "0")])] {
            let with = with_git_settings(&caller, settings(&["a"])).unwrap();
            assert_eq!(with.variables()["GIT_CONFIG_COUNT"], "1");
        }
    }

    #[test]
    fn ssh_url_of_a_masked_host_uses_https() {
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
    fn identity_is_in_the_file_of_lowest_precedence() {
        assert_eq!(system_file(&GitIdentity::default()), None);
        let name = Some("A \"B\" \\".to_owned());
        let text = system_file(&GitIdentity { name, email: None }).unwrap();
        assert_eq!(text, "[user]\n\tname = \"A \\\"B\\\" \\\\\"\n[include]\n\tpath = /etc/gitconfig\n");
    }

    #[test]
    fn setting_that_git_would_refuse_is_refused() {
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
