//! A git repository over plain files ("dumb" HTTP): `https://git.test/demo.git`.

use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use hyper::Response;

use super::routes::{Body, full, not_found};

/// The bare repository, made once.
#[expect(
    clippy::disallowed_methods,
    reason = "git makes the repository; no engine is involved"
)]
fn repository() -> &'static Path {
    static REPOSITORY: OnceLock<PathBuf> = OnceLock::new();
    REPOSITORY.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder").keep();
        let script = "git init -q -b main work && cd work && echo hello > greeting.txt && git add . \
             && git -c user.name=e2e -c user.email=e2e@example.test commit -q -m first \
             && git clone -q --bare . ../demo.git && cd ../demo.git && git update-server-info";
        let made = Command::new("sh")
            .args(["-ec", script])
            .current_dir(&folder)
            .status()
            .expect("git on the host");
        assert!(made.success(), "git could not make the test repository");
        folder
    })
}

pub(super) fn answer(path: &str) -> Response<Body> {
    let relative = Path::new(path.trim_start_matches('/'));
    let plain = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    match std::fs::read(repository().join(relative)) {
        Ok(content) if plain => Response::new(full(content)),
        _ => not_found(),
    }
}
