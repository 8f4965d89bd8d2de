//! Dockerfiles that try to escape the sandbox through actions of the engine.

use e2e_tests::assert_held;
use e2e_tests::world::World;
use sandbox::{ImageSource, Network};

use super::fixture::{BuildFixture, permitting, probe};

#[tokio::test(flavor = "multi_thread")]
async fn instructions_executed_outside_the_sandbox_are_refused() {
    let fixture = BuildFixture::new("e2e-build-hostile").await;
    for network in [permitting("domains: [open.test]"), Network::Disabled] {
        for (steps, expected) in [
            ("ADD http://open.test/hostile-add /x\n", "ADD"),
            ("ENV U=http://open.test/hostile-add\nADD ${U} /x\n", "ADD"),
            ("ADD [\"http://open.test/hostile-add\", \"/x\"]\n", "ADD"),
            ("RUN true \\\n  # a comment\nADD http://open.test/hostile-add /x\n", "not an instruction"),
            ("RUN --network=host curl -s http://open.test/hostile-run\n", "flag"),
            ("RUN --security=insecure true\n", "flag"),
            ("RUN --mount=type=bind,from=localhost/x,target=/x true\n", "flag"),
            ("ONBUILD RUN --network=host true\nFROM 0\n", "ONBUILD"),
            ("RUN <<EOF\ntrue\nEOF\n", "here-document"),
            ("COPY --from=oci-archive:/etc/passwd / /x\n", "not the name"),
        ] {
            // Parsers differ in how a comment splits a step: the rest is a separate step or is
            // refused.
            let built = fixture.build(network.clone(), steps).await;
            match built.tag {
                Err(error) => {
                    assert!(error.contains(expected) || expected == "not an instruction", "{steps}: {error}");
                }
                Ok(_) => assert_eq!(expected, "not an instruction", "{steps}"),
            }
        }
    }
    let seen = World::shared().seen("open.test");
    assert_held!(!seen.iter().any(|request| request.target.contains("hostile")), "{seen:?}");

    let control = fixture.build(Network::Unrestricted, "ADD http://open.test/control-add /x\n").await;
    control.succeeded();
    let seen = World::shared().seen("open.test");
    assert!(
        seen.iter().any(|request| request.target == "/control-add"),
        "the control: outside the sandbox the engine downloads it: {seen:?}"
    );
    fixture.close().await;
}

/// Triggers of an image run in builds on it, and also in the overlay on it.
#[tokio::test(flavor = "multi_thread")]
async fn onbuild_triggers_reach_nothing() {
    let fixture = BuildFixture::new("e2e-build-trigger").await;
    let trigger = "COPY probe /probe\nONBUILD RUN chmod 755 /probe; echo outcome $(/probe tcp 203.0.113.254 9); echo interfaces $(grep -c : /proc/net/dev)\n";
    let built = fixture.build(Network::Unrestricted, trigger).await;
    built.succeeded();
    // The overlay was built on the image, so the trigger has run there.
    let outcome = built.output.lines().find(|line| line.starts_with("outcome {"));
    let outcome = outcome.expect("the trigger ran");
    assert_held!(outcome.contains("\"blocked\""), "{}", built.output);
    assert_held!(built.output.contains("interfaces 1\n"), "loopback alone: {}", built.output);
    fixture.close().await;
}

/// Files of the context cannot replace the folder of authorities, and a step cannot write there.
#[tokio::test(flavor = "multi_thread")]
async fn stage_named_like_the_authorities_changes_nothing() {
    let fixture = BuildFixture::new("e2e-build-stage").await;
    let image = &e2e_tests::setting::Setting::of_this_run().clients_image;
    let dockerfile = format!(
        "FROM {image} AS sandbox-trust\nRUN echo not the authorities > /bundle.pem\nFROM {image}\n\
         RUN grep -c BEGIN $SSL_CERT_FILE && curl -sS -o /dev/null https://open.test/ # {}\n",
        std::process::id()
    );
    let source = ImageSource::build(dockerfile, probe()).with_network(permitting("domains: [open.test]"));
    fixture.build_source(source).await.succeeded();
    fixture.close().await;
}
