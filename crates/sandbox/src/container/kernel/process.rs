//! The ownership of a process.

use std::collections::BTreeSet;
use std::path::Path;

/// The kernel's controllers behind limits of memory, processors and processes.
const CONTROLLERS: [&str; 3] = ["memory", "cpu", "pids"];

/// The first process of a container, by the engine's numbers.
#[derive(Debug, Clone, Copy)]
pub(in crate::container) struct Process<'a> {
    pub(in crate::container) pid: u32,
    /// The engine's monitor of the container, its parent until the monitor is killed.
    pub(in crate::container) monitor: u32,
    /// The container's id.
    pub(in crate::container) id: &'a str,
}

impl Process<'_> {
    /// Whether it belongs to the container: in a process namespace of this program's own, the
    /// numbers would mean other processes.
    ///
    /// Either its control group is named after the container, or, if a rootless engine cannot
    /// create one, its parent is a process that was started with the container's id. Before the
    /// container runs, only the engine and its programs know that id, so no process of another task
    /// can pose as it.
    pub(in crate::container) fn is_of_container(&self, proc: &Path) -> bool {
        let read = |name: &str| std::fs::read_to_string(proc.join(self.pid.to_string()).join(name));
        let in_group = read("cgroup").is_ok_and(|groups| groups.contains(self.id));
        let parent = format!("PPid:\t{}", self.monitor);
        let is_child = || read("status").is_ok_and(|status| status.lines().any(|line| line == parent));
        in_group || (self.is_monitored(proc) && is_child())
    }

    /// The controllers of memory, processors and processes with a control group of the container's
    /// own. Only these limits are enforced; the engine reports limits in any case.
    pub(in crate::container) fn controlled(&self, proc: &Path) -> BTreeSet<&'static str> {
        let groups =
            std::fs::read_to_string(proc.join(self.pid.to_string()).join("cgroup")).unwrap_or_default();
        // A number, the controllers and the group: in version 1 a line for each hierarchy, in
        // version 2 one line without controllers.
        let group_of = |controller: &str| {
            let mut lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
            let (_, group) = lines.find(|(names, _)| names.split(',').any(|name| name == controller))?;
            Some(group)
        };
        let is_own = |controller: &&str| {
            let group = group_of(controller).or_else(|| group_of(""));
            group.is_some_and(|group| group.contains(self.id))
        };
        CONTROLLERS.into_iter().filter(is_own).collect()
    }

    /// Whether the monitor belongs to this container.
    pub(in crate::container) fn is_monitored(&self, proc: &Path) -> bool {
        let line = std::fs::read(proc.join(self.monitor.to_string()).join("cmdline"));
        line.is_ok_and(|line| line.split(|byte| *byte == 0).any(|word| word == self.id.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn process_is_identified_by_its_control_group_or_parent() {
        let (id, other) = ("0f".repeat(32), "0e".repeat(32));
        for (group, parent, line, expected) in [
            (&id, 1, "x".to_owned(), true),
            (&other, 6, format!("conmon\0-c\0{id}\0"), true),
            (&other, 5, format!("conmon\0-c\0{id}\0"), false),
            (&other, 66, format!("conmon\0-c\0{id}\0"), false),
            (&other, 6, format!("conmon\0-c\0{other}\0"), false),
            (&other, 6, format!("sh\0-c\0# {id}\0"), false),
        ] {
            let proc = tempfile::tempdir().unwrap();
            for process in ["6", "7"] {
                fs::create_dir(proc.path().join(process)).unwrap();
            }
            fs::write(proc.path().join("6/cmdline"), &line).unwrap();
            fs::write(proc.path().join("7/status"), format!("Name:\tcrun\nPPid:\t{parent}\n")).unwrap();
            fs::write(proc.path().join("7/cgroup"), format!("0::/libpod-{group}.scope\n")).unwrap();
            let process = |pid| Process { pid, monitor: 6, id: &id };
            assert_eq!(process(7).is_of_container(proc.path()), expected, "{group} {parent} {line:?}");
            assert!(!process(8).is_of_container(proc.path()), "no such process");
        }
    }

    #[test]
    fn limit_without_an_own_control_group_is_not_controlled() {
        let id = "0f".repeat(32);
        let own = format!("/user.slice/libpod-{id}.scope/container");
        let lines = |numbered: &[(&str, &str)]| {
            let line = |(names, group): &(&str, &str)| format!("3:{names}:{group}\n");
            numbered.iter().map(line).collect::<String>()
        };
        let all = ["memory", "cpu", "pids"];
        for (groups, expected) in [
            (lines(&[("", &own)]), &all[..]),
            (lines(&[("", "/user.slice/session-1.scope")]), &[]),
            (lines(&[("cpu,cpuacct", &own), ("pids", &own), ("memory", &own), ("", "/")]), &all),
            // A group that systemd tracks without a controller limits nothing.
            (lines(&[("name=systemd", &own), ("memory", "/"), ("pids", &own), ("cpu", "/")]), &["pids"]),
            // A controller without a hierarchy of its own is in version 2.
            (lines(&[("memory", "/"), ("", &own)]), &["cpu", "pids"]),
            (String::new(), &[]),
        ] {
            let proc = tempfile::tempdir().unwrap();
            fs::create_dir(proc.path().join("7")).unwrap();
            fs::write(proc.path().join("7/cgroup"), &groups).unwrap();
            let process = Process { pid: 7, monitor: 6, id: &id };
            assert_eq!(process.controlled(proc.path()), expected.iter().copied().collect(), "{groups}");
        }
    }
}
