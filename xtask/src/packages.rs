//! The packages that cargo resolved, ours and third-party ones, with their metadata.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo::cargo;
use crate::process;

/// One version of one package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Package {
    /// Cargo's unique id.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// The SPDX expression, if it has one.
    pub(crate) license: Option<String>,
    /// The folder of its sources.
    pub(crate) folder: PathBuf,
    /// `registry+URL` or `git+URL`; `None` for our own.
    pub(crate) source: Option<String>,
    /// The ids of the packages that its programs are linked with.
    pub(crate) linked: Vec<String>,
}

/// The packages from `cargo metadata` with `options`, with an unchanged lock file.
pub(crate) fn resolved(options: &[&str]) -> Result<Vec<Package>> {
    let arguments = ["metadata", "--format-version=1", "--locked"];
    let text = process::output(&mut cargo(arguments.into_iter().chain(options.iter().copied())))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata printed no JSON")?;
    packages(&metadata)
}

fn packages(metadata: &Value) -> Result<Vec<Package>> {
    let list = |pointer| metadata.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    // Some packages are not for the requested platforms; only the others have a node.
    let packages: Vec<Package> = list("/resolve/nodes")
        .filter_map(|node| {
            let id = text(node, "id")?;
            let package = list("/packages").find(|package| text(package, "id").as_ref() == Some(&id))?;
            Some(Package {
                name: text(package, "name")?,
                version: text(package, "version")?,
                license: text(package, "license"),
                folder: PathBuf::from(text(package, "manifest_path")?).parent()?.to_owned(),
                source: text(package, "source"),
                linked: linked(node),
                id,
            })
        })
        .collect();
    if packages.is_empty() {
        bail!("cargo metadata names no packages");
    }
    Ok(packages)
}

/// The dependencies that are linked, without those of build scripts and tests.
fn linked(node: &Value) -> Vec<String> {
    let is_normal = |dependency: &&Value| {
        let mut kinds = dependency.get("dep_kinds").and_then(Value::as_array).into_iter().flatten();
        kinds.any(|kind| kind.get("kind").is_some_and(Value::is_null))
    };
    let dependencies = node.get("deps").and_then(Value::as_array).into_iter().flatten();
    dependencies.filter(is_normal).filter_map(|dependency| text(dependency, "pkg")).collect()
}

fn text(value: &Value, key: &str) -> Option<String> {
    Some(value.get(key)?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packages_for_tests_or_other_platforms_are_not_linked() {
        let metadata = json!({
            "packages": [
                {"id": "a 1", "name": "a", "manifest_path": "/a/Cargo.toml", "version": "1.0.0", "license": "MIT", "source": null},
                {"id": "b 2", "name": "b", "manifest_path": "/b/Cargo.toml", "version": "2.0.0", "license": null, "source": "registry+x"},
                {"id": "windows", "name": "windows", "version": "1.0.0"},
            ],
            "resolve": {"nodes": [
                {"id": "a 1", "deps": [
                    {"pkg": "b 2", "dep_kinds": [{"kind": "dev"}, {"kind": null}]},
                    {"pkg": "c 3", "dep_kinds": [{"kind": "dev"}]},
                    {"pkg": "d 4", "dep_kinds": [{"kind": "build"}]},
                ]},
                {"id": "b 2", "deps": []},
            ]},
        });
        let found = packages(&metadata).unwrap();
        let names: Vec<&str> = found.iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(found[0].linked, ["b 2"]);
        assert_eq!((found[0].license.as_deref(), found[1].license.as_deref()), (Some("MIT"), None));
        assert!(packages(&json!({})).is_err());
    }
}
