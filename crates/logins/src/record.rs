//! The record of refreshes, written before each, so that an interrupted one is recognised.

use std::io;
use std::path::{Path, PathBuf};

use sandbox_credentials::SecretValue;
use sandbox_files::{FileLock, Replacement, create_folder, hex, or_absent, read_if_present};
use sha2::{Digest as _, Sha256};

/// The paths of a login's record and its lock.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    folder: PathBuf,
    key: String,
}

/// The state of the refresh with one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// No attempt was made.
    None,
    /// An attempt began, and did not end.
    CutOff,
    /// An attempt was refused for this reason, and whether an earlier one was interrupted.
    Refused { code: String, cut_off_before: bool },
}

impl Record {
    /// The record of the login in `file`, in the folder `folder` of the sandbox's own state.
    pub(crate) fn new(folder: PathBuf, file: &Path) -> Self {
        let digest = Sha256::digest(file.as_os_str().as_encoded_bytes());
        Self { folder, key: hex(digest.get(..12).unwrap_or_default()) }
    }

    pub(crate) fn lock_path(&self) -> PathBuf {
        self.folder.join(format!("{}.lock", self.key))
    }

    /// Waits for every other process that refreshes this login.
    pub(crate) async fn lock(&self) -> io::Result<FileLock> {
        FileLock::exclusive(&self.lock_path()).await
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.attempt", self.key))
    }

    /// The recorded state of `token`.
    pub(crate) fn of(&self, token: &SecretValue) -> io::Result<Attempt> {
        let text = read_if_present(&self.path())?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut words = text.split_whitespace();
        if words.next() != Some(&digest(token)) {
            return Ok(Attempt::None);
        }
        Ok(match (words.next(), words.next()) {
            (Some("refused"), Some(code)) => {
                Attempt::Refused { code: code.to_owned(), cut_off_before: words.next() == Some("cut-off") }
            }
            _ => Attempt::CutOff,
        })
    }

    /// Records the state of `token`. It is on disk when this returns.
    pub(crate) fn note(&self, token: &SecretValue, attempt: &Attempt) -> io::Result<()> {
        let state = match attempt {
            Attempt::None => return or_absent(std::fs::remove_file(self.path())),
            Attempt::CutOff => "begun".to_owned(),
            Attempt::Refused { code, cut_off_before } => {
                let code = code.replace(char::is_whitespace, "-");
                format!("refused {code}{}", if *cut_off_before { " cut-off" } else { "" })
            }
        };
        create_folder(&self.folder, 0o700)?;
        let line = format!("{} {state}\n", digest(token));
        Replacement::private().durable().write(&self.path(), line.as_bytes())
    }
}

/// Identifies a token without showing it.
fn digest(token: &SecretValue) -> String {
    hex(&Sha256::digest(token.expose().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_belongs_to_one_token() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::new(folder.path().join("logins"), Path::new("/h/.claude/x"));
        let (one, other) = (SecretValue::new("one"), SecretValue::new("other"));
        let refused = Attempt::Refused { code: "no reason given".to_owned(), cut_off_before: true };
        let read = Attempt::Refused { code: "no-reason-given".to_owned(), cut_off_before: true };
        assert_eq!(record.of(&one).unwrap(), Attempt::None);
        record.note(&one, &Attempt::None).unwrap();
        for (noted, expected) in
            [(&Attempt::CutOff, &Attempt::CutOff), (&refused, &read), (&Attempt::None, &Attempt::None)]
        {
            record.note(&one, noted).unwrap();
            assert_eq!(&record.of(&one).unwrap(), expected);
            assert_eq!(record.of(&other).unwrap(), Attempt::None);
        }
    }
}
