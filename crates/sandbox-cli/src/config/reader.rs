//! Reading typed values out of a document, with the way to each fault.

use super::document::{Node, Step};

/// A fault and the way to it from the root of the tree.
#[derive(Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) steps: Vec<Step>,
    pub(super) message: String,
}

/// A node and how it was reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    node: &'a Node,
    parent: Option<(&'a Place<'a>, Step)>,
}

impl<'a> Place<'a> {
    pub(super) fn root(node: &'a Node) -> Self {
        Self { node, parent: None }
    }

    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        let mut steps = Vec::new();
        let mut place = self;
        while let Some((parent, step)) = place.parent {
            steps.push(step);
            place = parent;
        }
        steps.reverse();
        Problem {
            steps,
            message: message.into(),
        }
    }

    fn wrong_type(&self, shape: &str) -> Problem {
        self.problem(format!("{shape}, not {}", self.node.kind()))
    }

    pub(super) fn text(&self, shape: &str) -> Result<&'a str, Problem> {
        match self.node {
            Node::Text(text) if !text.contains('\0') => Ok(text),
            Node::Text(_) => Err(self.problem(format!("{shape}, without NUL characters"))),
            _ => Err(self.wrong_type(shape)),
        }
    }

    pub(super) fn boolean(&self, shape: &str) -> Result<bool, Problem> {
        match self.node {
            Node::Boolean(value) => Ok(*value),
            _ => Err(self.wrong_type(shape)),
        }
    }

    pub(super) fn whole_number<T: TryFrom<i64>>(&self, shape: &str) -> Result<T, Problem> {
        match self.node {
            Node::Integer(value) => {
                T::try_from(*value).map_err(|_| self.problem(format!("{shape}; {value} is out of range")))
            }
            _ => Err(self.wrong_type(shape)),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of processors is small")]
    pub(super) fn number(&self, shape: &str) -> Result<f64, Problem> {
        match self.node {
            Node::Integer(value) => Ok(*value as f64),
            Node::Number(value) => Ok(*value),
            _ => Err(self.wrong_type(shape)),
        }
    }

    /// A text that means something, or a whole number, read by `parse`.
    pub(super) fn parsed<T>(&self, shape: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Problem> {
        let text = match self.node {
            Node::Text(text) => text.clone(),
            Node::Integer(value) => value.to_string(),
            _ => return Err(self.wrong_type(shape)),
        };
        parse(&text).ok_or_else(|| self.problem(format!("{shape}, not `{}`", text.escape_debug())))
    }

    pub(super) fn items<T>(
        &self,
        shape: &str,
        read: impl Fn(&Place<'_>) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        let Node::List(items) = self.node else {
            return Err(self.wrong_type(shape));
        };
        let place = |(index, node)| Place {
            node,
            parent: Some((self, Step::Item(index))),
        };
        items.iter().enumerate().map(|item| read(&place(item))).collect()
    }

    /// Reads the entries of a mapping whose keys are `known`, each at most once and each with a value. `read` gets the key's place,
    /// the key and the value's place.
    pub(super) fn entries(
        &self,
        shape: &str,
        known: &[&str],
        mut read: impl FnMut(&Place<'_>, &str, &Place<'_>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
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
        mut read: impl FnMut(&Place<'_>, &str, &Place<'_>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let Node::Map(entries) = self.node else {
            return Err(self.wrong_type(shape));
        };
        let mut seen: Vec<&str> = Vec::new();
        for (index, (key_node, node)) in entries.iter().enumerate() {
            let key = Place {
                node: key_node,
                parent: Some((self, Step::Key(index))),
            };
            let name = key.text("a key is a text: put it in quotes")?;
            if seen.contains(&name) {
                return Err(key.problem(format!(
                    "`{}` stands here a second time: merge the two",
                    name.escape_debug()
                )));
            }
            seen.push(name);
            if *node == Node::Null {
                let message = format!(
                    "`{}` has no value: give it one or remove the key",
                    name.escape_debug()
                );
                return Err(key.problem(message));
            }
            read(
                &key,
                name,
                &Place {
                    node,
                    parent: Some((self, Step::Value(index))),
                },
            )?;
        }
        Ok(())
    }
}

fn listed(known: &[&str]) -> String {
    match known {
        [first @ .., last] if !first.is_empty() => format!("`{}` or `{last}`", first.join("`, `")),
        _ => format!("`{}`", known.concat()),
    }
}
