//! The rights that building an image gives.

use std::path::Path;

use sandbox::ImageSource;

use super::{Input, Rights, Role};
use crate::printer::quoted;

/// The rights of an image: to use its files, and the images that they name, which may be local
/// ones.
pub(crate) fn image_rights(image: &ImageSource) -> Rights {
    let mut rights = Rights::default();
    match image {
        ImageSource::Build { dockerfile, context_files, .. } => {
            let files = context_files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
            let all = std::iter::once(("", dockerfile.as_slice())).chain(files);
            // The digest of the contents alone, regardless of their place.
            let content = Input::of_files(Role::Image, Path::new(""), all).digest;
            rights.ask(format!(
                "build an image from it {}, of the content {}",
                count(context_files.len()),
                content.short()
            ));
            let text = String::from_utf8_lossy(dockerfile).replace("\\\n", " ");
            for name in images(&text) {
                rights.ask(format!("build an image with the content of {}", quoted(name)));
            }
        }
        ImageSource::Existing(name) => {
            rights.ask(existing_image(name));
        }
    }
    rights
}

/// The right to use an existing image, whose content is unknown.
pub(super) fn existing_image(name: &str) -> String {
    format!("use the local image {}", quoted(name))
}

fn count(files: usize) -> String {
    match files {
        0 => "alone".to_owned(),
        1 => "and 1 file next to it".to_owned(),
        files => format!("and {files} files next to it"),
    }
}

/// The images that a Dockerfile names for stages, or as sources of copied or mounted files,
/// including its own stages. This is for information; the digest of the content is what counts.
fn images(dockerfile: &str) -> impl Iterator<Item = &str> {
    dockerfile.lines().flat_map(|line| {
        let mut words = line.split_whitespace();
        let is_stage = words.next().is_some_and(|word| word.eq_ignore_ascii_case("FROM"));
        let base = words.clone().find(|word| !word.starts_with("--")).filter(|_| is_stage);
        let used = words.filter_map(|word| match word.strip_prefix("--mount=") {
            Some(options) => options.split(',').find_map(|option| option.strip_prefix("from=")),
            None => word.strip_prefix("--from="),
        });
        base.into_iter().chain(used)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_image_that_a_dockerfile_names_is_a_right() {
        let text = "FROM --platform=x mine:1 AS build\nRUN --mount=type=bind,from=mounted,target=/m true\nfrom two\nCOPY --from=other /a /b\nFROM \\\n continued\n";
        let rights = image_rights(&ImageSource::build(text, BTreeMap::new()));
        for name in ["`mine:1`", "`mounted`", "`two`", "`other`", "`continued`"] {
            assert!(rights.lines().iter().any(|line| line.ends_with(name)), "{name}: {rights:?}");
        }
        assert!(rights.need_trust() && rights.lines().len() == 6, "{rights:?}");
    }

    #[test]
    fn different_contents_have_different_rights() {
        let build = |text: &str, file: &str| {
            let files = BTreeMap::from([("f".to_owned(), file.as_bytes().to_vec())]);
            image_rights(&ImageSource::build(text, files))
        };
        assert_eq!(build("FROM a", "x"), build("FROM a", "x"));
        assert_ne!(build("FROM a", "x"), build("FROM a", "y"));
        assert_ne!(build("FROM a\nRUN x", ""), build("FROM a\nRUN y", ""));
    }
}
