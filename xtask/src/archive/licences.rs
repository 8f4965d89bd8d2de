//! The licences of all packages that the programs are linked with: the copyright file of
//! distributions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::packages::Package;

/// The beginnings of the names of licence files, in capitals.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// One document about `packages`: the licence expression of each, then every text once, after the
/// packages that it belongs to.
pub(super) fn document(packages: &[Package]) -> Result<String> {
    let mut document =
        "sandbox is licensed under MIT OR Apache-2.0, at your option.\n\nIts programs are linked with:\n\n"
            .to_owned();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let name = format!("{} {}", package.name, package.version);
        let expression = package.license.as_deref().unwrap_or("see the texts below");
        // Writing to a string cannot fail.
        let _ = writeln!(document, "{name}: {expression}");
        for file in files(package)? {
            let text = fs::read(&file).with_context(|| format!("failed to read {}", file.display()))?;
            texts.entry(String::from_utf8_lossy(&text).trim().to_owned()).or_default().push(name.clone());
        }
    }
    for (text, mut names) in texts {
        names.dedup();
        let _ = write!(document, "\n{}\n{}\n\n{text}\n", "-".repeat(78), names.join(", "));
    }
    Ok(document)
}

fn files(package: &Package) -> Result<Vec<PathBuf>> {
    let folder = &package.folder;
    let entries = fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if entry.file_type()?.is_file() && NAMES.iter().any(|known| name.starts_with(known)) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_two_packages_is_included_once() {
        let folder = tempfile::tempdir().unwrap();
        let package = |name: &str, files: &[(&str, &str)]| {
            let folder = folder.path().join(name);
            fs::create_dir(&folder).unwrap();
            for (file, text) in files {
                fs::write(folder.join(file), text).unwrap();
            }
            Package { name: name.to_owned(), version: "1.0.0".to_owned(), folder, ..Package::default() }
        };
        let packages = [
            package("a", &[("LICENSE-MIT", "any text\n"), ("lib.rs", "code")]),
            package("b", &[("license.txt", "any text"), ("NOTICE", "of b")]),
        ];
        let document = document(&packages).unwrap();
        assert!(document.contains("\na 1.0.0: see the texts below\n"), "{document}");
        assert_eq!(document.matches("any text").count(), 1, "{document}");
        assert!(document.contains("\na 1.0.0, b 1.0.0\n\nany text\n"), "{document}");
        assert!(document.contains("\nb 1.0.0\n\nof b\n") && !document.contains("code"), "{document}");
    }
}
