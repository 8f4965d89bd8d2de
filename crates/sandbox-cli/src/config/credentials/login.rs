//! The part `logins` of `sandbox.yaml`: logins of agents that are refreshed on the host.

use std::path::{Path, PathBuf};

use allowlist::HostPattern;
use located_yaml::{Entries, InvalidFile, Location, Spanned};
use sandbox::credentials::Injection;
use sandbox::host_path::Resolver;
use sandbox_logins::{HttpsEndpoint, Login, LoginKind, TokenUrl};
use schemars::JsonSchema;
use serde::Deserialize;

use super::list::NonEmpty;
use crate::config::Environment;
use crate::printer::quoted;

/// An entry of `logins`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a mapping, as in {} or {file: /path/of/.credentials.json}"
)]
pub(in crate::config) struct LoginDocument {
    /// The file with the login; default the file of the agent's program on the host.
    #[schemars(with = "String")]
    file: Option<PathBuf>,
    /// Where tokens are refreshed; default the vendor's endpoint.
    #[schemars(with = "String", regex(pattern = "^https://|^http://(127\\.|\\[::1\\])"))]
    token_url: Option<Spanned<String>>,
    /// Hosts that get the access token; default the vendor's.
    #[schemars(with = "Vec<String>", length(min = 1))]
    scopes: Option<NonEmpty<HostPattern>>,
}

/// A login on the host that an agent works with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoginEntry {
    pub(crate) kind: LoginKind,
    /// Where the entry begins.
    pub(crate) location: Location,
    file: Option<PathBuf>,
    token_url: Option<TokenUrl>,
    pub(crate) injection: Injection,
}

/// The entries; relative paths start at `folder`.
pub(super) fn logins(
    documents: Entries<String, LoginDocument>,
    folder: &Path,
) -> Result<Vec<LoginEntry>, InvalidFile> {
    documents
        .into_iter()
        .map(|(name, document)| {
            let location = name.location().clone();
            let kind: LoginKind =
                name.parse().map_err(|problem: String| InvalidFile::new(&location, problem))?;
            let token_url = document.token_url.map(|written| {
                let invalid = |error| InvalidFile::new(written.location(), format!("`token_url` {error}"));
                written.parse::<TokenUrl>().map_err(invalid)
            });
            let usual = kind.injection();
            Ok(LoginEntry {
                kind,
                file: document.file.map(|file| folder.join(file)),
                token_url: token_url.transpose()?,
                injection: Injection {
                    scopes: document.scopes.map_or_else(|| usual.scopes.clone(), |list| list.0),
                    ..usual
                },
                location,
            })
        })
        .collect()
}

impl LoginEntry {
    /// Its name in messages and in the replacement map.
    pub(crate) fn name(&self) -> String {
        format!("logins.{}", self.kind.name())
    }

    /// The file with the login.
    pub(super) fn file(&self, environment: &Environment) -> Result<PathBuf, InvalidFile> {
        let usual = || self.kind.usual_file(|name| environment.path(name)).filter(|file| file.is_absolute());
        self.file.clone().or_else(usual).ok_or_else(|| {
            InvalidFile::new(
                &self.location,
                "HOME must name a folder; otherwise set `file` of this login".to_owned(),
            )
        })
    }

    /// The login, and where it is refreshed. `state` is the folder for the state of logins.
    pub(crate) fn open(
        &self,
        environment: &Environment,
        state: PathBuf,
        resolver: &Resolver,
    ) -> Result<(Login, HttpsEndpoint), InvalidFile> {
        let problem = |problem: String| InvalidFile::new(&self.location, problem);
        let file = self.file(environment)?;
        let url = match &self.token_url {
            Some(url) => url.clone(),
            None => {
                self.kind.token_url().parse().map_err(|error| problem(format!("its `token_url` {error}")))?
            }
        };
        Ok((Login::new(self.kind, file, state, resolver.clone()), HttpsEndpoint::new(url)))
    }

    /// Describes the file and the refresh endpoint, for the trust review.
    pub(crate) fn right(&self) -> String {
        let file = self.file.as_ref().map_or(String::new(), |file| {
            let file = quoted(&file.display().to_string());
            format!(" in {file}")
        });
        let url = self
            .token_url
            .as_ref()
            .map_or(String::new(), |url| format!(", refreshed at {}", quoted(&url.to_string())));
        format!("use your login of {}{file}{url}", self.kind.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFile;

    fn entries(yaml: &str) -> Result<Vec<LoginEntry>, String> {
        let file = ConfigFile::parse(yaml, "sandbox.yaml", Path::new("/project/.sandbox"));
        file.map(|file| file.credentials.logins).map_err(|problem| problem.to_string())
    }

    #[test]
    fn login_file_defaults_to_the_usual_place() {
        let environment = Environment::from([("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "relative")]);
        let file =
            |yaml: &str| entries(yaml).unwrap()[0].file(&environment).map(|file| file.display().to_string());
        assert_eq!(file("logins: {codex: {}}").as_deref(), Ok("/h/.codex/auth.json"));
        assert_eq!(file("logins: {codex: {file: ../x}}").as_deref(), Ok("/project/.sandbox/../x"));
        let problem = file("logins: {claude: {}}").unwrap_err().to_string();
        assert_eq!(problem, "sandbox.yaml:1:10: HOME must name a folder; otherwise set `file` of this login");
    }

    #[test]
    fn invalid_login_is_reported_with_its_place() {
        for (yaml, expected) in [
            ("logins: {gemini: {}}", "sandbox.yaml:1:10: unknown login `gemini`: use `claude` or `codex`"),
            (
                "logins: {claude: {token_url: 'http://a.example/'}}",
                "sandbox.yaml:1:30: `token_url` is not an address",
            ),
            ("logins: {claude: {scopes: []}}", "is empty, so the credential would not be sent"),
            ("logins: {claude: {token: x}}", "unknown key `token`"),
        ] {
            let problem = entries(yaml).unwrap_err();
            assert!(problem.contains(expected), "{yaml}: {problem}");
        }
    }
}
