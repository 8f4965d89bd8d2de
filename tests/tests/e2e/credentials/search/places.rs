//! The places of the search.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use e2e_tests::engine;
use serde_json::Value;

use super::needles::Needles;

/// One container of a run: its name and its first process.
pub(in crate::credentials) struct Container {
    pub(in crate::credentials) name: String,
    pub(in crate::credentials) pid: u32,
}

/// Both containers of a run, and the engine's state.
pub(in crate::credentials) struct Places {
    pub(in crate::credentials) task: Container,
    pub(in crate::credentials) proxy: Container,
    engine: PathBuf,
    begun: SystemTime,
}

impl Container {
    async fn of(name: String) -> Self {
        let facts = engine::json("GET", &format!("/containers/{name}/json"), None).await;
        let pid = facts.pointer("/State/Pid").and_then(Value::as_u64);
        Self { name, pid: pid.and_then(|pid| u32::try_from(pid).ok()).expect("a pid") }
    }

    /// Its processes, by their ids on this machine.
    fn processes(&self) -> Vec<u32> {
        let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = namespace(self.pid);
        processes().into_iter().filter(|pid| own.is_some() && namespace(*pid) == own).collect()
    }

    /// The top-level folders of its file system as its processes see it, with all mounts except the
    /// kernel's.
    fn roots(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(format!("/proc/{}/root", self.pid));
        let entries = entries.into_iter().flatten().flatten();
        let entries = entries.filter(|entry| !["proc", "sys"].iter().any(|name| entry.file_name() == *name));
        entries.map(|entry| entry.path()).collect()
    }
}

impl Places {
    /// The places of the only run under `prefix`, which began at `begun`.
    pub(in crate::credentials) async fn of(prefix: &str, begun: SystemTime) -> Self {
        let names = engine::containers(prefix).await;
        let (proxies, tasks): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.contains("-proxy-"));
        let info = engine::json("GET", "/info", None).await;
        let storage = info.pointer("/store/graphRoot").and_then(Value::as_str).expect("a storage");
        Self {
            task: Container::of(only(tasks)).await,
            proxy: Container::of(only(proxies)).await,
            engine: Path::new(storage).parent().expect("a folder").to_owned(),
            begun,
        }
    }

    /// Searches the places that exist while both containers run.
    pub(in crate::credentials) async fn search_living(&self, needles: &mut Needles) {
        for container in [&self.task, &self.proxy] {
            for path in ["json", "logs?stdout=true&stderr=true", "top"] {
                for api in ["/v4.0.0/libpod", "/v1.41"] {
                    let target = format!("{api}/containers/{}/{path}", container.name);
                    needles.look("inspection", &target, &engine::raw("GET", &target).await.1);
                }
            }
            let (status, export) =
                engine::raw("GET", &format!("/v4.0.0/libpod/containers/{}/export", container.name)).await;
            assert_eq!(status, 200, "{} is exported", container.name);
            needles.look("export", &container.name, &export);
            needles.look_into_files("file system", container.roots().iter().map(PathBuf::as_path));
        }
        for pid in self.task.processes() {
            needles.look_into_memory("memory of the task", pid);
        }
        for pid in processes() {
            for file in ["cmdline", "comm", "status", "maps", "mountinfo", "limits"] {
                let path = format!("/proc/{pid}/{file}");
                needles.look("process list", &path, &fs::read(&path).unwrap_or_default());
            }
        }
        for pid in self.task.processes().into_iter().chain(self.proxy.processes()) {
            let path = format!("/proc/{pid}/environ");
            needles.look("environment", &path, &fs::read(&path).unwrap_or_default());
        }
    }

    /// Searches the places that exist before and after a run, too.
    pub(in crate::credentials) async fn search_host(&self, needles: &mut Needles, folders: &[&Path]) {
        let begun = self.begun.duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_secs();
        for target in [
            format!("/v4.0.0/libpod/events?stream=false&since={begun}"),
            "/v4.0.0/libpod/networks/json".to_owned(),
            "/v1.41/networks".to_owned(),
        ] {
            needles.look("engine", &target, &engine::raw("GET", &target).await.1);
        }
        needles.look_into_files("engine", self.engine_files().iter().map(PathBuf::as_path));
        needles.look_into_files("folders", folders.iter().copied());
        // Not only the folder of this test run, which the engine and its programs do not know.
        let changed = changed_since(Path::new("/tmp"), self.begun);
        if !changed.is_empty() {
            needles.look_into_files("temporary files", changed.iter().map(PathBuf::as_path));
        }
    }

    /// The writable layer of the proxy's file system.
    pub(super) async fn proxy_layer(&self) -> PathBuf {
        let facts = engine::json("GET", &format!("/containers/{}/json", self.proxy.name), None).await;
        let layer = facts.pointer("/GraphDriver/Data/UpperDir").and_then(Value::as_str);
        PathBuf::from(layer.expect("overlay storage"))
    }

    /// Waits until the engine reports the end of the proxy, including core files. Returns its exit
    /// code.
    pub(super) async fn await_end_of_the_proxy(&self) -> i32 {
        let path =
            format!("/containers/{}/wait?condition=exited&condition=stopped&interval=20ms", self.proxy.name);
        let code = engine::json("POST", &path, None).await;
        code.as_i64().and_then(|code| i32::try_from(code).ok()).expect("a code")
    }

    /// The engine's log, its database, and its files of each container, without the layers of
    /// images.
    fn engine_files(&self) -> Vec<PathBuf> {
        let storage = self.engine.join("storage");
        let pid = fs::read_to_string(self.engine.join("pid")).unwrap_or_default();
        let run = PathBuf::from(format!("/proc/{}/root/run", pid.trim()));
        let own = ["service.log", "networks"].map(|name| self.engine.join(name));
        let kept =
            ["libpod", "db.sql", "overlay-containers", "vfs-containers"].map(|name| storage.join(name));
        let running = ["containers", "libpod", "crun"].map(|name| run.join(name));
        own.into_iter().chain(kept).chain(running).filter(|path| path.exists()).collect()
    }
}

fn only(names: Vec<String>) -> String {
    let [name] = <[String; 1]>::try_from(names).expect("one run");
    name
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Files below `folder` that were written since `begun`. Other programs use the folder too, so huge
/// files are skipped.
fn changed_since(folder: &Path, begun: SystemTime) -> Vec<PathBuf> {
    const HUGE: u64 = 64 << 20;
    let mut found = Vec::new();
    // Skips other mounts below it: a search of a process file system would not end.
    let device = folder.metadata().expect("a folder").dev();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(data) = entry.metadata() else { continue };
            if data.dev() != device {
                continue;
            }
            if data.is_dir() {
                folders.push(entry.path());
            } else if data.is_file() && data.len() < HUGE && data.modified().is_ok_and(|time| time >= begun) {
                found.push(entry.path());
            }
        }
    }
    found
}
