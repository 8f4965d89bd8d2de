//! From a document to a replacement map. No fault quotes anything of the document.

use std::collections::BTreeMap;

use allowlist::{Glob, HostPattern};
use serde::{Deserialize, Deserializer, de::Error};
use zeroize::Zeroizing;

use super::map::ReplacementMap;
use super::node::Node;
use super::write::SIGNING_TYPE;
use crate::limits::VALUE_LIMIT;
use crate::replacement::{MaskedReplacement, Replacement, SigningReplacement};
use crate::{HeaderPattern, Injection, SecretReplacements, SecretValue};

impl<'de> Deserialize<'de> for ReplacementMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Node::deserialize(deserializer)?;
        let entries = read(document).map_err(D::Error::custom)?;
        Ok(Self(SecretReplacements::new(entries)))
    }
}

/// Why a document is no replacement map. Keys are quoted only where they are ours.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("the replacement map is no map")]
    NoMap,
    /// The number counts from 1, in the order of the document.
    #[error("replacement {0}: {1}")]
    Entry(usize, EntryFault),
}

#[derive(Debug, thiserror::Error)]
enum EntryFault {
    #[error("it is no map")]
    NoMap,
    #[error("its surrogate is empty")]
    EmptySurrogate,
    #[error("its surrogate is that of an earlier one")]
    RepeatedSurrogate,
    #[error("its surrogate is a real value")]
    Unmasked,
    #[error("it has a key that is unknown for its type")]
    Unknown,
    #[error("its `type` is unknown")]
    Type,
    #[error("`{0}` is missing")]
    Missing(&'static str),
    #[error("`{0}` is there twice")]
    Repeated(&'static str),
    #[error("`{0}` is no {1}")]
    Kind(&'static str, &'static str),
    #[error("`{0}` is empty")]
    Empty(&'static str),
    #[error("`{0}` is longer than {VALUE_LIMIT} bytes")]
    TooLong(&'static str),
    #[error("pattern {1} of `{0}` is none")]
    Pattern(&'static str, usize),
    #[error("`session_token` and `surrogate_session_token` go together")]
    HalfToken,
}

fn read(document: Node) -> Result<BTreeMap<String, Replacement>, Fault> {
    let Node::Map(fields) = document else {
        return Err(Fault::NoMap);
    };
    let mut entries = BTreeMap::new();
    for (index, (surrogate, node)) in fields.into_iter().enumerate() {
        let fault = |fault| Fault::Entry(index + 1, fault);
        let replacement = read_entry(&surrogate, node).map_err(fault)?;
        if entries.insert(surrogate.to_string(), replacement).is_some() {
            return Err(fault(EntryFault::RepeatedSurrogate));
        }
    }
    Ok(entries)
}

fn read_entry(surrogate: &str, node: Node) -> Result<Replacement, EntryFault> {
    let Node::Map(fields) = node else {
        return Err(EntryFault::NoMap);
    };
    if surrogate.is_empty() {
        return Err(EntryFault::EmptySurrogate);
    }
    let mut fields = Fields(fields);
    let kind = fields.text("type")?;
    let (replacement, real) = match kind.as_deref().map(String::as_str) {
        None => {
            let masked = read_masked(&mut fields)?;
            let real = masked.value.clone();
            (Replacement::Masked(masked), real)
        }
        Some(SIGNING_TYPE) => {
            let signing = read_signing(&mut fields)?;
            let real = signing.access_key_id.clone();
            (Replacement::Signing(signing), real)
        }
        Some(_) => return Err(EntryFault::Type),
    };
    if !fields.0.is_empty() {
        return Err(EntryFault::Unknown);
    }
    if real.expose() == surrogate {
        return Err(EntryFault::Unmasked);
    }
    Ok(replacement)
}

fn read_masked(fields: &mut Fields) -> Result<MaskedReplacement, EntryFault> {
    Ok(MaskedReplacement {
        value: fields.secret("value")?,
        injection: Injection {
            scopes: fields.scopes()?,
            headers: fields.patterns("headers", |text| HeaderPattern::new(text).ok())?,
            basic_user: fields.text("basic_user")?.map(|text| Glob::new(&text)),
            allow_foreign_credentials: fields.flag("allow_foreign_credentials")?,
            allow_plaintext: fields.flag("allow_plaintext")?,
            allow_echo: fields.flag("allow_echo")?,
        },
    })
}

fn read_signing(fields: &mut Fields) -> Result<SigningReplacement, EntryFault> {
    let token = fields.optional_secret("session_token")?;
    let surrogate_token = fields.optional_surrogate("surrogate_session_token")?;
    Ok(SigningReplacement {
        access_key_id: fields.secret("access_key_id")?,
        secret_access_key: fields.secret("secret_access_key")?,
        surrogate_secret_access_key: fields
            .optional_surrogate("surrogate_secret_access_key")?
            .unwrap_or_default(),
        session_token: match (token, surrogate_token) {
            (None, None) => None,
            (Some(token), Some(surrogate)) => Some((token, surrogate)),
            _ => return Err(EntryFault::HalfToken),
        },
        scopes: fields.scopes()?,
        allow_foreign_credentials: fields.flag("allow_foreign_credentials")?,
    })
}

/// The fields of an entry that were not read yet.
struct Fields(Vec<(Zeroizing<String>, Node)>);

impl Fields {
    /// The field `key`, unless it is missing or null.
    fn take(&mut self, key: &'static str) -> Result<Option<Node>, EntryFault> {
        let (mut found, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(name, _)| name.as_str() == key);
        self.0 = rest;
        if found.len() > 1 {
            return Err(EntryFault::Repeated(key));
        }
        Ok(found
            .pop()
            .map(|(_, node)| node)
            .filter(|node| !matches!(node, Node::Null)))
    }

    fn text(&mut self, key: &'static str) -> Result<Option<Zeroizing<String>>, EntryFault> {
        match self.take(key)? {
            None => Ok(None),
            Some(Node::Text(text)) => Ok(Some(text)),
            Some(_) => Err(EntryFault::Kind(key, "text")),
        }
    }

    fn flag(&mut self, key: &'static str) -> Result<bool, EntryFault> {
        match self.take(key)? {
            None => Ok(false),
            Some(Node::Bool(flag)) => Ok(flag),
            Some(_) => Err(EntryFault::Kind(key, "boolean")),
        }
    }

    fn secret(&mut self, key: &'static str) -> Result<SecretValue, EntryFault> {
        self.optional_secret(key)?.ok_or(EntryFault::Missing(key))
    }

    fn optional_secret(&mut self, key: &'static str) -> Result<Option<SecretValue>, EntryFault> {
        let Some(mut text) = self.text(key)? else {
            return Ok(None);
        };
        match text.len() {
            0 => Err(EntryFault::Empty(key)),
            1..=VALUE_LIMIT => Ok(Some(SecretValue::new(std::mem::take(&mut *text)))),
            _ => Err(EntryFault::TooLong(key)),
        }
    }

    fn optional_surrogate(&mut self, key: &'static str) -> Result<Option<String>, EntryFault> {
        let text = self.text(key)?;
        if text.as_ref().is_some_and(|text| text.is_empty()) {
            return Err(EntryFault::Empty(key));
        }
        Ok(text.map(|mut text| std::mem::take(&mut *text)))
    }

    fn scopes(&mut self) -> Result<Vec<HostPattern>, EntryFault> {
        self.patterns("scopes", |text| HostPattern::new(text).ok())
    }

    fn patterns<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, EntryFault> {
        let Some(node) = self.take(key)? else {
            return Err(EntryFault::Missing(key));
        };
        let Node::List(list) = node else {
            return Err(EntryFault::Kind(key, "list"));
        };
        let read = |(index, node)| match node {
            Node::Text(text) => parse(&text).ok_or(EntryFault::Pattern(key, index + 1)),
            _ => Err(EntryFault::Pattern(key, index + 1)),
        };
        list.into_iter().enumerate().map(read).collect()
    }
}
