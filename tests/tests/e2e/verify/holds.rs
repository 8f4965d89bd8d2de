//! Configurations in which every guarantee holds.

use std::collections::BTreeMap;

use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;
use e2e_tests::setting::Setting;
use sandbox::diagnostics::{ExpectedProgram, VerifySpec};
use sandbox::{ByteSize, ImageSource, ImageTag, Isolation, Network, ResourceLimits};

use super::report::{broken, proxied, report, untrusted_limits};

async fn image(fixture: &Fixture, source: ImageSource) -> ImageTag {
    fixture.sandbox.ensure_image(&source).await.expect("an image")
}

async fn base(fixture: &Fixture) -> ImageTag {
    image(fixture, ImageSource::existing(&Setting::of_this_run().image)).await
}

/// An empty image.
async fn empty(fixture: &Fixture) -> ImageTag {
    image(fixture, ImageSource::build("FROM scratch\nENV MADE_OF=nothing\n", BTreeMap::new())).await
}

fn limits() -> ResourceLimits {
    ResourceLimits::default().memory(ByteSize::mib(256)).pids(128)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_guarantee_for_an_agent_holds() {
    let fixture = Fixture::new().await;
    for (image, program) in
        [(base(&fixture).await, Some(ExpectedProgram::Bash)), (empty(&fixture).await, None)]
    {
        let spec = VerifySpec::new(image, Isolation::agent(), limits()).network(proxied());
        let spec = program.into_iter().fold(spec, VerifySpec::program);
        let report = report(&fixture, spec).await;
        let broken: Vec<_> = report.broken().collect();
        assert_held!(report.held(), "{broken:#?}");
        for id in ["proxy_answers", "neighbours_absent", "memory_bounded", "processes_bounded"] {
            assert!(report.findings.iter().any(|finding| finding.check.id() == id), "{id}");
        }
        let memory = report.findings.iter().find(|finding| finding.check.id() == "memory_bounded");
        let detail = memory.map(|finding| finding.detail.as_str()).unwrap_or_default();
        assert!(detail.ends_with("by the container's own limit"), "{detail}");
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_guarantee_for_the_untrusted_holds() {
    let fixture = Fixture::new().await;
    for image in [base(&fixture).await, empty(&fixture).await] {
        for network in [Network::Disabled, proxied()] {
            let spec = VerifySpec::new(image.clone(), Isolation::untrusted(), untrusted_limits());
            let report = report(&fixture, spec.network(network)).await;
            let broken: Vec<_> = report.broken().collect();
            assert_held!(report.held(), "{broken:#?}");
        }
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_expected_programs_of_an_image_are_reported() {
    let fixture = Fixture::new().await;
    let spec = |image: &ImageTag| {
        VerifySpec::new(image.clone(), Isolation::untrusted(), untrusted_limits())
            .program(ExpectedProgram::Bash)
            .program(ExpectedProgram::Python)
    };
    assert!(broken(&fixture, spec(&fixture.image)).await.is_empty());
    let base = broken(&fixture, spec(&base(&fixture).await)).await;
    assert_eq!(base.keys().copied().collect::<Vec<_>>(), ["python_available"]);
    let empty = broken(&fixture, spec(&empty(&fixture).await)).await;
    assert_eq!(empty.keys().copied().collect::<Vec<_>>(), ["bash_available", "python_available"]);
    fixture.close().await;
}
