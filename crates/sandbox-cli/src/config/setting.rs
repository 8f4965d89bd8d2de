//! A text that stands in the configuration, or in the environment under a name that stands there.

use sandbox::credentials::SecretValue;

use super::Environment;
use super::location::{InvalidFile, Location};

/// A text of the configuration, or `!env NAME`. What it comes to is looked up when a task needs it, not before; `Debug` never shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    content: Content,
    location: Location,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Literal(SecretValue),
    Variable(String),
}

impl Setting {
    pub(super) fn literal(text: &str, location: Location) -> Self {
        Self {
            content: Content::Literal(SecretValue::new(text)),
            location,
        }
    }

    pub(super) fn variable(name: &str, location: Location) -> Self {
        Self {
            content: Content::Variable(name.to_owned()),
            location,
        }
    }

    /// The name behind `!env`; `None` where the text itself stands in the file.
    pub(crate) fn variable_name(&self) -> Option<&str> {
        match &self.content {
            Content::Literal(_) => None,
            Content::Variable(name) => Some(name),
        }
    }

    /// Where it stands.
    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// The text itself, at last.
    ///
    /// # Errors
    ///
    /// When the variable is not set, or is no text.
    pub(crate) fn resolve(&self, environment: &Environment) -> Result<SecretValue, InvalidFile> {
        let name = match &self.content {
            Content::Literal(text) => return Ok(text.clone()),
            Content::Variable(name) => name,
        };
        let shown = name.escape_debug();
        match environment.exact(name).map(|value| value.to_str()) {
            Some(Some(value)) => Ok(SecretValue::new(value)),
            Some(None) => Err(InvalidFile::new(
                &self.location,
                format!("the value of the variable `{shown}` is not UTF-8"),
            )),
            None => Err(InvalidFile::new(
                &self.location,
                format!(
                    "the variable `{shown}` is not set where `sandbox` runs: set it (empty, if the task can do without it), or remove this entry"
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
    fn a_variable_that_is_not_set_is_told_with_its_place() {
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
    fn nothing_shows_the_text() {
        let literal = Setting::literal("hunter2", here());
        assert!(!format!("{literal:?}").contains("hunter2"));
        assert!(!format!("{:?}", Environment::from([("A", "hunter2")])).contains("hunter2"));
    }
}
