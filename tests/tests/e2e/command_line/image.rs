//! `image`.

use std::process::Command;

use e2e_tests::setting::Setting;

use super::project::{Project, config};

#[tokio::test(flavor = "multi_thread")]
async fn saved_image_is_loaded_without_a_rebuild() {
    let prefix = "e2e-cli-images";
    let project = Project::with_prefix(prefix);
    project.write(".sandbox/sandbox.yaml", &config(prefix, "X").replace("image: X\n", ""));
    project.write(
        ".sandbox/container/Dockerfile",
        &format!("FROM {}\nRUN date +%N > /stamp\n", Setting::of_this_run().image),
    );
    let hash = project.output(&["image", "hash", "--engine", "unix:///no/engine/needed.sock"]).stdout;
    let tags: Vec<&str> = hash.lines().filter_map(|line| line.split_once('=')).map(|(_, tag)| tag).collect();
    assert_eq!(tags.len(), 2, "{hash}");
    let built = project.output(&["image", "build"]);
    assert_eq!(built.stdout, format!("{}\n", tags[1]), "{built:?}");
    let stamp = project.run("cat /stamp").stdout;

    let saved = project.output(&["image", "save", "saved"]);
    assert_eq!(saved.code, Some(0), "{saved:?}");
    let listed = project.output(&["image", "list", "--output", "json"]).json();
    let kinds: Vec<&str> = listed["images"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|image| image["kind"].as_str())
        .collect();
    assert!(kinds.contains(&"repo") && kinds.contains(&"overlay") && kinds.contains(&"proxy"), "{listed}");
    let pruned = project.output(&["image", "prune", "--max-image-age", "0"]);
    assert!(tags.iter().all(|tag| pruned.stdout.contains(tag)), "{pruned:?}");
    let loaded = project.output(&["image", "load", "saved"]);
    assert!(tags.iter().all(|tag| loaded.stdout.contains(tag)), "{loaded:?}");
    let again = project.run("cat /stamp");
    assert_eq!(again.stdout, stamp, "it was not rebuilt: {again:?}");
    let rebuilt = project.output(&["run", "--max-image-age", "0", "--", "cat", "/stamp"]);
    assert!(
        rebuilt.code == Some(0) && rebuilt.stdout != stamp,
        "the control: a rebuilt image differs: {rebuilt:?}"
    );
    project.output(&["image", "prune", "--max-image-age", "0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn saved_image_that_was_not_built_here_keeps_its_name() {
    let project = Project::new();
    let image = &Setting::of_this_run().image;
    let saved = project.output(&["image", "save", "saved"]);
    assert_eq!(saved.stdout.lines().next(), Some(image.as_str()), "{saved:?}");
    let mut tar = Command::new("tar");
    tar.arg("-xOf").arg(project.path().join("saved/images.tar")).arg("manifest.json");
    let manifest = tar.output().expect("tar").stdout;
    assert!(String::from_utf8_lossy(&manifest).contains(image.as_str()), "{image}");
}
