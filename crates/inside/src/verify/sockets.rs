//! Reachable sockets of engines. An engine answers on its socket at any path.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox_inside::Order;
use socket2::{Domain, SockAddr, Socket, Type};

use super::observation::Observation;
use super::proc::mounts;

/// Default paths of engines' sockets.
const USUAL: [&str; 7] = [
    "/run/podman/podman.sock",
    "/var/run/podman/podman.sock",
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/buildkit/buildkitd.sock",
];
/// File systems without sockets.
const KERNELS: [&str; 6] = ["cgroup", "cgroup2", "devpts", "mqueue", "proc", "sysfs"];
/// Depth of the search below a mount.
const LEVELS: usize = 4;
/// Maximum number of folder entries in the search.
const ENTRIES: usize = 50_000;
/// Time limits for one socket to answer, and for all of them.
const TIMEOUT: Duration = Duration::from_secs(1);
const TIMEOUT_OF_ALL: Duration = Duration::from_secs(15);
const REQUEST: &[u8] = b"GET /_ping HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n";

pub(super) fn engine_socket_absent(order: &Order) -> Observation {
    let usual = USUAL.into_iter().chain([order.engine_socket.as_str()]);
    let mut sockets: BTreeSet<PathBuf> = usual.map(PathBuf::from).filter(|path| is_socket(path)).collect();
    // A socket with an engine's path or name counts even if it does not answer.
    let mut problems: BTreeSet<String> = sockets.iter().map(|path| problem(path, "is there")).collect();
    let mounted = match mounts() {
        Ok(mounts) => mounts,
        Err(error) => return Observation::unknown("the mounts", error),
    };
    let mut left = ENTRIES;
    for mount in mounted {
        if mount.target != "/" && !KERNELS.contains(&mount.file_system.as_str()) {
            sockets.extend(sockets_below(Path::new(&mount.target), &mut left));
        }
    }
    problems
        .extend(sockets.iter().filter(|path| has_engines_name(path)).map(|path| problem(path, "is there")));
    let begun = Instant::now();
    for path in &sockets {
        if begun.elapsed() > TIMEOUT_OF_ALL {
            problems.insert(format!("too many sockets to ask: {}", sockets.len()));
            break;
        }
        if ask(path).is_ok_and(|answer| is_engines(&answer)) {
            problems.insert(problem(path, "answers as an engine does"));
        }
    }
    let problems: Vec<String> = problems.into_iter().collect();
    Observation::from_problems(&problems, format!("asked {} sockets", sockets.len()))
}

fn problem(path: &Path, state: &str) -> String {
    format!("{} {state}", path.display())
}

fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

fn has_engines_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["podman", "docker", "containerd", "crio"].iter().any(|engine| name.contains(engine))
}

/// The sockets at `place` and below it, the nearest first, up to `left` entries. No link is
/// followed.
fn sockets_below(place: &Path, left: &mut usize) -> Vec<PathBuf> {
    let mut sockets = Vec::new();
    if is_socket(place) {
        sockets.push(place.to_owned());
    }
    let mut folders = VecDeque::from([(place.to_owned(), 1)]);
    while let Some((folder, level)) = folders.pop_front() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            if *left == 0 {
                return sockets;
            }
            *left -= 1;
            match entry.file_type() {
                Ok(kind) if kind.is_socket() => sockets.push(entry.path()),
                Ok(kind) if kind.is_dir() && level < LEVELS => folders.push_back((entry.path(), level + 1)),
                _ => {}
            }
        }
    }
    sockets
}

/// The answer of a socket to a request; empty if it takes too long.
fn ask(path: &Path) -> io::Result<Vec<u8>> {
    // An address is limited to 107 bytes: through an open folder, a socket may be at any depth.
    let folder = File::open(path.parent().unwrap_or(Path::new("/")))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let address = SockAddr::unix(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))?;
    let mut socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A socket with a full queue must not block us.
    socket.set_nonblocking(true)?;
    socket.connect(&address)?;
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.set_write_timeout(Some(TIMEOUT))?;
    // Some servers send first, and do not read.
    let _ = socket.write_all(REQUEST);
    let mut answer = vec![0; 4096];
    let length = socket.read(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

/// Podman and Docker report the version of their API; containerd, CRI-O and `BuildKit` begin with
/// the settings of HTTP/2.
fn is_engines(answer: &[u8]) -> bool {
    const SETTINGS: u8 = 4;
    let head = String::from_utf8_lossy(answer).to_ascii_lowercase();
    let speaks_http2 = matches!(answer, [0, 0, _, SETTINGS, 0, 0, 0, 0, 0, ..]);
    speaks_http2 || (head.starts_with("http/1.") && head.contains("api-version:"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// Answers the first client.
    fn serve(path: &Path, answer: &'static [u8]) {
        let listener = UnixListener::bind(path).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 256];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer).unwrap();
        });
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("inside-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn engine_is_recognised_by_its_answer() {
        let folder = folder("ask");
        for (name, answer, is) in [
            (
                "podman",
                &b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nLibpod-Api-Version: 5.4.2\r\n\r\nOK"[..],
                true,
            ),
            ("refusal", b"HTTP/1.1 403 Forbidden\r\nAPI-Version: 1.45\r\n\r\n", true),
            ("grpc", b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0\x40\0", true),
            ("web", b"HTTP/1.1 404 Not Found\r\nServer: web\r\n\r\n", false),
            ("agent", b"\0\0\0\x01\x05", false),
            ("nothing", b"", false),
        ] {
            let path = folder.join(name);
            serve(&path, answer);
            assert_eq!(is_engines(&ask(&path).unwrap()), is, "{name}");
        }
        // No listener remains there.
        assert!(ask(&folder.join("web")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn sockets_are_found_to_a_limited_depth_without_following_links() {
        let folder = folder("below");
        let mut deep = folder.clone();
        for level in 0..LEVELS {
            let _listener = UnixListener::bind(deep.join(format!("s{level}"))).unwrap();
            deep = deep.join("d");
            fs::create_dir(&deep).unwrap();
        }
        let _too_deep = UnixListener::bind(deep.join("s")).unwrap();
        std::os::unix::fs::symlink(&folder, folder.join("again")).unwrap();
        let mut left = ENTRIES;
        let found = sockets_below(&folder, &mut left);
        assert_eq!(found.len(), LEVELS, "{found:?}");
        let mut few = 1;
        assert!(sockets_below(&folder, &mut few).len() <= 1);
        assert_eq!(few, 0);
        fs::remove_dir_all(&folder).unwrap();
    }
}
