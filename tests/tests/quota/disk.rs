//! Filling the disk.

use e2e_tests::fixture::{Fixture, read_until};
use sandbox::{ByteSize, CommandSpec, Input, ResourceLimits};

use super::limit::{MIB, bounded};

/// Writes 256 MiB; prints the error, if any, the written size, and `after` if the task continues.
const FILL: &str = "said=$(head -c 256M /dev/zero 2>&1 > /fill); echo \"${said##* }\"; stat -c %s /fill; \
                    rm /fill; echo after > /small && cat /small";

#[tokio::test(flavor = "multi_thread")]
async fn task_fills_its_limit_and_nothing_else() {
    let fixture = Fixture::new().await;
    let limited = fixture.run_spec(bounded(&fixture, &["bash", "-c", FILL], 64 * MIB).await).await;
    assert_eq!(limited.code, 0, "{limited:?}");
    let lines: Vec<&str> = limited.stdout.lines().collect();
    let ["exceeded", size, "after"] = lines.as_slice() else {
        panic!("{limited:?}");
    };
    let size: u64 = size.parse().expect("a number");
    assert!((16 * MIB..=64 * MIB).contains(&size), "{size}");

    let control = fixture.run("domains: []", FILL).await;
    assert_eq!(control.stdout, "\n268435456\nafter\n", "the control: {control:?}");
    fixture.close().await;
}

/// Two tasks at once, one of them with a full disk.
#[tokio::test(flavor = "multi_thread")]
async fn full_task_does_not_disturb_another() {
    let fixture = Fixture::new().await;
    let script = "cat /dev/zero > /fill 2>/dev/null; echo full; read -r line; echo \"$line\"";
    let spec = bounded(&fixture, &["bash", "-c", script], 32 * MIB).await;
    let command = fixture.sandbox.create_command(spec).expect("a good command");
    let (input, held) = tokio::io::duplex(64);
    let mut full = command.execute(Input::Reader(Box::new(held)));
    let said = read_until(&mut full, |output| output.contains("full")).await;
    let other = fixture.run("domains: []", "head -c 64M /dev/zero > /x && stat -c %s /x").await;
    drop(input);
    let ended = full.await;
    assert_eq!(said, "full\n", "{ended:?}");
    assert_eq!(other.stdout, "67108864\n", "{other:?}");
    let ended = ended.expect("the sandbox works");
    assert_eq!(ended.stdout, b"full\n\n", "{ended:?}");
    fixture.close().await;
}

/// Names take space, too, which a btrfs quota counts.
#[tokio::test(flavor = "multi_thread")]
async fn empty_files_are_bounded() {
    let script = "mkdir /many && python3 -c '\n\
        for number in range(120000):\n\
        \x20 try: open(f\"/many/a-name-that-takes-some-room-{number}\", \"x\").close()\n\
        \x20 except OSError as error: print(error.strerror); break\n\
        else: print(\"all\")'";
    let fixture = Fixture::new().await;
    let command = ["bash", "-c", script];
    let limited = fixture.run_spec(bounded(&fixture, &command, 24 * MIB).await).await;
    assert_eq!(limited.stdout, "Disk quota exceeded\n", "{limited:?}");
    let control = fixture.run("domains: []", script).await;
    assert_eq!(control.stdout, "all\n", "the control: {control:?}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_below_the_image_size_is_refused_with_its_field() {
    let fixture = Fixture::new().await;
    let spec = CommandSpec::new("small", fixture.image.clone(), ["true"])
        .limits(ResourceLimits::default().disk(ByteSize::new(MIB)));
    let command = fixture.sandbox.create_command(spec).expect("a good command");
    let error = command.execute(Input::Empty).await.expect_err("no room");
    let text = error.to_string();
    assert!(text.contains("resource_limits.disk") && text.contains("the image counts"), "{text}");
    fixture.close().await;
}
