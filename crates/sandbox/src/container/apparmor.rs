//! Checks that the kernel confines a process by an `AppArmor` profile.
//!
//! The kernel applies a profile when it executes the program, and until then shows only the process
//! itself which one that will be. So the runtime's request is compared before the program starts,
//! and the profile in force right after.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::spec::AppArmorProfile;

/// How long a runtime may take from the start request to the program's execution.
const DEADLINE: Duration = Duration::from_secs(10);
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// Whether the kernel has `AppArmor`, with `sys` as its `/sys`.
pub(super) fn is_enabled(sys: &Path) -> bool {
    fs::read_to_string(sys.join("module/apparmor/parameters/enabled")).is_ok_and(|text| text.trim() == "Y")
}

/// Waits until `profile` is in force for the process `pid`, or the process has ended. An error
/// states the profile in force instead.
pub(super) async fn in_force(proc: &Path, pid: u32, profile: &AppArmorProfile) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let is = match current(&proc.join(pid.to_string())) {
            Ok(Some(is)) if is_enforced(&is, profile) => return Ok(()),
            Ok(None) => return Ok(()),
            Ok(Some(is)) => is,
            Err(error) => error.to_string(),
        };
        if begun.elapsed() > DEADLINE {
            return Err(format!("planned `{profile}`, is `{}`", is.escape_debug()));
        }
        // tidy: sleep: the kernel does not notify us of a program that starts
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// The profile of the process; `None` once it has ended.
fn current(process: &Path) -> io::Result<Option<String>> {
    // With several security modules, the second file may belong to another one.
    let read = |name: &str| fs::read_to_string(process.join("attr").join(name));
    match read("apparmor/current").or_else(|_| read("current")) {
        Ok(text) => Ok(Some(text.trim_end_matches(['\n', '\0']).to_owned())),
        Err(_) if !process.exists() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether it is the profile or a child profile of it, in enforce mode.
fn is_enforced(is: &str, profile: &AppArmorProfile) -> bool {
    let rest = is.strip_prefix(profile.as_str());
    let Some((part, mode)) = rest.and_then(|rest| rest.rsplit_once(" (")) else {
        return false;
    };
    (part.is_empty() || part.starts_with("//")) && matches!(mode, "enforce)" | "kill)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(name: &str, is: &str) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        let file = proc.path().join("7/attr").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, is).unwrap();
        proc
    }

    #[tokio::test(start_paused = true)]
    async fn profile_that_is_not_the_planned_one_enforced_is_refused() {
        let profile = "mine".parse().unwrap();
        for (is, good) in [
            ("mine (enforce)\n", true),
            ("mine (enforce)\0", true),
            ("mine (kill)\n", true),
            ("mine//hat (enforce)\n", true),
            ("mine (complain)\n", false),
            ("mine (mixed)\n", false),
            ("mine-too (enforce)\n", false),
            ("other (enforce)\n", false),
            ("unconfined\n", false),
            ("", false),
        ] {
            for name in ["current", "apparmor/current"] {
                let proc = fake(name, is);
                if good {
                    in_force(proc.path(), 7, &profile).await.unwrap();
                } else {
                    let refused = in_force(proc.path(), 7, &profile).await.unwrap_err();
                    assert_eq!(refused, format!("planned `mine`, is `{}`", is.trim_end()));
                }
            }
        }
        // The file of another module does not count if AppArmor has its own.
        let proc = fake("apparmor/current", "mine (enforce)\n");
        fs::write(proc.path().join("7/attr/current"), "_\n").unwrap();
        in_force(proc.path(), 7, &profile).await.unwrap();
        in_force(proc.path(), 8, &profile).await.expect("it has ended");
    }

    #[test]
    fn apparmor_is_detected_in_sys() {
        let sys = tempfile::tempdir().unwrap();
        assert!(!is_enabled(sys.path()), "without the module");
        let folder = sys.path().join("module/apparmor/parameters");
        fs::create_dir_all(&folder).unwrap();
        for (text, expected) in [("Y\n", true), ("N\n", false), ("", false)] {
            fs::write(folder.join("enabled"), text).unwrap();
            assert_eq!(is_enabled(sys.path()), expected, "{text:?}");
        }
    }
}
