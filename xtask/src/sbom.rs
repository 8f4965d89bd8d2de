//! The bill of materials of an archive: its programs, and every package that they are linked with,
//! as `CycloneDX` 1.6.
//!
//! Equal content results in an equal document, without times and random numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cargo;
use crate::packages::{self, Package};
use crate::process::{self, command};
use crate::workspace;

/// The packages of the programs in an archive.
const SHIPPED: [&str; 3] = ["sandbox-cli", "sandbox-proxy", "sandbox-inside"];

/// Every package that the programs of an archive are linked with, sorted by name.
pub(crate) fn packages() -> Result<Vec<Package>> {
    let target = cargo::host_target()?;
    let packages = packages::resolved(&["--filter-platform", &target])?;
    Ok(shipped(&packages).into_iter().cloned().collect())
}

/// The document about `programs`, which are linked with `packages`.
pub(crate) fn document(programs: &[PathBuf], packages: &[Package]) -> Result<Value> {
    let path = workspace::root().join("Cargo.lock");
    let lock = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let files = programs.iter().map(|program| file(program)).collect::<Result<Vec<_>>>()?;
    Ok(bill(packages, &checksums(&lock), &files))
}

/// The packages that are linked into the programs, at any depth, sorted by name.
fn shipped(packages: &[Package]) -> Vec<&Package> {
    let by_id: BTreeMap<&str, &Package> =
        packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let is_root = |package: &&Package| package.source.is_none() && SHIPPED.contains(&package.name.as_str());
    let mut left: Vec<&Package> = packages.iter().filter(is_root).collect();
    let mut seen: BTreeSet<&str> = left.iter().map(|package| package.id.as_str()).collect();
    let mut shipped = Vec::new();
    while let Some(package) = left.pop() {
        shipped.push(package);
        let linked = package.linked.iter().filter_map(|id| by_id.get(id.as_str()).copied());
        left.extend(linked.filter(|package| seen.insert(package.id.as_str())));
    }
    shipped.sort_by_key(|package| reference(package));
    shipped
}

fn bill(shipped: &[Package], checksums: &BTreeMap<String, String>, files: &[Value]) -> Value {
    let names: BTreeMap<&str, String> =
        shipped.iter().map(|package| (package.id.as_str(), reference(package))).collect();
    let components: Vec<Value> = shipped.iter().map(|package| component(package, checksums)).collect();
    let dependencies: Vec<Value> = shipped
        .iter()
        .map(|package| {
            let on: BTreeSet<&String> =
                package.linked.iter().filter_map(|id| names.get(id.as_str())).collect();
            json!({"ref": reference(package), "dependsOn": on})
        })
        .collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "bom-ref": "sandbox",
            "name": "sandbox",
            "version": env!("CARGO_PKG_VERSION"),
            "components": files,
        }},
        "components": components,
        "dependencies": dependencies,
    })
}

fn component(package: &Package, checksums: &BTreeMap<String, String>) -> Value {
    let reference = reference(package);
    let mut component = json!({
        "type": "library",
        "bom-ref": reference,
        "name": package.name,
        "version": package.version,
        "scope": "required",
    });
    let mut add = |key: &str, value: Value| {
        if let Some(fields) = component.as_object_mut() {
            fields.insert(key.to_owned(), value);
        }
    };
    if let Some(license) = &package.license {
        // The `/` of older packages is not valid in an expression.
        add("licenses", json!([{"expression": license.replace('/', " OR ")}]));
    }
    if package.source.is_some() {
        add("purl", json!(format!("pkg:cargo/{}@{}", package.name, package.version.replace('+', "%2B"))));
    }
    if let Some(checksum) = checksums.get(&reference) {
        add("hashes", json!([{"alg": "SHA-256", "content": checksum}]));
    }
    component
}

fn reference(package: &Package) -> String {
    format!("{}@{}", package.name, package.version)
}

fn file(program: &Path) -> Result<Value> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let output = process::output(command("sha256sum", ["--"]).arg(program))?;
    let hash = output.split_whitespace().next().context("sha256sum printed nothing")?;
    let hashes = json!([{"alg": "SHA-256", "content": hash}]);
    Ok(json!({"type": "file", "bom-ref": format!("file:{name}"), "name": name, "hashes": hashes}))
}

/// The checksum of each `NAME@VERSION` in the lock file.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.map(|line| line.trim_matches('"').to_owned())
    };
    let package = |block: &str| {
        let reference = format!("{}@{}", value(block, "name")?, value(block, "version")?);
        Some((reference, value(block, "checksum")?))
    };
    lock.split("[[package]]").filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, source: Option<&str>, linked: &[&str]) -> Package {
        Package {
            id: name.to_owned(),
            name: name.to_owned(),
            version: "1.0.0+x".to_owned(),
            license: Some("MIT/ISC".to_owned()),
            folder: PathBuf::new(),
            source: source.map(str::to_owned),
            linked: linked.iter().map(|id| (*id).to_owned()).collect(),
        }
    }

    #[test]
    fn bill_has_only_linked_packages() {
        let packages = [
            package("sandbox-cli", None, &["a"]),
            package("a", Some("registry+x"), &["b", "missing"]),
            package("b", Some("registry+x"), &["a"]),
            package("only-for-tests", Some("registry+x"), &[]),
            package("xtask", None, &["only-for-tests"]),
        ];
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0+x\"\nsource = \"x\"\nchecksum = \"00ff\"\n\n[[package]]\nname = \"b\"\n";
        let shipped: Vec<Package> = shipped(&packages).into_iter().cloned().collect();
        let bill = bill(&shipped, &checksums(lock), &[json!({"name": "sandbox"})]);
        let names: Vec<&str> =
            bill["components"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(names, ["a", "b", "sandbox-cli"]);
        assert_eq!(
            bill["components"][0],
            json!({
                "type": "library", "bom-ref": "a@1.0.0+x", "name": "a", "version": "1.0.0+x", "scope": "required",
                "licenses": [{"expression": "MIT OR ISC"}], "purl": "pkg:cargo/a@1.0.0%2Bx",
                "hashes": [{"alg": "SHA-256", "content": "00ff"}],
            })
        );
        assert_eq!(bill["components"][2].get("purl"), None, "it is not in a registry");
        assert_eq!(bill["dependencies"][0], json!({"ref": "a@1.0.0+x", "dependsOn": ["b@1.0.0+x"]}));
    }

    #[test]
    fn bill_of_this_workspace_has_all_programs_and_checksums_of_third_party_packages() {
        let bill = document(&[], &super::packages().unwrap()).unwrap();
        let components = bill["components"].as_array().unwrap();
        let has = |name: &str| components.iter().any(|component| component["name"] == name);
        assert!(SHIPPED.iter().all(|name| has(name)) && has("rustls") && has("bollard"));
        assert!(!has("proptest") && !has("libfuzzer-sys"));
        for component in components {
            assert_eq!(component.get("purl").is_some(), component.get("hashes").is_some(), "{component}");
        }
    }
}
