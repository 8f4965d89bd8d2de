//! Unix sockets, and set-user-id and set-group-id bits, in a work tree.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;
use sandbox::Mount;
use sandbox::workspace::Protection;

use super::tree::{Tree, planted};

#[tokio::test(flavor = "multi_thread")]
async fn socket_of_the_host_in_the_tree_is_unreachable() {
    let fixture = Fixture::new().await;
    let script = "curl -s -m 5 --unix-socket src/run.sock http://host.test/ || echo refused";
    for (protection, is_safe) in [(Protection::default(), true), (Protection::none(), false)] {
        for read_only in [false, true] {
            let tree = Tree::new();
            let listener = UnixListener::bind(tree.path().join("src/run.sock")).expect("a socket");
            let answer = std::thread::spawn(move || {
                use std::io::{Read as _, Write as _};
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut request = [0; 512];
                let count = stream.read(&mut request).expect("a request");
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
                    .expect("an answer");
                count
            });
            let mount = if read_only { Mount::read_only_at(tree.path(), "/workspace") } else { tree.plain() };
            let ran = tree.run(&fixture, mount.protected(protection.clone()), script).await;
            let expected = if is_safe { "refused\n" } else { "hello" };
            assert_held!(!is_safe || !ran.stdout.contains("hello"), "read-only {read_only}: {}", ran.stdout);
            assert_eq!(ran.stdout, expected, "read-only {read_only}: {}", ran.stderr);
            // Unblocks the listener of a socket that was not reached.
            let own = std::os::unix::net::UnixStream::connect(tree.path().join("src/run.sock"));
            drop(own);
            let _ = answer.join();
        }
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn setuid_and_setgid_bits_are_removed() {
    let fixture = Fixture::new().await;
    let script = "cp /bin/bash x; chmod 4755 x; mkdir g; chmod 2775 g; touch src/y; chmod 2755 src/y";
    for (protection, is_safe) in [(Protection::default(), true), (Protection::none(), false)] {
        let tree = Tree::new();
        let ran = tree.run(&fixture, tree.plain().protected(protection), script).await;
        let has_rights = |name: &str| {
            let found = fs::metadata(tree.path().join(name)).expect("a file");
            found.permissions().mode() & 0o6000 != 0
        };
        for name in ["x", "g", "src/y"] {
            assert_held!(!is_safe || !has_rights(name), "{name}: {}", ran.stderr);
            assert_eq!(has_rights(name), !is_safe, "{name}: {}", ran.stderr);
        }
        let expected: &[&str] = if is_safe { &["g", "src/y", "x"] } else { &[] };
        assert_eq!(planted(&ran, &tree.path()), expected);
    }
    fixture.close().await;
}
