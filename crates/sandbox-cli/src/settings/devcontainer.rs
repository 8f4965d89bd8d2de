//! `devcontainer.json` as the source of an image, and its ignored keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandbox::ImageSource;
use sandbox::host_path::Found;
use serde_json::{Map, Value};

use super::Project;
use crate::failure::Failure;
use crate::image_context;

/// Its possible paths, in the order of the search.
const PLACES: [&str; 2] = [".devcontainer/devcontainer.json", ".devcontainer.json"];
/// The maximum size: 1 MiB.
const LONGEST: u64 = 1 << 20;
/// Keys without a meaning for an image.
const HARMLESS: [&str; 2] = ["name", "$schema"];

/// An image that a `devcontainer.json` describes.
#[derive(Debug)]
pub(super) struct Devcontainer {
    /// The file.
    pub(super) found: Found,
    pub(super) image: ImageSource,
    /// Its keys that are ignored.
    pub(super) ignored: Vec<String>,
}

/// The description of the image in the file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Description {
    image: Option<String>,
    dockerfile: Option<String>,
    context: Option<String>,
    env: BTreeMap<String, String>,
    ignored: Vec<String>,
}

impl Project {
    /// The image that the project's `devcontainer.json` describes; `None` if there is no file, or
    /// it describes no image, as with a compose file.
    pub(super) fn devcontainer(&self) -> Result<Option<Devcontainer>, Failure> {
        let Some((path, found, description)) = self.described_image()? else {
            return Ok(None);
        };
        let shown = self.shown(&path);
        let folder = path.parent().unwrap_or(&self.root);
        let (text, files) = match (&description.image, &description.dockerfile) {
            (Some(image), _) => (format!("FROM {image}\n"), BTreeMap::new()),
            (None, dockerfile) => {
                let dockerfile = folder.join(dockerfile.as_deref().unwrap_or("Dockerfile"));
                let dockerfile = String::from_utf8(self.inside(&dockerfile)?.read(LONGEST)?);
                let dockerfile = dockerfile
                    .map_err(|_| Failure::new(format!("the Dockerfile of {shown} is not UTF-8")))?;
                let context = folder.join(description.context.as_deref().unwrap_or("."));
                (dockerfile, image_context::read(&self.inside(&context)?)?)
            }
        };
        let image = ImageSource::build(with_variables(text, &description.env), files);
        Ok(Some(Devcontainer { found, image, ignored: description.ignored }))
    }

    /// Whether there is such an image; an unreadable file counts too.
    pub(super) fn has_devcontainer(&self) -> bool {
        !matches!(self.described_image(), Ok(None))
    }

    fn described_image(&self) -> Result<Option<(PathBuf, Found, Description)>, Failure> {
        let Some((path, found)) = self.devcontainer_file()? else {
            return Ok(None);
        };
        let shown = self.shown(&path);
        let text = located_yaml::text(&found.read(LONGEST)?).map(str::to_owned);
        let text = text.map_err(|problem| {
            Failure::new(format!("{shown}:{}: {}", problem.position.line, problem.message))
        })?;
        let description =
            Description::read(&text).map_err(|problem| Failure::new(format!("{shown}:{problem}")))?;
        let is_one = description.image.is_some() || description.dockerfile.is_some();
        Ok(is_one.then_some((path, found, description)))
    }

    fn devcontainer_file(&self) -> Result<Option<(PathBuf, Found)>, Failure> {
        for place in PLACES {
            let path = self.root.join(place);
            match self.resolver.find(&path) {
                Err(error) if error.is_not_found() => {}
                found => return Ok(Some((path, found?))),
            }
        }
        Ok(None)
    }

    /// The file at `path`, which must be in the project.
    fn inside(&self, path: &Path) -> Result<Found, Failure> {
        let found = self.resolver.find(path)?;
        if found.path().starts_with(&self.root) {
            return Ok(found);
        }
        Err(Failure::new(format!(
            "`{}`, named by devcontainer.json, is outside of the project",
            path.display()
        ))
        .with_hint("name the Dockerfile with `dockerfile` and `context` in .sandbox/sandbox.yaml"))
    }
}

impl Description {
    /// Reads the file; an error begins with its line.
    fn read(text: &str) -> Result<Self, String> {
        let document: Map<String, Value> = serde_json::from_str(&plain_json(text)).map_err(|error| {
            format!("{}:{}: not valid JSON with comments: {error}", error.line(), error.column())
        })?;
        let mut description = Self::default();
        for (key, value) in document {
            match (key.as_str(), value) {
                ("image", Value::String(image)) => description.image = Some(image_name(image)?),
                ("dockerFile", Value::String(path)) => description.dockerfile = Some(path),
                ("context", Value::String(path)) => description.context = Some(path),
                ("build", Value::Object(build)) => description.read_build(build),
                ("containerEnv", Value::Object(env)) => description.read_env(env),
                (key, _) if HARMLESS.contains(&key) => {}
                _ => description.ignored.push(key),
            }
        }
        Ok(description)
    }

    fn read_build(&mut self, build: Map<String, Value>) {
        for (key, value) in build {
            match (key.as_str(), value) {
                ("dockerfile", Value::String(path)) => self.dockerfile = Some(path),
                ("context", Value::String(path)) => self.context = Some(path),
                _ => self.ignored.push(format!("build.{key}")),
            }
        }
    }

    /// A value that refers to the host is left out.
    fn read_env(&mut self, env: Map<String, Value>) {
        let is_name = |name: &str| {
            let mut bytes = name.bytes();
            bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        for (name, value) in env {
            match value {
                Value::String(value)
                    if is_name(&name) && !value.contains("${") && !value.contains(['\n', '\r', '\0']) =>
                {
                    self.env.insert(name, value);
                }
                _ => self.ignored.push(format!("containerEnv.{name}")),
            }
        }
    }
}

fn image_name(image: String) -> Result<String, String> {
    if image.is_empty() || image.contains(|c: char| c.is_whitespace() || c.is_control() || c == '$') {
        return Err(format!("1: `image` is not the name of an image: `{}`", image.escape_debug()));
    }
    Ok(image)
}

fn with_variables(mut dockerfile: String, env: &BTreeMap<String, String>) -> String {
    if !dockerfile.ends_with('\n') {
        dockerfile.push('\n');
    }
    for (name, value) in env {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$");
        dockerfile.extend(["ENV ", name, "=\"", &value, "\"\n"]);
    }
    dockerfile
}

/// The text with blanks instead of comments and of commas before a closing bracket, so that
/// positions remain the same.
fn plain_json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    // The position of the last comma, while only blanks and comments follow it.
    let mut comma = None;
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('"', _) => {
                comma = None;
                plain.push('"');
                while let Some(c) = rest.next() {
                    plain.push(c);
                    match c {
                        '\\' => plain.extend(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ('/', Some('/')) => {
                plain.push(' ');
                while let Some(c) = rest.next_if(|c| *c != '\n') {
                    blank(c, &mut plain);
                }
            }
            ('/', Some('*')) => {
                rest.next();
                plain.push_str("  ");
                let mut last = ' ';
                for c in rest.by_ref() {
                    blank(c, &mut plain);
                    if (last, c) == ('*', '/') {
                        break;
                    }
                    last = c;
                }
            }
            (',', _) => {
                comma = Some(plain.len());
                plain.push(',');
            }
            (']' | '}', _) => {
                if let Some(at) = comma.take() {
                    plain.replace_range(at..=at, " ");
                }
                plain.push(c);
            }
            (c, _) => {
                if !c.is_whitespace() {
                    comma = None;
                }
                plain.push(c);
            }
        }
    }
    plain
}

/// Appends as many blanks as `c` has bytes; line ends are kept.
fn blank(c: char, plain: &mut String) {
    if c == '\n' {
        plain.push('\n');
    } else {
        plain.extend(std::iter::repeat_n(' ', c.len_utf8()));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::fixtures::{image_args, project};
    use super::*;

    #[test]
    fn comments_and_trailing_commas_become_blanks() {
        for (text, expected) in [
            ("{} // x\n", "{}     \n"),
            ("{/* , \n */\"a\": 1,}", "{     \n   \"a\": 1 }"),
            ("{/*/ */}", "{      }"),
            (r#"{"a": "// \" /* ,}", "b": [1, /* é */ ]}"#, r#"{"a": "// \" /* ,}", "b": [1           ]}"#),
            ("/", "/"),
            ("/* never ends", "             "),
            ("\"never ends", "\"never ends"),
        ] {
            assert_eq!(plain_json(text), expected, "{text}");
        }
    }

    #[test]
    fn ignored_keys_are_listed() {
        let text = r#"{
            // A comment
            "name": "x",
            "image": "registry.example/x:1",
            "features": {"a": {}},
            "remoteUser": "vscode",
            "containerEnv": {"A": "a \"b\" $c", "HERE": "${localEnv:HOME}", "B=": "x"},
            "postCreateCommand": "npm install",
        }"#;
        let read = Description::read(text).unwrap();
        assert_eq!(read.image.as_deref(), Some("registry.example/x:1"));
        let ignored = ["containerEnv.B=", "containerEnv.HERE", "features", "postCreateCommand", "remoteUser"];
        let mut found = read.ignored.clone();
        found.sort();
        assert_eq!(found, ignored);
        assert_eq!(with_variables("FROM x".to_owned(), &read.env), "FROM x\nENV A=\"a \\\"b\\\" \\$c\"\n");
        let problem = Description::read("{\n  // x\n  image\n}").unwrap_err();
        assert!(problem.starts_with("3:3: not valid JSON"), "{problem}");
        assert!(Description::read(r#"{"image": "x\nRUN y"}"#).is_err());
    }

    #[test]
    fn devcontainer_is_used_only_without_a_configured_image() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        let project = project(&real, Path::new("/state"));
        let text = || match project.image(&image_args()).unwrap() {
            ImageSource::Build { dockerfile, .. } => String::from_utf8(dockerfile).unwrap(),
            ImageSource::Existing(name) => name,
        };
        fs::write(real.join(".devcontainer.json"), r#"{"dockerComposeFile": "x"}"#).unwrap();
        assert!(project.uses_default_image(&image_args()));
        fs::create_dir(real.join(".devcontainer")).unwrap();
        let file = real.join(".devcontainer/devcontainer.json");
        fs::write(&file, r#"{"build": {"dockerfile": "Own", "context": ".."}}"#).unwrap();
        fs::write(real.join(".devcontainer/Own"), "FROM own\nCOPY x /x\n").unwrap();
        assert!(text().starts_with("FROM own") && !project.uses_default_image(&image_args()));
        let review =
            project.review(Some(super::super::Needs { image: Some(&image_args()), allowlist: None }));
        let asked = review.changes(&real).text(false);
        assert!(
            asked.starts_with("  .devcontainer/devcontainer.json:\n    + build an image from it"),
            "{asked}"
        );

        fs::write(&file, r#"{"build": {"dockerfile": "/etc/passwd"}}"#).unwrap();
        assert!(project.image(&image_args()).unwrap_err().to_string().contains("is outside of the project"));
        fs::create_dir_all(real.join(".sandbox/container")).unwrap();
        fs::write(real.join(".sandbox/container/Dockerfile"), "FROM project\n").unwrap();
        assert_eq!(text(), "FROM project\n");
    }
}
