//! Well-known credentials.

use std::str::FromStr;

use allowlist::{Glob, HostPattern};

use crate::{HeaderPattern, Injection, SecretError};

/// The content of a preset, as texts.
struct Row {
    name: &'static str,
    scopes: &'static [&'static str],
    headers: &'static [&'static str],
    /// Pattern of the other half in `Basic`; an empty one requires an empty half.
    basic_user: Option<&'static str>,
    signing_scopes: &'static [&'static str],
}

const EMPTY: Row = Row { name: "", scopes: &[], headers: &[], basic_user: Some(""), signing_scopes: &[] };

/// Generates [`Preset`] from its table: each kind of credential is one row.
macro_rules! presets {
    ($($(#[$doc:meta])* $preset:ident = $row:expr;)+) => {
        /// A well-known kind of credential: its usual hosts and headers.
        ///
        /// A preset is as narrow as common clients permit. Its fields can be overridden
        /// individually:
        ///
        /// ```
        /// use allowlist::HostPattern;
        /// use sandbox_credentials::{Injection, Preset};
        ///
        /// let preset: Preset = "gitlab".parse()?;
        /// let injection = Injection {
        ///     scopes: vec![HostPattern::new("gitlab.example.org")?],
        ///     ..preset.injection()
        /// };
        /// assert!(injection.headers.iter().any(|header| header.matches("private-token")));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Preset {
            $($(#[$doc])* $preset,)+
        }

        impl Preset {
            /// Every preset, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$preset),+];

            fn row(self) -> &'static Row {
                match self {
                    $(Self::$preset => const { &$row },)+
                }
            }
        }
    };
}

presets! {
    /// GitHub tokens, for git over HTTPS (gists too), the API and uploads to releases.
    ///
    /// In `Basic`, the other half must begin with `x-`: `x-access-token` as the user, which gh's
    /// credential helper and GitHub's own documentation use, or `x-oauth-basic` as the password.
    /// GitHub ignores that half unless it is a token, and no token begins so. For scripts with
    /// another user name, set `basic_user` to that name.
    Github = Row {
        name: "github",
        scopes: &["github.com", "api.github.com", "uploads.github.com", "gist.github.com"],
        headers: &["Authorization"],
        basic_user: Some("x-*"),
        ..EMPTY
    };
    /// GitLab tokens on gitlab.com: `Private-Token`, `Job-Token`, `Deploy-Token`, and
    /// `Authorization` as `Bearer` or for git.
    ///
    /// In `Basic`, the user must be `oauth2`, which glab's credential helper uses. A job's token
    /// needs `basic_user: gitlab-ci-token`, a deploy token the user that belongs to it.
    Gitlab = Row {
        name: "gitlab",
        scopes: &["gitlab.com"],
        headers: &["Authorization", "Private-Token", "Job-Token", "Deploy-Token"],
        basic_user: Some("oauth2"),
        ..EMPTY
    };
    /// Anthropic API keys (`X-Api-Key`) and OAuth tokens (`Authorization`).
    Anthropic = Row {
        name: "anthropic",
        scopes: &["api.anthropic.com"],
        headers: &["X-Api-Key", "Authorization"],
        ..EMPTY
    };
    /// `OpenAI` API keys. The API accepts a key as either half of `Basic`; the other must be empty.
    Openai = Row {
        name: "openai",
        scopes: &["api.openai.com"],
        headers: &["Authorization"],
        ..EMPTY
    };
    /// Gemini API keys (`X-Goog-Api-Key`, and `Authorization` for the endpoints in the form of
    /// `OpenAI`).
    Gemini = Row {
        name: "gemini",
        scopes: &["generativelanguage.googleapis.com"],
        // Bearer for the endpoints in the form of OpenAI; also so that no other credential passes
        // there.
        headers: &["X-Goog-Api-Key", "Authorization"],
        ..EMPTY
    };
    /// AWS access keys: for signing credentials, not for masked secrets.
    Aws = Row {
        name: "aws",
        basic_user: None,
        signing_scopes: &[
            "*.amazonaws.com",
            "*.api.aws",
            "*.amazonaws.com.cn",
            "*.api.amazonwebservices.com.cn",
            "*.amazonaws.eu",
            "*.api.amazonwebservices.eu",
        ],
        ..EMPTY
    };
    /// Tokens of npm-style registries, sent as `Bearer`. They have no scopes: the user names the
    /// registry's hosts.
    Npm = Row {
        name: "npm",
        headers: &["Authorization"],
        ..EMPTY
    };
    /// Tokens of `PyPI`-style indexes, sent as the password of `__token__`. They have no scopes:
    /// the user names the index's hosts.
    Pypi = Row {
        name: "pypi",
        headers: &["Authorization"],
        basic_user: Some("__token__"),
        ..EMPTY
    };
}

impl Preset {
    /// Its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The injection of a masked secret of this kind. Scopes are empty if the service has no fixed
    /// host (package registries): then the user names them. For [`Preset::Aws`] headers are empty
    /// too: a signature does not carry the key.
    ///
    /// Without scopes or headers, [`prepare_secrets`](crate::prepare_secrets) refuses the secret
    /// with an error that names the missing key.
    #[must_use]
    pub fn injection(self) -> Injection {
        let row = self.row();
        Injection {
            scopes: hosts(row.scopes),
            headers: row.headers.iter().filter_map(|text| HeaderPattern::new(text).ok()).collect(),
            basic_user: row.basic_user.map(Glob::new),
            ..Injection::default()
        }
    }

    /// The hosts whose requests a signing credential of this kind signs; empty for kinds that sign
    /// nothing.
    ///
    /// Those of AWS are the endpoints of its public partitions, including dual-stack ones. They are
    /// many, and anyone with an account can host content below them, so if the task needs few, name
    /// those instead.
    #[must_use]
    pub fn signing_scopes(self) -> Vec<HostPattern> {
        hosts(self.row().signing_scopes)
    }
}

impl FromStr for Preset {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let found = Self::ALL.iter().find(|preset| preset.name() == text);
        found.copied().ok_or_else(|| SecretError::UnknownPreset { name: text.to_owned() })
    }
}

/// The names of all presets, for messages.
pub(crate) fn names() -> String {
    let names: Vec<_> = Preset::ALL.iter().map(|preset| preset.name()).collect();
    names.join(", ")
}

/// Every text is a valid pattern, as a test verifies, so none is skipped.
fn hosts(texts: &[&str]) -> Vec<HostPattern> {
    texts.iter().filter_map(|text| HostPattern::new(text).ok()).collect()
}

#[cfg(test)]
mod tests {
    use allowlist::HostName;

    use super::*;
    use crate::{MaskedSecret, SecretValue, prepare_secrets};

    #[test]
    fn unknown_preset_is_an_error_that_lists_the_names() {
        for preset in Preset::ALL {
            assert_eq!(preset.name().parse(), Ok(*preset));
        }
        for name in ["", "GitHub", "github ", "gh"] {
            let error = name.parse::<Preset>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown preset `{name}`")), "{error}");
            assert!(error.ends_with(&format!("expected one of {}", super::names())), "{error}");
        }
    }

    #[test]
    fn texts_of_presets_are_valid_patterns() {
        for preset in Preset::ALL {
            let row = preset.row();
            let injection = preset.injection();
            assert_eq!(injection.scopes.len(), row.scopes.len(), "{preset:?}");
            assert_eq!(injection.headers.len(), row.headers.len(), "{preset:?}");
            assert!(
                injection.headers.iter().all(HeaderPattern::is_exact),
                "foreign credentials are stripped of exact headers only: {preset:?}"
            );
        }
        assert_eq!(Preset::Aws.signing_scopes().len(), 6);
    }

    #[test]
    fn preset_covers_its_service_and_no_lookalike() {
        let covers = |scopes: &[HostPattern], host: &str| {
            let host = HostName::from_wire(host.as_bytes()).unwrap();
            scopes.iter().any(|scope| scope.matches(&host))
        };
        for (preset, host, expected) in [
            (Preset::Github, "github.com", true),
            (Preset::Github, "api.github.com", true),
            (Preset::Github, "github.com.evil.example", false),
            (Preset::Github, "user.github.io", false),
            (Preset::Github, "objects.githubusercontent.com", false),
            (Preset::Gitlab, "gitlab.com", true),
            (Preset::Gitlab, "evil.gitlab.com", false),
            (Preset::Anthropic, "api.anthropic.com", true),
            (Preset::Anthropic, "anthropic.com", false),
            (Preset::Openai, "api.openai.com", true),
            (Preset::Gemini, "generativelanguage.googleapis.com", true),
            (Preset::Gemini, "storage.googleapis.com", false),
        ] {
            assert_eq!(covers(&preset.injection().scopes, host), expected, "{host}");
        }
        for (host, expected) in [
            ("s3.amazonaws.com", true),
            ("bucket.s3.dualstack.eu-west-1.amazonaws.com", true),
            ("bedrock-runtime.us-east-1.api.aws", true),
            ("sts.cn-north-1.amazonaws.com.cn", true),
            ("sts.eusc-de-east-1.amazonaws.eu", true),
            ("evil-amazonaws.com", false),
            ("amazonaws.com.evil.example", false),
            ("abc.lambda-url.us-east-1.on.aws", false),
        ] {
            assert_eq!(covers(&Preset::Aws.signing_scopes(), host), expected, "{host}");
        }
        assert_eq!(Preset::Github.signing_scopes(), []);
    }

    #[test]
    fn other_half_of_a_basic_pair_is_not_a_key() {
        for (preset, half, expected) in [
            (Preset::Github, "x-access-token", true),
            (Preset::Github, "x-oauth-basic", true),
            (Preset::Github, "ghp_attacker", false),
            (Preset::Github, "github_pat_attacker", false),
            (Preset::Github, "0123456789abcdef0123456789abcdef01234567", false),
            (Preset::Github, "", false),
            (Preset::Gitlab, "oauth2", true),
            (Preset::Gitlab, "glpat-attacker", false),
            (Preset::Openai, "", true),
            (Preset::Openai, "sk-attacker", false),
            (Preset::Anthropic, "sk-ant-attacker", false),
            (Preset::Npm, "npm_attacker", false),
            (Preset::Pypi, "__token__", true),
            (Preset::Pypi, "attacker", false),
        ] {
            let pattern = preset.injection().basic_user.unwrap();
            assert_eq!(pattern.matches(half), expected, "{preset:?} {half}");
        }
    }

    #[test]
    fn preset_without_hosts_requires_scopes() {
        for preset in Preset::ALL {
            let secret = MaskedSecret::new("TOKEN", SecretValue::new("x"), preset.injection());
            let message = prepare_secrets(&[secret], &[]).err().map(|error| error.to_string());
            let asks = message.is_some_and(|message| message.contains("name the hosts that get it"));
            let expected = matches!(preset, Preset::Aws | Preset::Npm | Preset::Pypi);
            assert_eq!(asks, expected, "{preset:?}");
        }
    }
}
