//! Checks that the public crates can be published: they have the metadata that a registry requires,
//! and cargo packs them. Nothing is uploaded.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo::{self, cargo};
use crate::process;

/// The fields of `cargo metadata` that a public crate must have.
const WANTED: [&str; 7] =
    ["description", "license", "readme", "keywords", "categories", "rust_version", "edition"];

/// Compares the manifests with a registry's requirements, and packs the crates as for an upload.
pub(crate) fn check() -> Result<()> {
    let packages = cargo::packages()?;
    let (public, private): (Vec<_>, Vec<_>) = packages.iter().partition(|package| is_public(package));
    let mut errors: Vec<_> = public.iter().flat_map(|package| missing(package)).collect();
    for package in private {
        errors.extend(without_reason(package)?);
    }
    if !errors.is_empty() {
        bail!("{}", errors.join("\n"));
    }
    let names: Vec<_> = public.iter().flat_map(|package| ["--package", text(package, "name")]).collect();
    // The packed code is not built, since the workspace's own build compiles it. Only files in git
    // are packed.
    let pack = |offline: &[&str]| {
        let mut package = cargo(["package", "--quiet", "--no-verify", "--allow-dirty"]);
        process::run_quietly(package.args(&names).args(offline))
    };
    pack(&["--offline"]).or_else(|_| pack(&[]))
}

fn is_public(package: &Value) -> bool {
    package.get("publish").is_none_or(Value::is_null)
}

fn missing(package: &Value) -> Vec<String> {
    let is_there = |key: &&str| match package.get(*key) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        _ => false,
    };
    let name = text(package, "name");
    WANTED
        .iter()
        .filter(|key| !is_there(key))
        .map(|key| format!("the manifest of {name} has no {key}"))
        .collect()
}

/// The error for a private library without the reason in the line above `publish`.
fn without_reason(package: &Value) -> Result<Option<String>> {
    let path = text(package, "manifest_path");
    if !path.contains("/crates/") {
        return Ok(None);
    }
    let manifest = fs::read_to_string(path).with_context(|| format!("failed to read {path}"))?;
    let lines: Vec<_> = manifest.lines().collect();
    let reason = lines
        .windows(2)
        .any(|pair| matches!(pair, [above, line] if line.starts_with("publish") && above.starts_with("# ")));
    Ok((!reason).then(|| format!("{path}: state in the line above `publish` why the crate is not published")))
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_metadata_is_reported() {
        let mut package = json!({"name": "p", "publish": null, "description": "P.", "license": "MIT", "readme": "README.md",
            "keywords": ["p"], "categories": [], "rust_version": "1.95", "edition": "2024"});
        assert!(is_public(&package));
        assert_eq!(missing(&package), ["the manifest of p has no categories"]);
        package["readme"] = Value::Null;
        assert_eq!(missing(&package).len(), 2);
        package["publish"] = json!([]);
        assert!(!is_public(&package));
    }
}
