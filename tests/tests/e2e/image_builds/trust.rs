//! Real clients in build steps trust the proxy, and no trace of that is in the image.

use std::io::Read as _;

use e2e_tests::assert_held;
use e2e_tests::engine;
use sandbox::{CommandSpec, ImageSource, Input, Network};

use super::fixture::{BuildFixture, permitting};

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_many_kinds_trust_the_proxy() {
    let fixture = BuildFixture::new("e2e-build-clients").await;
    let built = fixture
        .build(
            permitting("domains: [open.test, git.test, pypi.test]"),
            "RUN wget -qO- https://open.test/wget\n\
             RUN git clone -q https://git.test/demo.git /demo && cat /demo/greeting.txt\n\
             RUN python3 -c \"import requests; print(requests.get('https://open.test/python').status_code)\"\n\
             RUN node -e \"require('https').get('https://open.test/node', r => console.log('node', r.statusCode))\"\n\
             USER nobody\n\
             RUN curl -sS -o /dev/null -w 'nobody %{http_code}\\n' https://open.test/nobody\n",
        )
        .await;
    built.succeeded();
    for path in ["wget", "python", "node", "nobody"] {
        let line = format!("allowed GET https://open.test/{path} -> 200");
        assert!(built.log.contains(&line), "{line}: {}\n{}", built.log, built.output);
    }
    assert!(built.output.contains("hello"), "{}", built.output);
    // Steps that the author did not write are not shown.
    assert!(!built.output.contains("sandbox-trust"), "{}", built.output);
    fixture.close().await;
}

/// A package whose installation regenerates the bundle of authorities can be installed, since
/// nothing is mounted over the bundle.
#[tokio::test(flavor = "multi_thread")]
async fn authorities_of_the_image_can_be_regenerated() {
    let fixture = BuildFixture::new("e2e-build-update").await;
    let built = fixture
        .build(
            permitting("domains: [open.test]"),
            "RUN update-ca-certificates --fresh && curl -sS -o /dev/null https://open.test/\n",
        )
        .await;
    built.succeeded();
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn image_contains_nothing_of_the_sandbox() {
    let fixture = BuildFixture::new("e2e-build-clean").await;
    let built = fixture
        .build(
            permitting("domains: [open.test]"),
            "RUN curl -sS https://open.test/ > /page && echo line=$(sed -n 3p $SSL_CERT_FILE | rev) && touch /dev/sandbox-trust/x || echo read-only\n\
             ENV SSL_CERT_FILE=/the/authors/own\n",
        )
        .await;
    let tag = built.succeeded();
    assert!(built.output.contains("read-only"), "{}", built.output);
    // A line of the certificate, printed reversed by the step: the build log may contain it, the
    // image may not.
    let line: String = built
        .output
        .lines()
        .find_map(|line| line.strip_prefix("line="))
        .filter(|line| line.len() == 64)
        .unwrap_or_else(|| panic!("no line of the certificate: {}", built.output))
        .chars()
        .rev()
        .collect();
    let image = engine::json("GET", &format!("/images/{tag}/json"), None).await;
    let variables: Vec<&str> = image["Config"]["Env"]
        .as_array()
        .expect("variables")
        .iter()
        .filter_map(|variable| variable.as_str())
        .collect();
    assert!(variables.contains(&"SSL_CERT_FILE=/the/authors/own"), "{variables:?}");
    assert!(
        !variables
            .iter()
            .any(|variable| variable.contains("sandbox-trust") || variable.starts_with("CURL_CA_BUNDLE=")),
        "{variables:?}"
    );
    let (files, found) = search(tag.as_str(), &["sandbox-trust", &line, "10.199."]).await;
    assert!(files.iter().any(|file| file == "page"), "the control: {files:?}");
    assert_held!(found.is_empty(), "{found:?}");
    let (code, _) = run(&fixture, tag, &["test", "-e", "/dev/sandbox-trust"]).await;
    assert_eq!(code, 1);

    // The control: the search finds a copy of the authorities.
    let copied =
        fixture.build(permitting("domains: [open.test]"), "RUN cp -r /dev/sandbox-trust /copied\n").await;
    let (_, found) = search(copied.succeeded().as_str(), &[&line]).await;
    assert!(!found.is_empty(), "the control: a copy is found");
    fixture.close().await;
}

/// The files of the last layers of an image, and those whose name or content has one of `needles`.
async fn search(tag: &str, needles: &[&str]) -> (Vec<String>, Vec<String>) {
    let (status, archive) =
        engine::call("GET", &format!("/images/{tag}/get?format=docker-archive"), None).await;
    assert_eq!(status, 200);
    let mut outer = tar::Archive::new(&archive[..]);
    let (mut files, mut found) = (Vec::new(), Vec::new());
    for layer in outer.entries().expect("an archive") {
        let mut layer = layer.expect("an entry");
        let is_layer = layer.path().is_ok_and(|path| path.extension().is_some_and(|end| end == "tar"));
        // The base image is far larger than the layers of the steps.
        if !is_layer || layer.size() > 16 << 20 {
            continue;
        }
        let mut bytes = Vec::new();
        layer.read_to_end(&mut bytes).expect("a layer");
        let mut inner = tar::Archive::new(&bytes[..]);
        for file in inner.entries().expect("a layer") {
            let mut file = file.expect("a file");
            let name = file.path().expect("a path").display().to_string();
            let mut content = Vec::new();
            file.read_to_end(&mut content).expect("its content");
            let holds =
                |needle: &&&str| content.windows(needle.len()).any(|piece| piece == needle.as_bytes());
            if needles.iter().any(|needle| name.contains(needle)) || needles.iter().find(holds).is_some() {
                found.push(name.clone());
            }
            files.push(name);
        }
    }
    (files, found)
}

async fn run(fixture: &BuildFixture, image: &sandbox::ImageTag, command: &[&str]) -> (i64, String) {
    let spec = CommandSpec::new("built", image.clone(), command.iter().copied());
    let command = fixture.sandbox.create_command(spec).expect("a good command");
    let result = command.execute(Input::Empty).await.expect("the sandbox works");
    (result.exit_code, String::from_utf8_lossy(&result.stdout).into_owned())
}

/// With another network, steps may produce another image, so its name differs; equal layers come
/// from the engine's cache.
#[tokio::test(flavor = "multi_thread")]
async fn allowlist_is_part_of_the_image_name() {
    let fixture = BuildFixture::new("e2e-build-tags").await;
    let source = || ImageSource::build("FROM scratch\nCOPY probe /probe\n", super::fixture::probe());
    let mut tags = Vec::new();
    for network in [
        Network::Disabled,
        permitting("domains: [a.test]"),
        permitting("domains: [b.test]"),
        Network::Unrestricted,
    ] {
        let built = fixture.build_source(source().with_network(network)).await;
        tags.push(built.succeeded().clone());
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 4);
    fixture.close().await;
}
