//! One key: its file, its public information, and its signatures.

use std::fmt;

use ed25519_dalek::Signer as _;
use ssh_key::private::Ed25519Keypair;
use ssh_key::rand_core::TryRng as _;
use ssh_key::{Algorithm, HashAlg, LineEnding, PrivateKey, PublicKey};
use zeroize::Zeroizing;

use crate::{Passphrase, Scope, SshError};

/// The end of a file's private part.
const END: &str = "-----END OPENSSH PRIVATE KEY-----\n";
/// The maximum length of a comment in bytes.
const MAX_COMMENT: usize = 200;

/// The kind of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyKind {
    /// Ed25519.
    #[default]
    Ed25519,
}

/// The public information about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyInfo {
    /// Its kind.
    pub kind: KeyKind,
    /// `SHA256:` and base64, as `ssh-keygen -l` shows it.
    pub fingerprint: String,
    /// The comment that its creator gave it.
    pub comment: String,
    /// The line for `authorized_keys`, and for services that ask for a public key: kind, key,
    /// comment.
    pub public_line: String,
}

impl KeyInfo {
    fn of(public: &PublicKey) -> Option<Self> {
        let kind = match public.algorithm() {
            Algorithm::Ed25519 => KeyKind::Ed25519,
            _ => return None,
        };
        Some(Self {
            kind,
            fingerprint: public.fingerprint(HashAlg::Sha256).to_string(),
            comment: public.comment().as_str().ok()?.to_owned(),
            public_line: public.to_openssh().ok()?,
        })
    }
}

pub(crate) fn validate_comment(comment: &str) -> Result<(), SshError> {
    if comment.len() > MAX_COMMENT || comment.contains(char::is_control) {
        return Err(SshError::InvalidComment);
    }
    Ok(())
}

/// The content of a key's file.
pub(crate) struct KeyFile {
    pub(crate) info: KeyInfo,
    public: PublicKey,
    encrypted: PrivateKey,
}

impl KeyFile {
    /// Creates a key. Blocks: deriving a key from a passphrase is slow on purpose.
    pub(crate) fn make(kind: KeyKind, comment: &str, passphrase: &Passphrase) -> Result<Self, SshError> {
        let mut random = rand::rngs::SysRng;
        let pair = match kind {
            KeyKind::Ed25519 => {
                let mut seed = Zeroizing::new([0; 32]);
                random.try_fill_bytes(&mut *seed).map_err(|_| SshError::Make(ssh_key::Error::RngFailure))?;
                Ed25519Keypair::from_seed(&seed)
            }
        };
        let private = PrivateKey::new(pair.into(), comment).map_err(SshError::Make)?;
        let public = private.public_key().clone();
        let encrypted = private.encrypt(&mut random, passphrase.as_bytes()).map_err(SshError::Make)?;
        let info = KeyInfo::of(&public).ok_or(SshError::Make(ssh_key::Error::AlgorithmUnknown))?;
        Ok(Self { info, public, encrypted })
    }

    /// Parses the output of [`KeyFile::to_text`]; `None` for other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (private, line) = text.split_at(text.find(END)?.checked_add(END.len())?);
        let encrypted = PrivateKey::from_openssh(private).ok()?;
        let public = PublicKey::from_openssh(line.strip_suffix('\n')?).ok()?;
        if !encrypted.is_encrypted() || encrypted.public_key().key_data() != public.key_data() {
            return None;
        }
        Some(Self { info: KeyInfo::of(&public)?, public, encrypted })
    }

    /// The private part, encrypted, and a line with the public one: the comment is encrypted in the
    /// private part.
    pub(crate) fn to_text(&self) -> Result<String, SshError> {
        let private = self.encrypted.to_openssh(LineEnding::LF).map_err(SshError::Make)?;
        Ok(format!("{}\n{}\n", private.trim_end_matches('\n'), self.info.public_line))
    }

    /// Decrypts it; `None` if the passphrase is wrong. Blocks, as [`KeyFile::make`].
    pub(crate) fn open(self, passphrase: &Passphrase) -> Option<SigningKey> {
        let private = self.encrypted.decrypt(passphrase.as_bytes()).ok()?;
        let blob = self.public.to_bytes().ok()?;
        Some(SigningKey { info: self.info, blob, private })
    }
}

/// A key that signs.
pub(crate) struct SigningKey {
    pub(crate) info: KeyInfo,
    /// The public key in the encoding of messages.
    pub(crate) blob: Vec<u8>,
    private: PrivateKey,
}

impl SigningKey {
    /// The name of the algorithm, and the signature.
    pub(crate) fn sign(&self, data: &[u8]) -> Option<(String, Vec<u8>)> {
        let signature = self.private.try_sign(data).ok()?;
        Some((signature.algorithm().as_str().to_owned(), signature.as_bytes().to_vec()))
    }
}

/// The unlocked keys of a scope. They are overwritten when this is dropped, and `Debug` shows only
/// public information.
pub struct SigningKeys {
    pub(crate) scope: Scope,
    pub(crate) keys: Vec<SigningKey>,
}

impl SigningKeys {
    /// Their public information. Those that [`SshScope::init`](crate::SshScope::init) created
    /// without a comment come first.
    pub fn infos(&self) -> impl Iterator<Item = &KeyInfo> {
        self.keys.iter().map(|key| &key.info)
    }
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fingerprints: Vec<_> = self.infos().map(|info| &info.fingerprint).collect();
        f.debug_struct("SigningKeys").field("scope", &self.scope).field("keys", &fingerprints).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_file_is_encrypted_and_only_its_passphrase_opens_it() {
        let passphrase = Passphrase::new("right").unwrap();
        let made = KeyFile::make(KeyKind::Ed25519, "a comment", &passphrase).unwrap();
        let text = made.to_text().unwrap();
        let parsed = KeyFile::parse(&text).unwrap();
        assert_eq!(parsed.info, made.info);
        assert_eq!(parsed.info.comment, "a comment");
        assert!(parsed.info.fingerprint.starts_with("SHA256:"));
        assert!(made.open(&Passphrase::new("wrong").unwrap()).is_none());
        let key = parsed.open(&passphrase).unwrap();
        let seed = key.private.key_data().ed25519().unwrap().private.to_bytes();
        let clear = PrivateKey::from_openssh(&text[..text.find(END).unwrap() + END.len()]).unwrap();
        assert!(!clear.to_bytes().unwrap().windows(32).any(|part| part == seed));
        assert_eq!(key.sign(b"x").unwrap().0, "ssh-ed25519");
        let keys = SigningKeys { scope: "s".parse().unwrap(), keys: vec![key] };
        assert!(!format!("{keys:?}").to_lowercase().contains("private"), "{keys:?}");
    }

    #[test]
    fn key_file_with_another_public_line_or_unencrypted_is_refused() {
        let passphrase = Passphrase::new("p").unwrap();
        let file = || KeyFile::make(KeyKind::Ed25519, "c", &passphrase).unwrap();
        let (one, two) = (file(), file());
        let text = one.to_text().unwrap();
        assert!(KeyFile::parse(&text).is_some(), "the control");
        assert!(KeyFile::parse(&text.replace(&one.info.public_line, &two.info.public_line)).is_none());
        assert!(KeyFile::parse(text.trim_end()).is_none());
        assert!(KeyFile::parse("").is_none());
        let clear = one.encrypted.decrypt("p").unwrap().to_openssh(LineEnding::LF).unwrap();
        assert!(KeyFile::parse(&format!("{}{}\n", *clear, one.info.public_line)).is_none());
    }

    #[test]
    fn comments_are_short_and_of_one_line() {
        for comment in ["", "me@host", "ein Schlüssel", &"x".repeat(200)] {
            assert!(validate_comment(comment).is_ok());
        }
        for comment in ["a\nb", "a\0", "\u{7f}", "\u{85}", &"x".repeat(201)] {
            assert!(validate_comment(comment).is_err(), "{comment:?}");
        }
    }
}
