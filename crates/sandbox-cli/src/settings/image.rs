//! The image of a run.

use std::path::Path;

use sandbox::ImageSource;

use super::Project;
use super::devcontainer::Devcontainer;
use crate::args::ImageArgs;
use crate::failure::Failure;
use crate::image_context;
use crate::trust::Input;

/// The maximum size of a Dockerfile: 1 MiB.
const LONGEST_DOCKERFILE: u64 = 1 << 20;

impl Project {
    /// The source of the image.
    pub(crate) fn image(&self, args: &ImageArgs) -> Result<ImageSource, Failure> {
        let (input, image) = self.image_input(args)?;
        self.obey(input.as_ref(), true)?;
        match image {
            ImageSource::Build { .. } if !self.uses_default_image(args) => {
                Ok(image.with_network(self.build_network()?))
            }
            image => Ok(image),
        }
    }

    /// The same, with the input of the trust review.
    pub(super) fn image_input(&self, args: &ImageArgs) -> Result<(Option<Input>, ImageSource), Failure> {
        if !self.names_image(args) {
            return match self.devcontainer()? {
                Some(Devcontainer { found, image, .. }) => {
                    let input = found.is_untrusted().then(|| Self::image_files(&found, &image)).flatten();
                    Ok((input, image))
                }
                None => Ok((None, self.default_image()?)),
            };
        }
        if let Some(name) = &args.image {
            return Ok((None, ImageSource::existing(name)));
        }
        if args.dockerfile.is_none()
            && args.context.is_none()
            && let Some(name) = &self.file.image
        {
            // Such an image may contain any data of the user.
            let named = self.config_inputs.iter().find(|(_, file)| file.image.is_some());
            return Ok((named.map(|(input, _)| input.clone()), ImageSource::existing(name.as_str())));
        }
        let named = args.dockerfile.as_ref().or(self.file.dockerfile.as_deref());
        let dockerfile = named.cloned().unwrap_or_else(|| self.folder.dockerfile());
        let found = match self.resolver.find(&dockerfile) {
            Err(error) if error.is_not_found() && named.is_none() => {
                return Err(Failure::new(
                    "no image: neither --image nor `image` in the configuration names one",
                )
                .with_hint(format!(
                    "create {}, or name an existing image with --image",
                    dockerfile.display()
                )));
            }
            found => found?,
        };
        let text = found.read(LONGEST_DOCKERFILE)?;
        let folder = dockerfile.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        let context =
            args.context.clone().or_else(|| self.file.context.as_deref().cloned()).unwrap_or(folder);
        let context = self.resolver.find(&context).map_err(Failure::doing("read the build context"))?;
        let image = ImageSource::build(text, image_context::read(&context)?);
        let input = (found.is_untrusted() || context.is_untrusted())
            .then(|| Self::image_files(&found, &image))
            .flatten();
        Ok((input, image))
    }
}

impl Project {
    /// The error of the image in the configuration or next to it; also `None` if there is none,
    /// since a flag may name one.
    pub(super) fn image_problem(&self) -> Option<Failure> {
        let is_asked_for = self.file.dockerfile.is_some() || self.file.context.is_some();
        if !is_asked_for && self.folder.dockerfile().symlink_metadata().is_err() {
            return None;
        }
        self.image(&ImageArgs::default()).err()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use located_yaml::{Location, Position, Spanned};
    use sandbox::Network;

    use super::super::fixtures::{image_args, project};
    use super::*;

    fn place() -> Location {
        Location::new("sandbox.yaml", Position::START)
    }

    #[test]
    fn unbuildable_image_is_an_error_but_a_missing_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        let mut project = project(root.path(), Path::new("/state"));
        assert!(project.image_problem().is_none());
        fs::create_dir_all(root.path().join(".sandbox/container")).unwrap();
        fs::write(root.path().join(".sandbox/container/Dockerfile"), "FROM a").unwrap();
        assert!(project.image_problem().is_none());
        project.file.context = Some(Spanned::new(root.path().join("missing"), place()));
        let problem = project.image_problem().unwrap().to_string();
        assert!(problem.starts_with("failed to read the build context"), "{problem}");
    }

    #[test]
    fn image_source_is_the_flag_the_file_or_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let mut project = project(root.path(), Path::new("/state"));
        let ImageSource::Build { dockerfile, network, .. } = project.image(&image_args()).unwrap() else {
            panic!("the default image is built")
        };
        assert!(dockerfile.starts_with(b"# ") && matches!(network, Network::Sandboxed(_)));
        let context = ImageArgs { context: Some(root.path().to_owned()), ..image_args() };
        let error = project.image(&context).unwrap_err();
        assert!(error.hint().unwrap().contains("container/Dockerfile"), "{error}");

        fs::create_dir_all(root.path().join(".sandbox/container")).unwrap();
        fs::write(root.path().join(".sandbox/container/Dockerfile"), "FROM a").unwrap();
        fs::write(root.path().join(".sandbox/container/file"), "x").unwrap();
        let files = BTreeMap::from([("file".to_owned(), b"x".to_vec())]);
        assert_eq!(project.image(&image_args()).unwrap(), ImageSource::build("FROM a", files));

        project.file.image = Some(Spanned::new("from-the-file".to_owned(), place()));
        assert_eq!(project.image(&image_args()).unwrap(), ImageSource::existing("from-the-file"));
        let flag = ImageArgs { image: Some("from-the-flag".to_owned()), ..image_args() };
        assert_eq!(project.image(&flag).unwrap(), ImageSource::existing("from-the-flag"));
        let dockerfile = root.path().join(".sandbox/container/Dockerfile");
        let flag = ImageArgs { dockerfile: Some(dockerfile), ..image_args() };
        assert!(matches!(project.image(&flag).unwrap(), ImageSource::Build { .. }));
    }
}
