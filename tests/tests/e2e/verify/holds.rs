//! Where everything holds.

use std::collections::BTreeMap;

use e2e_tests::assert_held;
use e2e_tests::bed::Bed;
use e2e_tests::setting::Setting;
use sandbox::diagnostics::{ExpectedProgram, VerifySpec};
use sandbox::{ByteSize, ImageSource, ImageTag, Isolation, Network, ResourceLimits};

use super::report::{broken, proxied, report, untrusted_limits};

async fn image(bed: &Bed, source: ImageSource) -> ImageTag {
    bed.sandbox.ensure_image(&source).await.expect("an image")
}

async fn base(bed: &Bed) -> ImageTag {
    image(bed, ImageSource::existing(&Setting::of_this_run().image)).await
}

/// An image with nothing in it at all.
async fn empty(bed: &Bed) -> ImageTag {
    image(bed, ImageSource::build("FROM scratch\nENV MADE_OF=nothing\n", BTreeMap::new())).await
}

fn limits() -> ResourceLimits {
    ResourceLimits::default().memory(ByteSize::mib(256)).pids(128)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_guarantee_for_an_agent() {
    let bed = Bed::new().await;
    for (image, program) in [(base(&bed).await, Some(ExpectedProgram::Bash)), (empty(&bed).await, None)] {
        let spec = VerifySpec::new(image, Isolation::agent(), limits()).network(proxied());
        let spec = program.into_iter().fold(spec, VerifySpec::program);
        let report = report(&bed, spec).await;
        let broken: Vec<_> = report.broken().collect();
        assert_held!(report.held(), "{broken:#?}");
        for id in ["proxy_answers", "neighbours_absent", "memory_bounded", "processes_bounded"] {
            assert!(report.findings.iter().any(|finding| finding.check.id() == id), "{id}");
        }
        let memory = report.findings.iter().find(|finding| finding.check.id() == "memory_bounded");
        let detail = memory.map(|finding| finding.detail.as_str()).unwrap_or_default();
        assert!(detail.ends_with("by the container's own limit"), "{detail}");
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_guarantee_for_the_untrusted() {
    let bed = Bed::new().await;
    for image in [base(&bed).await, empty(&bed).await] {
        for network in [Network::Disabled, proxied()] {
            let spec = VerifySpec::new(image.clone(), Isolation::untrusted(), untrusted_limits());
            let report = report(&bed, spec.network(network)).await;
            let broken: Vec<_> = report.broken().collect();
            assert_held!(report.held(), "{broken:#?}");
        }
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_expected_of_an_image_is_looked_for() {
    let bed = Bed::new().await;
    let spec = |image: &ImageTag| {
        VerifySpec::new(image.clone(), Isolation::untrusted(), untrusted_limits())
            .program(ExpectedProgram::Bash)
            .program(ExpectedProgram::Python)
    };
    assert!(broken(&bed, spec(&bed.image)).await.is_empty());
    let base = broken(&bed, spec(&base(&bed).await)).await;
    assert_eq!(base.keys().copied().collect::<Vec<_>>(), ["python_available"]);
    let empty = broken(&bed, spec(&empty(&bed).await)).await;
    assert_eq!(empty.keys().copied().collect::<Vec<_>>(), ["bash_available", "python_available"]);
    bed.close().await;
}
