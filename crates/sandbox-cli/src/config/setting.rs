//! A text in the configuration, or a variable of the environment that the configuration names.

use std::borrow::Cow;
use std::fmt;

use located_yaml::{InvalidFile, Location, Spanned};
use sandbox::credentials::SecretValue;
use sandbox_files::hex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, EnumAccess, Error, VariantAccess, Visitor};
use sha2::{Digest as _, Sha256};

use super::Environment;

/// The only known tag.
pub(super) const ENV_TAG: &str = "env";

/// A text of the configuration, or `!env NAME`. The value is looked up when a task needs it, not
/// before; `Debug` never shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting(Spanned<Content>);

/// A [`Setting`] without its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Literal(SecretValue),
    Variable(String),
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;

        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or `!env NAME`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
                Ok(Content::literal(text))
            }

            fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Content, A::Error> {
                let (tag, content) = tagged.variant::<String>()?;
                if tag != ENV_TAG {
                    let tag = tag.escape_debug();
                    return Err(A::Error::custom(format!("unknown tag `!{tag}`; expected `!env NAME`")));
                }
                Content::of_variable(content)
            }
        }

        deserializer.deserialize_any(ContentVisitor)
    }
}

impl Content {
    /// A text of the file.
    pub(super) fn literal(text: &str) -> Self {
        Self::Literal(SecretValue::new(text))
    }

    /// Reads the name after `!env`.
    pub(super) fn of_variable<'de, A: VariantAccess<'de>>(content: A) -> Result<Self, A::Error> {
        match content.newtype_variant::<VariableName>() {
            Ok(name) => Ok(Self::Variable(name.into())),
            Err(_) => Err(A::Error::custom("`!env` takes the name of a variable, as in `!env GH_TOKEN`")),
        }
    }
}

impl JsonSchema for Setting {
    fn schema_name() -> Cow<'static, str> {
        "text_or_env".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A text, or `!env NAME`: the variable NAME where the command runs, which must be set."
        })
    }
}

/// The name of a variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(try_from = "String")]
pub(super) struct VariableName(String);

impl VariableName {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<VariableName> for String {
    fn from(name: VariableName) -> Self {
        name.0
    }
}

impl TryFrom<String> for VariableName {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, &'static str> {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err("the name of a variable must not be empty or contain `=`");
        }
        Ok(Self(name))
    }
}

impl Setting {
    pub(super) fn new(content: Content, location: Location) -> Self {
        Self(Spanned::new(content, location))
    }

    pub(super) fn literal(value: SecretValue, location: Location) -> Self {
        Self(Spanned::new(Content::Literal(value), location))
    }

    pub(super) fn variable(name: &str, location: Location) -> Self {
        Self(Spanned::new(Content::Variable(name.to_owned()), location))
    }

    /// The name after `!env`; `None` if the text itself is in the file.
    pub(crate) fn variable_name(&self) -> Option<&str> {
        match &*self.0 {
            Content::Literal(_) => None,
            Content::Variable(name) => Some(name),
        }
    }

    /// The name of the variable, or a digest that identifies the text without revealing it.
    pub(crate) fn digest(&self) -> String {
        let text = match &*self.0 {
            Content::Literal(text) => text.expose(),
            Content::Variable(name) => name,
        };
        // Long enough that no other text with the same prefix can be found.
        hex(Sha256::digest(text.as_bytes()).get(..20).unwrap_or_default())
    }

    /// Where it is written.
    pub(crate) fn location(&self) -> &Location {
        self.0.location()
    }

    /// The text itself.
    ///
    /// # Errors
    ///
    /// If the variable is not set, or is not text.
    pub(crate) fn resolve(&self, environment: &Environment) -> Result<SecretValue, InvalidFile> {
        let name = match &*self.0 {
            Content::Literal(text) => return Ok(text.clone()),
            Content::Variable(name) => name,
        };
        let shown = name.escape_debug();
        match environment.exact(name).map(|value| value.to_str()) {
            Some(Some(value)) => Ok(SecretValue::new(value)),
            Some(None) => Err(InvalidFile::new(
                self.location(),
                format!("the value of the variable `{shown}` is not UTF-8"),
            )),
            None => Err(InvalidFile::new(
                self.location(),
                format!(
                    "the variable `{shown}` is not set where `sandbox` runs: set it (to an empty \
                     value if the task does not need it), or remove this entry"
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use located_yaml::Position;

    fn here() -> Location {
        Location::new("sandbox.yaml", Position { line: 3, column: 7 })
    }

    #[test]
    fn unset_variable_is_reported_with_its_place() {
        let environment = Environment::from([("SET", "hunter2"), ("EMPTY", "")]);
        let resolve = |name: &str| Setting::variable(name, here()).resolve(&environment);
        assert_eq!(resolve("SET").unwrap().expose(), "hunter2");
        assert!(resolve("EMPTY").unwrap().is_empty());
        assert!(
            resolve("NONE").unwrap_err().to_string().starts_with(
                "sandbox.yaml:3:7: the variable `NONE` is not set where `sandbox` runs: set it ("
            )
        );
    }

    #[test]
    fn debug_output_hides_the_text() {
        let literal = Setting::literal(SecretValue::new("hunter2"), here());
        assert!(!format!("{literal:?}").contains("hunter2"));
        assert!(!format!("{:?}", Environment::from([("A", "hunter2")])).contains("hunter2"));
    }
}
