//! The source of a credential's value: a text, a variable, or a place on the host.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use located_yaml::{InvalidFile, Location, Spanned};
use sandbox::credentials::SecretValue;
use sandbox_logins::{GitHubApp, InvalidTokenUrl};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{EnumAccess, Error, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::config::Environment;
use crate::config::setting::{Content, ENV_TAG, Setting};
use crate::printer::quoted;

/// A placeholder for a value that was not read, where only its form matters.
pub(super) const PLACEHOLDER: &str = "stands-in-for-a-value-0123456789";

/// The tags for values that are not in the file.
const TAGS: &str =
    "`!env NAME`, `!command [PROGRAM, …]`, `!file PATH`, `!keyring NAME` or `!github_app {app: …, …}`";

/// The value of a credential, or its source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// A text or variable.
    Setting(Setting),
    /// A place on the host, which is read when a trusted command starts.
    Kept(Spanned<Kept>),
}

/// A place on the host that has a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kept {
    /// The output of a program; program first.
    Command(Vec<String>),
    /// The content of a file.
    File(PathBuf),
    /// The key of this name in the kernel's keyring of the user.
    Keyring(String),
    /// A token that a GitHub App creates with the key in a file.
    GitHubApp { app: GitHubApp, key: PathBuf },
}

/// The document after `!github_app`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GitHubAppDocument {
    app: AppId,
    installation: u64,
    key: PathBuf,
    repositories: Vec<String>,
    #[serde(default = "GitHubAppDocument::usual_api")]
    api: String,
}

/// The App's id, or its client id.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`app` is the id or client id of the App")]
enum AppId {
    Number(u64),
    Client(String),
}

impl GitHubAppDocument {
    fn usual_api() -> String {
        "https://api.github.com".to_owned()
    }
}

/// As it is written.
enum Written {
    Setting(Content),
    Kept(Kept),
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Spanned::<Written>::deserialize(deserializer)?;
        let location = written.location().clone();
        Ok(match written.into_inner() {
            Written::Setting(content) => Self::Setting(Setting::new(content, location)),
            Written::Kept(kept) => Self::Kept(Spanned::new(kept, location)),
        })
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WrittenVisitor;

        impl<'de> Visitor<'de> for WrittenVisitor {
            type Value = Written;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a text, {TAGS}")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Written, E> {
                Ok(Written::Setting(Content::literal(text)))
            }

            fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Written, A::Error> {
                let (tag, content) = tagged.variant::<String>()?;
                let kept = match tag.as_str() {
                    ENV_TAG => return Content::of_variable(content).map(Written::Setting),
                    "command" => content.newtype_variant().ok().and_then(Kept::command),
                    "file" => content.newtype_variant().ok().and_then(Kept::file),
                    "keyring" => content.newtype_variant().ok().and_then(Kept::keyring),
                    "github_app" => {
                        return Kept::github_app(content.newtype_variant()?)
                            .map(Written::Kept)
                            .map_err(A::Error::custom);
                    }
                    _ => {
                        return Err(A::Error::custom(format!(
                            "unknown tag `!{}`; expected {TAGS}",
                            tag.escape_debug()
                        )));
                    }
                };
                kept.map(Written::Kept).ok_or_else(|| A::Error::custom(Kept::usage(&tag)))
            }
        }

        deserializer.deserialize_any(WrittenVisitor)
    }
}

impl JsonSchema for Source {
    fn schema_name() -> Cow<'static, str> {
        "secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "array", "object"],
            "description": "A text; `!env NAME`: the variable NAME where the command runs, which must be set; `!command [PROGRAM, ARGUMENT]`: what a program prints, run without a shell; `!file PATH`; `!keyring NAME`: a key of the kernel's keyring of the user; or `!github_app {app, installation, key, repositories, api}`: an installation token of a GitHub App."
        })
    }
}

impl Kept {
    /// A name that is looked up, or an absolute path: a relative one would depend on the folder.
    fn command(command: Vec<String>) -> Option<Self> {
        let program = command.first()?;
        (!program.is_empty() && (program.starts_with('/') || !program.contains('/')))
            .then_some(Self::Command(command))
    }

    fn file(path: String) -> Option<Self> {
        (!path.is_empty()).then(|| Self::File(path.into()))
    }

    fn keyring(name: String) -> Option<Self> {
        (!name.is_empty()).then_some(Self::Keyring(name))
    }

    fn github_app(document: GitHubAppDocument) -> Result<Self, String> {
        let GitHubAppDocument { app, installation, key, repositories, api } = document;
        let is_name = |name: &String| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        };
        if repositories.is_empty() {
            return Err(
                "`repositories` must name the repositories of the token, without their owner".to_owned()
            );
        }
        if let Some(name) = repositories.iter().find(|name| !is_name(name)) {
            return Err(format!(
                "`{}` in `repositories` is not the name of a repository: write it without its owner, as in `[tool, docs]`",
                name.escape_debug()
            ));
        }
        let app = match app {
            AppId::Number(id) => id.to_string(),
            AppId::Client(id) if is_name(&id) => id,
            AppId::Client(id) => {
                return Err(format!("`{}` in `app` is not the id or client id of an App", id.escape_debug()));
            }
        };
        let app = GitHubApp::new(app, installation, repositories, &api)
            .map_err(|error: InvalidTokenUrl| format!("`api` {error}"))?;
        Ok(Self::GitHubApp { app, key })
    }

    /// The default validity of a value from here; `None`: until it is refused.
    pub(crate) fn usual_ttl(&self) -> Option<Duration> {
        match self {
            Self::GitHubApp { .. } => Some(GitHubApp::LIFETIME),
            Self::Command(_) | Self::File(_) | Self::Keyring(_) => None,
        }
    }

    fn usage(tag: &str) -> &'static str {
        match tag {
            "command" => {
                "`!command` takes a list: a program name or absolute path, then its arguments, as \
                 in `!command [op, read, \"op://vault/item/field\"]`"
            }
            "file" => "`!file` takes a path, as in `!file /run/secrets/token`",
            _ => "`!keyring` takes the name of a key, as in `!keyring gh-token`",
        }
    }
}

impl fmt::Display for Kept {
    /// Describes how it is read, for the trust review. One argument never looks like two.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=@%+,".contains(c);
        match self {
            Self::Command(command) => {
                let quoted = command.iter().map(|word| {
                    if !word.is_empty() && word.chars().all(plain) {
                        word.clone()
                    } else {
                        format!("{word:?}").replace('`', "\\x60")
                    }
                });
                write!(f, "run `{}` on the host", quoted.collect::<Vec<_>>().join(" "))
            }
            Self::File(path) => write!(f, "read {} of the host", quoted(&path.display().to_string())),
            Self::Keyring(name) => write!(f, "read the key {} of your keyring", quoted(name)),
            Self::GitHubApp { app, key } => {
                write!(f, "make {app}, with the key in {}", quoted(&key.display().to_string()))
            }
        }
    }
}

impl Source {
    pub(super) fn variable(name: &str, location: Location) -> Self {
        Self::Setting(Setting::variable(name, location))
    }

    /// The same, with a relative path of a file resolved in `folder`.
    pub(super) fn relative_to(self, folder: &Path) -> Self {
        match self {
            Self::Kept(kept) => {
                let location = kept.location().clone();
                let kept = match kept.into_inner() {
                    Kept::File(path) => Kept::File(folder.join(path)),
                    Kept::GitHubApp { app, key } => Kept::GitHubApp { app, key: folder.join(key) },
                    other => other,
                };
                Self::Kept(Spanned::new(kept, location))
            }
            setting @ Self::Setting(_) => setting,
        }
    }

    /// The name after `!env`.
    pub(crate) fn variable_name(&self) -> Option<&str> {
        match self {
            Self::Setting(setting) => setting.variable_name(),
            Self::Kept(_) => None,
        }
    }

    /// Describes how it is obtained, for the trust review.
    pub(crate) fn right(&self) -> String {
        match self {
            Self::Kept(kept) => (**kept).to_string(),
            Self::Setting(setting) => match setting.variable_name() {
                Some(name) => format!("read your variable {}", quoted(name)),
                None => format!("use the text of the file with the digest {}", setting.digest()),
            },
        }
    }

    /// Whether the value is in the file itself.
    pub(super) fn is_literal(&self) -> bool {
        matches!(self, Self::Setting(setting) if setting.variable_name().is_none())
    }

    /// Its place on the host, and the location of that in the file.
    pub(crate) fn kept(&self) -> Option<&Spanned<Kept>> {
        match self {
            Self::Setting(_) => None,
            Self::Kept(kept) => Some(kept),
        }
    }

    /// Where it is written.
    pub(crate) fn location(&self) -> &Location {
        match self {
            Self::Setting(setting) => setting.location(),
            Self::Kept(kept) => kept.location(),
        }
    }

    /// The same with a value that was read.
    pub(super) fn with(&self, value: SecretValue) -> Self {
        Self::Setting(Setting::literal(value, self.location().clone()))
    }

    /// The same, with a placeholder if the value is kept on the host.
    pub(super) fn placeholder(&self) -> Self {
        if self.kept().is_some() { self.with(SecretValue::new(PLACEHOLDER)) } else { self.clone() }
    }

    /// The value itself.
    ///
    /// # Errors
    ///
    /// If it is a variable that is not set, or a value that was not read from its place.
    pub(super) fn resolve(&self, environment: &Environment) -> Result<SecretValue, InvalidFile> {
        match self {
            Self::Setting(setting) => setting.resolve(environment),
            Self::Kept(kept) => Err(InvalidFile::new(kept.location(), "this value was not read")),
        }
    }
}
