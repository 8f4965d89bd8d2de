//! A trial run with the proxy's own program as the task, because its image already exists and needs
//! nothing else.

use std::time::{Duration, Instant};

use allowlist::Allowlist;
use sandbox::image::ImageKind;
use sandbox::{
    CommandSpec, ImageSource, Input, Network, NetworkSandboxConfig, ResourceLimits, Sandbox, SandboxError,
};

use crate::failure::Failure;

use super::report::Check;

const NAME: &str = "trial run";
/// A program of the proxy's image; without a configuration on its stdin it exits immediately.
const PROGRAM: &str = "/sandbox-proxy";
const LONGEST: Duration = Duration::from_mins(1);

/// Starts a network, a proxy and a task, and removes them.
pub(super) async fn check(sandbox: &Sandbox) -> Check {
    let begun = Instant::now();
    match run(sandbox).await {
        Ok(true) => Check::ok(NAME, format!("network, proxy and task in {} ms", begun.elapsed().as_millis())),
        Ok(false) => Check::fail(
            NAME,
            format!("the task did not end within {LONGEST:?}"),
            "run `sandbox doctor -vv` for details",
        ),
        Err(error) => Check::failed(NAME, &Failure::from(error)),
    }
}

/// Whether the task ended by itself.
async fn run(sandbox: &Sandbox) -> Result<bool, SandboxError> {
    sandbox.prepare().await?;
    let images = sandbox.list_images().await?;
    let proxy = images
        .iter()
        .rev()
        .filter(|image| image.kind == ImageKind::Proxy)
        .find_map(|image| image.tag.as_deref());
    let image = sandbox.ensure_image(&ImageSource::existing(proxy.unwrap_or_default())).await?;
    let spec = CommandSpec::new("doctor", image, [PROGRAM])
        .network(Network::Sandboxed(NetworkSandboxConfig::new(Allowlist::default())))
        .limits(ResourceLimits::default().timeout(LONGEST));
    let result = sandbox.create_command(spec)?.execute(Input::Empty).await?;
    Ok(!result.timed_out)
}
