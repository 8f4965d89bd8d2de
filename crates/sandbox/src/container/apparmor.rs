//! Whether the kernel confines a process as an `AppArmor` profile says.
//!
//! The kernel applies a profile with the program that it is for, and shows until then only to the
//! process itself which one that will be. So what the runtime was asked for is compared before the
//! program starts, and what is in force right after.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::spec::AppArmorProfile;

/// How long a runtime may take from the word to start to the program.
const DEADLINE: Duration = Duration::from_secs(10);
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// Whether the kernel has `AppArmor`, where `sys` is its `/sys`.
pub(super) fn is_enabled(sys: &Path) -> bool {
    fs::read_to_string(sys.join("module/apparmor/parameters/enabled")).is_ok_and(|text| text.trim() == "Y")
}

/// Waits until `profile` is in force for the process `pid`, or the process has ended. An error says
/// what is in force instead.
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

/// What confines the process; `None` once it has ended.
fn current(process: &Path) -> io::Result<Option<String>> {
    // Where there are several modules, the second may be another's.
    let read = |name: &str| fs::read_to_string(process.join("attr").join(name));
    match read("apparmor/current").or_else(|_| read("current")) {
        Ok(text) => Ok(Some(text.trim_end_matches(['\n', '\0']).to_owned())),
        Err(_) if !process.exists() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether it is the profile or a part of it that the profile leads to, and more than a report of
/// what it would refuse.
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
    async fn only_the_planned_profile_enforced_is_in_force() {
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
        // Another module's word does not count where AppArmor has one of its own.
        let proc = fake("apparmor/current", "mine (enforce)\n");
        fs::write(proc.path().join("7/attr/current"), "_\n").unwrap();
        in_force(proc.path(), 7, &profile).await.unwrap();
        in_force(proc.path(), 8, &profile).await.expect("it has ended");
    }

    #[test]
    fn a_kernel_says_whether_it_has_it() {
        let sys = tempfile::tempdir().unwrap();
        assert!(!is_enabled(sys.path()), "it has never heard of it");
        let folder = sys.path().join("module/apparmor/parameters");
        fs::create_dir_all(&folder).unwrap();
        for (text, expected) in [("Y\n", true), ("N\n", false), ("", false)] {
            fs::write(folder.join("enabled"), text).unwrap();
            assert_eq!(is_enabled(sys.path()), expected, "{text:?}");
        }
    }
}
