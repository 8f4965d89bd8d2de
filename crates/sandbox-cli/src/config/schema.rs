//! The JSON Schema of `sandbox.yaml`, for editors, generated from the types that read it.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::Value;

use super::file::ConfigFile;

/// The schema, draft 2020-12. It treats a value with the tag `!env` as a text.
pub(crate) fn schema() -> Value {
    let clean = RecursiveTransform(|schema: &mut Schema| {
        // An omitted key is not null.
        if schema.get("default") == Some(&Value::Null) {
            schema.remove("default");
        }
        // Line ends from wrapped doc comments must not appear in editors.
        if let Some(Value::String(text)) = schema.get_mut("description") {
            *text = text.replace('\n', " ");
        }
    });
    SchemaSettings::draft2020_12()
        .with_transform(clean)
        .into_generator()
        .into_root_schema_for::<ConfigFile>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = include_str!("../../../../docs/credentials.md");
    const NETWORK: &str = include_str!("../../../../docs/network.md");
    const REFERENCE: &str = include_str!("../../../../docs/configuration.md");

    fn yaml_blocks(text: &str) -> impl Iterator<Item = &str> {
        let blocks = text.split("```yaml\n").skip(1);
        blocks.filter_map(|block| block.split("```").next())
    }

    #[test]
    fn examples_in_the_documentation_are_valid() {
        assert!(yaml_blocks(CREDENTIALS).any(|example| example.contains("masked_secrets:")));
        let (settings, policies) = REFERENCE.split_once("## network-allowlist.yaml").unwrap();
        for example in yaml_blocks(CREDENTIALS).chain(yaml_blocks(NETWORK)).chain(yaml_blocks(settings)) {
            ConfigFile::parse(example, "example", "/project".as_ref()).unwrap();
        }
        for example in yaml_blocks(policies) {
            allowlist::Allowlist::from_yaml(example, "example").unwrap();
        }
    }

    /// The keys of `node`, each with its parents; `NAME` is a key that the user chooses.
    fn keys(root: &Value, node: &Value, path: &str, found: &mut Vec<String>) {
        let node = match node.get("$ref").and_then(Value::as_str) {
            Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
            None => node,
        };
        for inner in ["anyOf", "oneOf", "allOf"].iter().filter_map(|kind| node.get(kind)?.as_array()) {
            for node in inner {
                keys(root, node, path, found);
            }
        }
        if let Some(inner) = node.get("additionalProperties").filter(|inner| inner.is_object()) {
            keys(root, inner, &format!("{path}NAME."), found);
        }
        for (key, inner) in node.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let before = found.len();
            keys(root, inner, &format!("{path}{key}."), found);
            if found.len() == before {
                found.push(format!("{path}{key}"));
            }
        }
    }

    #[test]
    fn reference_documents_every_key() {
        let (schema, mut found) = (schema(), Vec::new());
        keys(&schema, &schema, "", &mut found);
        assert!(found.contains(&"resource_limits.memory".to_owned()), "{found:?}");
        for key in found {
            assert!(REFERENCE.contains(&format!("| `{key}` |")), "docs/configuration.md lacks `{key}`");
        }
    }

    #[test]
    fn schema_for_editors() {
        insta::assert_json_snapshot!(schema());
    }
}
