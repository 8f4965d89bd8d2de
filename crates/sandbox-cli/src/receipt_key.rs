//! The key with which this host signs receipts.

use std::path::Path;

use sandbox_bundle::ReceiptKey;
use sandbox_files::{FileLock, Replacement};
use zeroize::Zeroizing;

use crate::config::Places;
use crate::failure::Failure;

/// The name of its file in the state folder: 32 random bytes.
pub(crate) const FILE: &str = "receipt.key";

/// The key of this host, which is created when it is first needed.
pub(crate) fn receipt_key(places: &Places) -> Result<ReceiptKey, Failure> {
    let file = places.state.join(FILE);
    let failed = || Failure::doing(format!("create the key in `{}`", file.display()));
    let _lock = FileLock::exclusive_blocking(&places.state.join("receipt.lock")).map_err(failed())?;
    if let Some(key) = existing(places)? {
        return Ok(key);
    }
    let seed = Zeroizing::new(rand::random::<[u8; 32]>());
    Replacement::private().durable().write(&file, &*seed).map_err(failed())?;
    Ok(ReceiptKey::new(&seed))
}

/// The key of this host, if it has one.
pub(crate) fn existing(places: &Places) -> Result<Option<ReceiptKey>, Failure> {
    let file = places.state.join(FILE);
    let Some((_, bytes)) = places.resolver_without_tree()?.read(&file, 64)? else { return Ok(None) };
    let bytes = Zeroizing::new(bytes);
    let seed = bytes.as_slice().try_into().map_err(|_| unreadable(&file))?;
    Ok(Some(ReceiptKey::new(seed)))
}

fn unreadable(file: &Path) -> Failure {
    Failure::new(format!("`{}` does not have the 32 bytes of a key", file.display()))
        .with_hint("remove it: the next run of a bundle creates another key")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn key_is_created_once_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places { state: folder.path().join("state") };
        assert!(existing(&places).unwrap().is_none());
        let first = receipt_key(&places).unwrap().public();
        assert_eq!(receipt_key(&places).unwrap().public(), first);
        let file = places.state.join(FILE);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&file, "short").unwrap();
        assert!(receipt_key(&places).unwrap_err().to_string().contains("32 bytes"));
        fs::remove_file(&file).unwrap();
        assert_ne!(receipt_key(&places).unwrap().public(), first, "the control");
    }
}
