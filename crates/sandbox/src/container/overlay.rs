//! Copy-on-write mounts: their overlays as the engine and the kernel report them.

use crate::spec::Mount;
use sandbox_podman::MountFacts;
use sandbox_workspace::overlay_folders;

use super::kernel::KernelMount;

/// The source of a mount as comparable text: a path, or the folders of an overlay.
pub(super) fn source(mount: &Mount) -> String {
    match options(mount) {
        Some(options) => described(options),
        None => mount.host_path().to_string_lossy().into_owned(),
    }
}

/// The same text from the engine's report: it gives an overlay a folder of its own, and lists ours
/// among the options.
pub(super) fn mounted_source(is: &MountFacts) -> String {
    let is_overlay = is.options.iter().any(|option| option.starts_with("lowerdir="));
    if is_overlay { described(is.options.iter().cloned()) } else { is.source.clone() }
}

/// Whether the kernel's `is` is the overlay of `mount`.
pub(super) fn is_overlay_of(is: &KernelMount, mount: &Mount) -> bool {
    is.file_system == "overlay"
        && !is.is_read_only()
        && is.options.contains("rw")
        && options(mount).is_some_and(|mut options| options.all(|option| is.options.contains(&option)))
}

fn options(mount: &Mount) -> Option<impl Iterator<Item = String>> {
    let (upper, work) = overlay_folders(mount.copy_dir()?);
    let options = [("lowerdir", mount.host_path()), ("upperdir", &upper), ("workdir", &work)];
    let options = options.map(|(name, path)| format!("{name}={}", path.display()));
    Some(options.into_iter())
}

fn described(options: impl Iterator<Item = String>) -> String {
    let mut options: Vec<String> = options.filter(|option| option.contains("dir=")).collect();
    options.sort_unstable();
    format!("overlay of {}", options.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::kernel;
    use super::*;

    const LINE: &str = "217 211 0:57 / /workspace rw,relatime - overlay /storage/merge \
                        rw,lowerdir=/srv/my\\040app,upperdir=/state/c/upper,workdir=/state/c/work,uuid=on";

    #[test]
    fn overlay_other_than_the_planned_one_is_rejected() {
        let mount = Mount::copy_on_write("/srv/my app", "/workspace", "/state/c");
        let is = |line: &str| is_overlay_of(&kernel::parse(line).unwrap()[0], &mount);
        assert!(is(LINE));
        for (what, by) in [
            ("overlay", "ext4"),
            ("lowerdir=/srv/my", "lowerdir=/srv/your"),
            ("upperdir=/state/c/upper", "upperdir=/storage/upper"),
            (" rw,lowerdir", " ro,lowerdir"),
            (" rw,relatime", " ro,relatime"),
        ] {
            assert!(!is(&LINE.replacen(what, by, 1)), "{what}");
        }
    }

    #[test]
    fn engine_and_plan_give_the_same_text_for_an_overlay() {
        let mount = Mount::copy_on_write("/srv/app", "/w", "/state/c");
        let mut is = MountFacts {
            kind: "bind".to_owned(),
            source: "/storage/merge".to_owned(),
            destination: "/w".to_owned(),
            writable: true,
            name: String::new(),
            options: ["lowerdir=/srv/app", "workdir=/state/c/work", "upperdir=/state/c/upper"]
                .map(str::to_owned)
                .to_vec(),
        };
        assert_eq!(mounted_source(&is), source(&mount));
        is.options = vec!["rbind".to_owned()];
        assert_eq!(mounted_source(&is), "/storage/merge");
    }
}
