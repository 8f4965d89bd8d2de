//! The JSON Schema of `sandbox.yaml`, for editors: made of the types that read it.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::Value;

use super::document::Document;

/// The schema, draft 2020-12. A value with the tag `!env` is a text for it.
pub(crate) fn schema() -> Value {
    // What is left out is not null.
    let without_null = RecursiveTransform(|schema: &mut Schema| {
        if schema.get("default") == Some(&Value::Null) {
            schema.remove("default");
        }
    });
    SchemaSettings::draft2020_12()
        .with_transform(without_null)
        .into_generator()
        .into_root_schema_for::<Document>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFile;

    /// The blocks of YAML in the README that are a configuration.
    fn examples() -> impl Iterator<Item = &'static str> {
        let readme = include_str!("../../../../README.md");
        readme
            .split("```yaml\n")
            .skip(1)
            .filter_map(|block| block.split("```").next())
    }

    #[test]
    fn the_example_in_the_readme_is_a_configuration() {
        assert!(examples().any(|example| example.contains("masked_secrets:")));
        for example in examples() {
            ConfigFile::parse(example, "README.md", "/project".as_ref()).unwrap();
        }
    }

    #[test]
    fn the_schema_says_what_editors_need() {
        insta::assert_json_snapshot!(schema());
    }
}
