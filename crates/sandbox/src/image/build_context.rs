//! The archive that is sent to the engine for a build.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use bytes::Bytes;

use crate::error::ImageBuildError;

const DOCKERFILE: &str = "Dockerfile";
/// The map has no file modes, so files with these headers are made executable.
const PROGRAMS: [&[u8]; 2] = [b"#!", b"\x7fELF"];

/// An archive of `dockerfile` and `files`; equal content gives equal bytes.
pub(super) fn archive(
    dockerfile: &[u8],
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<Bytes, ImageBuildError> {
    let mut builder = tar::Builder::new(Vec::new());
    append(&mut builder, DOCKERFILE, dockerfile)?;
    for (path, content) in files {
        check(path)?;
        match path.as_str() {
            DOCKERFILE if content == dockerfile => {}
            DOCKERFILE => return Err(refused(path, "differs from the given Dockerfile")),
            _ => append(&mut builder, path, content)?,
        }
    }
    let archive = builder.into_inner().map_err(|_| refused("", "cannot be archived"))?;
    Ok(archive.into())
}

fn append(builder: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8]) -> Result<(), ImageBuildError> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(if PROGRAMS.iter().any(|magic| content.starts_with(magic)) { 0o755 } else { 0o644 });
    header.set_mtime(0);
    builder.append_data(&mut header, path, content).map_err(|_| refused(path, "cannot be archived"))
}

fn check(path: &str) -> Result<(), ImageBuildError> {
    let plain = !path.is_empty()
        && !path.contains('\0')
        && !path.ends_with('/')
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if plain { Ok(()) } else { Err(refused(path, "must have a relative path without `..`")) }
}

fn refused(path: &str, problem: &'static str) -> ImageBuildError {
    ImageBuildError::Context { path: path.escape_debug().to_string(), problem }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn files(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        pairs.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec())).collect()
    }

    #[test]
    fn archive_has_the_dockerfile_and_all_files_with_modes() {
        let long = format!("{}/file", "folder".repeat(40));
        let sources =
            files(&[("a/run.sh", "#!/bin/sh\n"), ("b", "x"), (&long, "y"), ("Dockerfile", "FROM scratch")]);
        let archive = archive(b"FROM scratch", &sources).unwrap();
        let mut archive = tar::Archive::new(&archive[..]);
        let entries: Vec<(String, u32, String)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut content = String::new();
                entry.read_to_string(&mut content).unwrap();
                (entry.path().unwrap().to_str().unwrap().to_owned(), entry.header().mode().unwrap(), content)
            })
            .collect();
        let expected = [
            ("Dockerfile", 0o644, "FROM scratch"),
            ("a/run.sh", 0o755, "#!/bin/sh\n"),
            ("b", 0o644, "x"),
            (&*long, 0o644, "y"),
        ];
        assert_eq!(
            entries,
            expected.map(|(path, mode, content)| (path.to_owned(), mode, content.to_owned()))
        );
    }

    #[test]
    fn path_outside_of_the_context_is_refused() {
        for path in ["", "/etc/passwd", "../x", "a/../../x", "a/..", "./a/", "a\0b"] {
            let error = archive(b"", &files(&[(path, "")])).unwrap_err();
            assert!(matches!(error, ImageBuildError::Context { .. }), "{path:?}");
        }
        let error = archive(b"FROM a", &files(&[("Dockerfile", "FROM b")])).unwrap_err().to_string();
        assert!(error.contains("differs"), "{error}");
    }
}
