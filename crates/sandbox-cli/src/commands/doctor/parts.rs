//! Whether the programs that containers run and this command are from the same build.

use std::fs;
use std::path::{Path, PathBuf};

use sandbox::diagnostics::Prerequisites;
use sandbox_files::hex;
use sha2::{Digest as _, Sha256};

use super::report::Check;

const NAME: &str = "parts";
/// The checksums that `cargo xtask dist` writes next to the programs, in the format of `sha256sum
/// --check`: a line for each program and for the command.
const SUMS: &str = "SHA256SUMS";
/// The entry of this command.
const COMMAND: &str = "../../bin/sandbox";
/// The content of the running program, even if its file was replaced meanwhile.
const RUNNING: &str = "/proc/self/exe";

/// Compares the programs with the checksums of their build. A missing program is reported by
/// another check.
pub(super) fn check(found: &Prerequisites) -> Option<Check> {
    let (Ok(proxy), Ok(inside)) = (&found.proxy_program, &found.inside_program) else {
        return None;
    };
    Some(compare(Path::new(RUNNING), &[proxy.clone(), inside.clone()]))
}

fn compare(command: &Path, programs: &[PathBuf]) -> Check {
    let folder = programs.first().and_then(|program| program.parent()).unwrap_or(Path::new(""));
    let version = env!("CARGO_PKG_VERSION");
    let list = folder.join(SUMS);
    let Ok(sums) = fs::read_to_string(&list) else {
        return Check::ok(NAME, format!("{version}; no {} to compare with", list.display()));
    };
    let named =
        programs.iter().filter_map(|program| Some((program.file_name()?.to_str()?, program.as_path())));
    let differ: Vec<String> = std::iter::once((COMMAND, command))
        .chain(named)
        .filter(|(name, path)| digest(path).is_none_or(|digest| sum(&sums, name) != Some(&digest)))
        .map(|(name, _)| format!("`{}`", name.trim_start_matches("../../bin/")))
        .collect();
    if differ.is_empty() {
        return Check::ok(NAME, format!("{version}, all of one build"));
    }
    Check::fail(
        NAME,
        format!("different from the build in {}: {}", list.display(), differ.join(", ")),
        "install the package or the archive again: `sandbox` and the programs in libexec/sandbox belong together; if SANDBOX_PROXY_DIR \
         is set, it names the folder of another build",
    )
}

/// The digest of `name` in `sums`.
fn sum<'a>(sums: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = sums.lines().filter_map(|line| line.split_once("  "));
    lines.find_map(|(digest, of)| (of == name).then_some(digest))
}

/// `None` if it is unreadable.
fn digest(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|content| hex(&Sha256::digest(content)))
}

#[cfg(test)]
mod tests {
    use super::super::report::Verdict;
    use super::*;

    #[test]
    fn part_of_another_build_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let programs = [path("sandbox-proxy"), path("sandbox-inside")];
        let written = |(name, listed): (&str, &str)| {
            fs::write(path(name), name).unwrap();
            format!("{}  {listed}", digest(&path(name)).unwrap())
        };
        let parts =
            [("sandbox", COMMAND), ("sandbox-proxy", "sandbox-proxy"), ("sandbox-inside", "sandbox-inside")];
        let sums = parts.map(written).join("\n");
        let look = || compare(&path("sandbox"), &programs);
        assert_eq!(look().verdict(), Verdict::Ok, "nothing to compare with: {:?}", look());
        fs::write(path(SUMS), &sums).unwrap();
        assert_eq!(look().verdict(), Verdict::Ok, "the control: {:?}", look());
        for (name, _) in parts {
            fs::write(path(name), "another").unwrap();
            let found = format!("{:?}", look());
            assert!(
                look().verdict() == Verdict::Fail && found.contains(&format!("SHA256SUMS: `{name}`")),
                "{found}"
            );
            fs::write(path(name), name).unwrap();
        }
        // A part that is not in the list is not verified.
        fs::write(path(SUMS), "").unwrap();
        assert_eq!(look().verdict(), Verdict::Fail);
    }
}
