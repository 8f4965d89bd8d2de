//! Tasks with a disk limit.

use e2e_tests::engine;
use e2e_tests::fixture::Fixture;
use sandbox::{ByteSize, CommandSpec, ResourceLimits};
use serde_json::Value;

pub(super) const MIB: u64 = 1 << 20;

/// `command` as an agent, with space for `room` bytes in addition to the image.
pub(super) async fn bounded(fixture: &Fixture, command: &[&str], room: u64) -> CommandSpec {
    let disk = ByteSize::new(image_size(fixture.image.as_str()).await + room);
    fixture.command("domains: []", command).limits(ResourceLimits::default().disk(disk))
}

/// The size of an image of the engine in bytes, with all its layers.
pub(super) async fn image_size(image: &str) -> u64 {
    let path = format!("/images/{image}/json");
    engine::json("GET", &path, None).await.get("Size").and_then(Value::as_u64).expect("a size")
}
