//! Symbolic links in a mount that the host follows later.

use std::fs;

use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;
use sandbox::{Input, Mount};

use super::tree::Tree;

#[tokio::test(flavor = "multi_thread")]
async fn folder_replaced_by_a_link_after_the_check_is_not_mounted() {
    let fixture = Fixture::new().await;
    let tree = Tree::new();
    let secret = tempfile::tempdir().expect("a folder");
    fs::write(secret.path().join("key"), "of the host").expect("a file");
    let inner = Mount::read_only_at(tree.path().join("src"), "/data");
    let script = format!("cat /data/*; rm -rf src; ln -s {} src", secret.path().display());
    let command = fixture
        .sandbox
        .create_command(tree.spec(&fixture, tree.plain(), &script).mount(inner))
        .expect("a good command");
    let first = command.execute(Input::Empty).await.expect("the sandbox works");
    assert_eq!(String::from_utf8_lossy(&first.stdout), "one\n");
    let second = command.execute(Input::Empty).await;
    assert_held!(second.is_err(), "a link leads elsewhere: {second:?}");
    let second = second.expect_err("the start is refused").to_string();
    assert!(second.contains("is a symbolic link in a folder that tasks can write"), "{second}");

    // The control: a link that no task can have created is followed.
    let own = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(secret.path(), own.path().join("src")).expect("a link");
    let followed = Mount::read_only_at(own.path().join("src"), "/data");
    let ran = fixture.run_spec(tree.spec(&fixture, tree.plain(), "cat /data/*").mount(followed)).await;
    assert_eq!(ran.stdout, "of the host");
    fixture.close().await;
}
