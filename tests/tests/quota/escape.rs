//! Ways around the limit.

use e2e_tests::engine;
use e2e_tests::fixture::Fixture;
use e2e_tests::setting::Setting;
use sandbox::isolation::Seccomp;
use sandbox::{ByteSize, CommandSpec, Input, Isolation, ResourceLimits};

use super::limit::{MIB, bounded};

/// Creates a subvolume, which would be outside the quota, fills it, and prints both results.
const SUBVOLUME: &str = "import fcntl, os, struct\n\
    try: fcntl.ioctl(os.open('/', os.O_RDONLY), 0x5000940e, bytearray(struct.pack('<q4088s', 0, b'beside')))\n\
    except OSError as error: print(os.strerror(error.errno))\n\
    os.makedirs('/beside', exist_ok=True)\n\
    written = 0\n\
    try:\n\
    \x20 with open('/beside/fill', 'wb', buffering=0) as file:\n\
    \x20   while written < 128 << 20: written += file.write(bytes(1 << 20))\n\
    except OSError as error: print(os.strerror(error.errno))\n\
    print(written >= 128 << 20)";

#[tokio::test(flavor = "multi_thread")]
async fn subvolume_outside_the_quota_cannot_be_created() {
    let fixture = Fixture::new().await;
    let command = ["python3", "-c", SUBVOLUME];
    let spec = bounded(&fixture, &command, 32 * MIB).await;
    let refused = fixture.run_spec(spec.clone()).await;
    assert_eq!(refused.stdout, "Function not implemented\nDisk quota exceeded\nFalse\n", "{refused:?}");

    // The caller's own profile is trusted; this one allows everything.
    let profile = fixture.folder().join("open.json");
    std::fs::write(&profile, r#"{"defaultAction": "SCMP_ACT_ALLOW"}"#).expect("a profile");
    let open = Isolation { seccomp: Seccomp::Profile(profile), ..Isolation::agent() };
    let control = fixture.run_spec(spec.isolation(open)).await;
    assert_eq!(control.stdout, "True\n", "the control: {control:?}");
    fixture.close().await;
}

/// A volume declared by an image is outside the container.
#[tokio::test(flavor = "multi_thread")]
async fn image_with_a_volume_is_refused() {
    let fixture = Fixture::new().await;
    let image = Setting::of_this_run().image.as_str();
    let reference = format!("localhost/quota-volume:{}", std::process::id());
    let created = engine::json(
        "POST",
        "/containers/create",
        Some(&serde_json::json!({"image": image, "command": ["true"]})),
    )
    .await;
    let id = created.get("Id").and_then(serde_json::Value::as_str).expect("an id");
    let (repository, tag) = reference.rsplit_once(':').expect("a tag");
    let commit = format!("/commit?container={id}&repo={repository}&tag={tag}&changes=VOLUME%20/scratch");
    engine::json("POST", &commit, None).await;
    engine::call("DELETE", &format!("/containers/{id}?force=true&timeout=0"), None).await;

    let source = sandbox::ImageSource::existing(&reference);
    let image = fixture.sandbox.ensure_image(&source).await.expect("the image exists");
    let spec = |disk| {
        CommandSpec::new("volume", image.clone(), ["true"]).limits(ResourceLimits::default().disk(disk))
    };
    let run = |spec| {
        let command = fixture.sandbox.create_command(spec).expect("a good command");
        async move { command.execute(Input::Empty).await }
    };
    let error = run(spec(Some(ByteSize::gib(2)))).await.expect_err("the volume has no limit");
    let text = error.to_string();
    assert!(text.contains("resource_limits.disk") && text.contains("/scratch"), "{text}");
    let control = run(spec(None)).await.expect("the control");
    assert_eq!(control.exit_code, 0);
    engine::call("DELETE", &format!("/images/{reference}?force=true"), None).await;
    fixture.close().await;
}
