//! Reading typed values out of a document, with the way to each fault.

use std::collections::BTreeSet;
use std::sync::Arc;

use located_yaml::{Node, Step};

use super::location::{InvalidFile, Location};
use super::setting::Setting;

/// The one tag that means something, as the tree has it.
const ENV_TAG: &str = "env";

/// What a tree was read from.
pub(super) struct Source {
    file: Arc<str>,
    text: Arc<str>,
}

impl Source {
    /// `file` is what errors call the file of this text.
    pub(super) fn new(file: &str, text: &str) -> Self {
        Self {
            file: file.into(),
            text: text.into(),
        }
    }
}

/// A node and how it was reached.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    node: &'a Node,
    source: &'a Source,
    parent: Option<(&'a Place<'a>, Step)>,
}

impl<'a> Place<'a> {
    pub(super) fn root(node: &'a Node, source: &'a Source) -> Self {
        Self {
            node,
            source,
            parent: None,
        }
    }

    /// Where it stands in the file.
    pub(super) fn location(&self) -> Location {
        let mut steps = Vec::new();
        let mut place = self;
        while let Some((parent, step)) = place.parent {
            steps.push(step);
            place = parent;
        }
        steps.reverse();
        Location::of_part(&self.source.file, &self.source.text, steps)
    }

    pub(super) fn problem(&self, message: impl Into<String>) -> InvalidFile {
        InvalidFile::new(&self.location(), message)
    }

    fn wrong_type(&self, shape: &str) -> InvalidFile {
        let mend = match self.node {
            Node::Tagged(tag, _) if tag == ENV_TAG => {
                ": `!env` is for the values of `env` and of secrets only"
            }
            _ => "",
        };
        self.problem(format!("{shape}, not {}{mend}", self.node.kind()))
    }

    /// A text; `shape` says so.
    pub(super) fn text(&self, shape: &str) -> Result<&'a str, InvalidFile> {
        match self.node {
            Node::Text(text) if !text.contains('\0') => Ok(text),
            Node::Text(_) => Err(self.problem(format!("{shape}, without NUL characters"))),
            Node::Integer(_) | Node::Number(_) | Node::Boolean(_) => {
                Err(self.problem(format!("{shape}, not {}: put it in quotes", self.node.kind())))
            }
            _ => Err(self.wrong_type(shape)),
        }
    }

    /// A text, or `!env NAME`.
    pub(super) fn setting(&self, shape: &str) -> Result<Setting, InvalidFile> {
        let Node::Tagged(tag, content) = self.node else {
            return Ok(Setting::literal(self.text(shape)?, self.location()));
        };
        if tag != ENV_TAG {
            let message = format!("`!{}` means nothing here: use `!env NAME`", tag.escape_debug());
            return Err(self.problem(message));
        }
        match content.as_ref() {
            Node::Text(name) if is_variable_name(name) => Ok(Setting::variable(name, self.location())),
            _ => Err(self.problem("`!env` is followed by the name of a variable, as in `!env GH_TOKEN`")),
        }
    }

    /// The name of a variable.
    pub(super) fn variable_name(&self) -> Result<&'a str, InvalidFile> {
        let name = self.text("the name of a variable is a text")?;
        if is_variable_name(name) {
            return Ok(name);
        }
        Err(self.problem("this is no name of a variable: it must not be empty or hold `=`"))
    }

    pub(super) fn boolean(&self, shape: &str) -> Result<bool, InvalidFile> {
        match self.node {
            Node::Boolean(value) => Ok(*value),
            _ => Err(self.wrong_type(shape)),
        }
    }

    pub(super) fn whole_number<T: TryFrom<i64>>(&self, shape: &str) -> Result<T, InvalidFile> {
        match self.node {
            Node::Integer(value) => {
                T::try_from(*value).map_err(|_| self.problem(format!("{shape}; {value} is out of range")))
            }
            _ => Err(self.no_whole_number(shape)),
        }
    }

    fn no_whole_number(&self, shape: &str) -> InvalidFile {
        match self.node {
            Node::Number(value) if value.is_finite() => {
                self.problem(format!("{shape}, not a number with a fraction"))
            }
            Node::Number(_) => self.problem(format!("{shape}; this one is out of range")),
            _ => self.wrong_type(shape),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of processors is small")]
    pub(super) fn number(&self, shape: &str) -> Result<f64, InvalidFile> {
        match self.node {
            Node::Integer(value) => Ok(*value as f64),
            Node::Number(value) => Ok(*value),
            _ => Err(self.wrong_type(shape)),
        }
    }

    /// A text that means something, or a whole number, read by `parse`.
    pub(super) fn parsed<T>(
        &self,
        shape: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, InvalidFile> {
        let text = match self.node {
            Node::Text(text) => text.clone(),
            Node::Integer(value) => value.to_string(),
            _ => return Err(self.no_whole_number(shape)),
        };
        parse(&text).ok_or_else(|| self.problem(format!("{shape}, not `{}`", text.escape_debug())))
    }

    pub(super) fn items<T>(
        &self,
        shape: &str,
        read: impl Fn(&Place<'_>) -> Result<T, InvalidFile>,
    ) -> Result<Vec<T>, InvalidFile> {
        let Node::List(items) = self.node else {
            return Err(self.wrong_type(shape));
        };
        let place = |(index, node)| self.part(node, Step::Item(index));
        items.iter().enumerate().map(|item| read(&place(item))).collect()
    }

    /// Reads the entries of a mapping whose keys are `known`, each at most once and each with a value. `read` gets the key's place,
    /// the key and the value's place.
    pub(super) fn entries(
        &self,
        shape: &str,
        known: &[&str],
        mut read: impl FnMut(&Place<'_>, &str, &Place<'_>) -> Result<(), InvalidFile>,
    ) -> Result<(), InvalidFile> {
        self.any_entries(shape, |key, name, value| {
            if known.contains(&name) {
                return read(key, name, value);
            }
            Err(key.problem(format!(
                "unknown key `{}`: use {}",
                name.escape_debug(),
                listed(known)
            )))
        })
    }

    /// Likewise with any keys.
    pub(super) fn any_entries(
        &self,
        shape: &str,
        mut read: impl FnMut(&Place<'_>, &str, &Place<'_>) -> Result<(), InvalidFile>,
    ) -> Result<(), InvalidFile> {
        let Node::Map(entries) = self.node else {
            return Err(self.wrong_type(shape));
        };
        let mut seen = BTreeSet::new();
        for (index, (key_node, node)) in entries.iter().enumerate() {
            let key = self.part(key_node, Step::Key(index));
            let name = key.text("a key is a text")?;
            if !seen.insert(name) {
                return Err(key.problem(format!(
                    "`{}` stands here a second time: merge the two",
                    name.escape_debug()
                )));
            }
            if *node == Node::Null {
                let message = format!(
                    "`{}` has no value: give it one or remove the key",
                    name.escape_debug()
                );
                return Err(key.problem(message));
            }
            read(&key, name, &self.part(node, Step::Value(index)))?;
        }
        Ok(())
    }

    fn part<'b>(&'b self, node: &'b Node, step: Step) -> Place<'b> {
        Place {
            node,
            source: self.source,
            parent: Some((self, step)),
        }
    }
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

pub(super) fn listed(known: &[&str]) -> String {
    match known {
        [first @ .., last] if !first.is_empty() => format!("`{}` or `{last}`", first.join("`, `")),
        _ => format!("`{}`", known.concat()),
    }
}
