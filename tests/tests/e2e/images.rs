//! Images: built once from their inputs, and rebuilt when those change.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e_tests::engine;
use e2e_tests::fixture;
use e2e_tests::setting::Setting;
use sandbox::image::{ImageKind, ImageRequest, ImageSummary};
use sandbox::{CommandSpec, ImageSource, ImageTag, Input, Sandbox, SandboxConfig};
use tempfile::TempDir;

/// An on-demand sandbox, since building needs no proxy.
struct ImageFixture {
    config: SandboxConfig,
    sandbox: Sandbox,
    _state: TempDir,
}

impl ImageFixture {
    async fn new(prefix: &str) -> Self {
        let state = tempfile::tempdir().expect("a folder");
        let mut config = fixture::config(state.path());
        prefix.clone_into(&mut config.prefix);
        let sandbox = Sandbox::start(config.clone().on_demand()).await.expect("the engine answers");
        // Leftovers of an earlier, aborted run.
        sandbox.prune_images(Duration::ZERO).await.expect("old images are removed");
        Self { config, sandbox, _state: state }
    }

    /// Another instance, as of another process, which rebuilds images older than `age`.
    async fn with_age(&self, age: Duration) -> Sandbox {
        let mut config = self.config.clone();
        config.max_image_age = age;
        Sandbox::start(config.on_demand()).await.expect("the engine answers")
    }

    async fn close(self) {
        // A container that is still being removed keeps its image.
        self.sandbox.shutdown().await.expect("nothing is left");
        self.sandbox.prune_images(Duration::ZERO).await.expect("old images are removed");
        let left = self.sandbox.list_images().await.expect("the engine answers");
        assert!(left.is_empty(), "{left:?}");
    }
}

/// The tag, and the output of the build, if there was one.
async fn ensure(sandbox: &Sandbox, source: &ImageSource) -> (ImageTag, Vec<String>) {
    let mut lines = Vec::new();
    let tag = sandbox
        .ensure_image(ImageRequest::new(source).on_line(|line| lines.push(line.to_owned())))
        .await
        .expect("the image is built");
    (tag, lines)
}

async fn run(sandbox: &Sandbox, image: &ImageTag, command: &[&str]) -> (i64, String) {
    let command = CommandSpec::new("image", image.clone(), command.iter().copied());
    let command = sandbox.create_command(command).expect("a good command");
    let result = command.execute(Input::Empty).await.expect("the sandbox works");
    (result.exit_code, String::from_utf8_lossy(&result.stdout).into_owned())
}

/// An image that contains `file` and differs whenever it is built without a cache. Each test has
/// its own content, since images that share layers with a running build cannot be removed.
fn stamped(file: &str) -> ImageSource {
    // The engine keeps images of earlier runs: the process id makes those of this run unique.
    let dockerfile = format!(
        "FROM {}\nCOPY folder/file /file\nRUN date +%s%N > /stamp # {}\n",
        Setting::of_this_run().image,
        std::process::id()
    );
    ImageSource::build(dockerfile, files(&[("folder/file", file.as_bytes())]))
}

fn files(files: &[(&str, &[u8])]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec())).collect()
}

fn steps(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.contains("RUN date")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn image_is_built_once_and_rebuilt_when_its_inputs_change() {
    let fixture = ImageFixture::new("e2e-image-cache").await;
    let sandbox = &fixture.sandbox;
    let (first, lines) = ensure(sandbox, &stamped("one")).await;
    assert!(steps(&lines) > 0, "the control: a build prints its steps: {lines:?}");
    assert_eq!(run(sandbox, &first, &["cat", "/file"]).await, (0, "one".to_owned()));
    assert_eq!(run(sandbox, &first, &["sh", "-c", "echo $IS_SANDBOX"]).await, (0, "1\n".to_owned()));

    let (second, lines) = ensure(sandbox, &stamped("one")).await;
    assert_eq!((&second, lines.len()), (&first, 0), "{lines:?}");
    let tags = sandbox.image_tags(&stamped("one")).await.expect("tags");
    assert_eq!(tags.overlay, first.as_str());

    let (changed, lines) = ensure(sandbox, &stamped("two")).await;
    assert!(changed != first && steps(&lines) > 0, "{lines:?}");
    assert_eq!(run(sandbox, &changed, &["cat", "/file"]).await, (0, "two".to_owned()));
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn image_above_its_maximum_age_is_rebuilt_with_its_overlay() {
    let fixture = ImageFixture::new("e2e-image-age").await;
    let (tag, _) = ensure(&fixture.sandbox, &stamped("old")).await;
    let (_, old) = run(&fixture.sandbox, &tag, &["cat", "/stamp"]).await;
    let rebuilding = fixture.with_age(Duration::ZERO).await;
    let (again, lines) = ensure(&rebuilding, &stamped("old")).await;
    assert_eq!(again, tag, "the name is made from the content");
    assert!(steps(&lines) > 0, "{lines:?}");
    let (_, new) = run(&rebuilding, &again, &["cat", "/stamp"]).await;
    assert_ne!(new, old, "no layer came from the engine's cache, and the overlay is based on the new image");
    rebuilding.shutdown().await.expect("nothing is left");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overlay_is_rebuilt_when_its_base_is() {
    let fixture = ImageFixture::new("e2e-image-lower").await;
    let sandbox = &fixture.sandbox;
    let (tag, _) = ensure(sandbox, &stamped("lower")).await;
    let tags = sandbox.image_tags(&stamped("lower")).await.expect("tags");
    let repo = tags.repo.expect("it is built here");
    // The base image is removed; the overlay keeps its name and its layers.
    let (status, body) = engine::call("DELETE", &format!("/images/{repo}?force=false"), None).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    let before = engine::json("GET", &format!("/images/{tag}/json"), None).await;
    let fresh = fixture.with_age(Duration::ZERO).await;
    let (again, _) = ensure(&fresh, &stamped("lower")).await;
    let after = engine::json("GET", &format!("/images/{again}/json"), None).await;
    assert_ne!(before["Id"], after["Id"]);
    fresh.shutdown().await.expect("nothing is left");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_for_one_image_build_it_once() {
    let fixture = ImageFixture::new("e2e-image-once").await;
    let other = fixture.with_age(fixture.config.max_image_age).await;
    let source = stamped("once");
    let ((first, one), (second, two)) =
        tokio::join!(ensure(&fixture.sandbox, &source), ensure(&other, &source));
    assert_eq!(first, second);
    assert_eq!([&one, &two].iter().filter(|lines| steps(lines) > 0).count(), 1, "{one:?}\n{two:?}");
    other.shutdown().await.expect("nothing is left");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn different_images_are_built_concurrently() {
    let fixture = ImageFixture::new("e2e-image-many").await;
    let sandbox = &fixture.sandbox;
    let sources: Vec<ImageSource> = (0..6).map(|number| stamped(&format!("many-{number}"))).collect();
    let built = futures_util::future::join_all(sources.iter().map(|source| ensure(sandbox, source))).await;
    for (number, (tag, lines)) in built.iter().enumerate() {
        assert!(steps(lines) > 0, "{number}: {lines:?}");
        assert_eq!(run(sandbox, tag, &["cat", "/file"]).await, (0, format!("many-{number}")));
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_build_shows_its_output() {
    let fixture = ImageFixture::new("e2e-image-fails").await;
    let dockerfile =
        format!("FROM {}\nRUN echo before; echo the-reason >&2; exit 3\n", Setting::of_this_run().image);
    let mut lines = Vec::new();
    let source = ImageSource::build(dockerfile, BTreeMap::new());
    let error = fixture
        .sandbox
        .ensure_image(ImageRequest::new(&source).on_line(|line| lines.push(line.to_owned())))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("before") && error.contains("the-reason"), "{error}");
    assert!(lines.iter().any(|line| line.contains("the-reason")), "{lines:?}");
    let missing = ImageSource::existing("localhost/no-such-image:latest");
    let error = fixture.sandbox.ensure_image(&missing).await.unwrap_err().to_string();
    assert!(error.contains("localhost/no-such-image:latest"), "{error}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn image_with_only_a_static_program_runs() {
    let fixture = ImageFixture::new("e2e-image-scratch").await;
    let probe = std::fs::read(&Setting::of_this_run().probe).expect("the probe");
    let dockerfile = "FROM scratch\nCOPY probe /probe\nENTRYPOINT [\"/not/this\"]\n";
    let source = ImageSource::build(dockerfile, files(&[("probe", &probe)]));
    let (tag, _) = ensure(&fixture.sandbox, &source).await;
    let (code, printed) = run(&fixture.sandbox, &tag, &["/probe", "addresses"]).await;
    assert!(code == 0 && printed.contains("\"outcome\""), "{code} {printed}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn saved_image_is_loaded_and_not_rebuilt() {
    let fixture = ImageFixture::new("e2e-image-save").await;
    let sandbox = &fixture.sandbox;
    let (tag, _) = ensure(sandbox, &stamped("saved")).await;
    let (_, stamp) = run(sandbox, &tag, &["cat", "/stamp"]).await;
    sandbox.shutdown().await.expect("nothing is left");
    let tags = sandbox.image_tags(&stamped("saved")).await.expect("tags");
    let repo = tags.repo.expect("it is built here");
    let mut archive = Vec::new();
    sandbox.save_images(&[&repo, &tags.overlay], &mut archive).await.expect("an archive");
    let removed = sandbox.prune_images(Duration::ZERO).await.expect("images are removed");
    for tag in [&repo, &tags.overlay] {
        assert!(removed.iter().any(|image| image.tag.as_ref() == Some(tag)), "{tag}: {removed:?}");
    }

    let mut loaded = sandbox.load_images(std::io::Cursor::new(archive)).await.expect("the archive is good");
    loaded.sort_unstable();
    assert!(
        loaded.iter().any(|name| name.contains(&repo))
            && loaded.iter().any(|name| name.contains(&tags.overlay)),
        "{loaded:?}"
    );
    let (again, lines) = ensure(sandbox, &stamped("saved")).await;
    assert_eq!((&again, lines.len()), (&tag, 0), "{lines:?}");
    assert_eq!(run(sandbox, &again, &["cat", "/stamp"]).await, (0, stamp));
    fixture.close().await;
}

/// The images of proxies of the sandbox's prefix.
async fn proxies(sandbox: &Sandbox) -> Vec<ImageSummary> {
    let images = sandbox.list_images().await.expect("the engine answers");
    images.into_iter().filter(|image| image.kind == ImageKind::Proxy).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_image_is_shared_by_all_state_folders_and_removed_with_shared_resources() {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let state = tempfile::tempdir().expect("a folder");
        let mut config = fixture::config(state.path());
        "e2e-proxy-image".clone_into(&mut config.prefix);
        let sandbox = Sandbox::start(config).await.expect("the engine answers");
        seen.push(proxies(&sandbox).await);
        sandbox.shutdown().await.expect("nothing is left");
        if seen.len() == 2 {
            assert!(sandbox.remove_shared().await.expect("the engine answers"), "nobody else uses it");
            assert_eq!(proxies(&sandbox).await, []);
        }
    }
    let [first, second] = seen.as_slice() else { panic!("{seen:?}") };
    assert!(first.len() == 1 && first.iter().all(|image| image.tag.is_some()), "the control: {first:?}");
    assert_eq!(first, second);
}
