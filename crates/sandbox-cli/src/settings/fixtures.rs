//! Fixtures of the tests of settings.

use std::path::Path;

use sandbox::host_path::Resolver;

use super::Project;
use super::defaults::AgentDefaults;
use super::review::Obeyed;
use crate::args::ImageArgs;
use crate::config::{ConfigFile, Folder, OuterFiles, Places};

pub(super) fn project(root: &Path, state: &Path) -> Project {
    Project {
        root: root.to_owned(),
        key: "key".to_owned(),
        places: Places { state: state.to_owned() },
        folder: Folder::of(root),
        file: ConfigFile::default(),
        config_path: None,
        config_inputs: Vec::new(),
        user_file: ConfigFile::default(),
        outer: OuterFiles::default(),
        current: root.to_owned(),
        defaults: AgentDefaults::default(),
        resolver: Resolver::new([root]),
        obeyed: Obeyed::default(),
        trusted_paths: Vec::new(),
        homes: Vec::new(),
    }
}

pub(super) fn image_args() -> ImageArgs {
    ImageArgs { image: None, dockerfile: None, context: None, max_image_age: None }
}
