//! The size of output is bounded.

use std::time::Duration;

use e2e_tests::DEADLINE;
use e2e_tests::fixture::Fixture;
use sandbox::executor::ExecutorMode;

use super::fixture::{config, executor, output, run, within};
use super::host::Example;

#[tokio::test(flavor = "multi_thread")]
async fn long_output_keeps_both_ends_and_marks_the_gap() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture).output_limit(1000));
    let result = run(&executor, "seq 1 100000; seq 1 10 >&2").await;
    let text = result.stdout_text();
    assert!(text.starts_with("1\n2\n") && text.ends_with("99999\n100000\n"), "{text}");
    assert!(text.contains("\n[587895 bytes cut]\n"), "{text}");
    assert_eq!((result.stdout_cut, result.stderr_cut), (587_895, 0));
    assert!(result.is_truncated());
    assert_eq!(result.stderr_text().lines().count(), 10, "the control: little is kept whole");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_output_does_not_block_the_executor() {
    let fixture = Fixture::new().await;
    for mode in [ExecutorMode::Reuse, ExecutorMode::Fresh] {
        let executor = executor(&fixture, config(&fixture).mode(mode));
        let (endless, beside) = tokio::join!(
            executor.execute("yes", within(Duration::from_secs(4))),
            executor.execute("sleep 1; echo beside", within(DEADLINE)),
        );
        let endless = endless.expect("a result");
        assert!(endless.timed_out && endless.is_truncated(), "{}", endless.stdout_cut);
        assert!(endless.stdout.len() < 2 << 20, "{}", endless.stdout.len());
        assert_eq!(beside.expect("a result").stdout_text(), "beside\n");
        assert_eq!(output(&executor, "echo next").await, "next\n");
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_gigabytes_of_output_take_little_host_memory() {
    const GIGABYTES: u64 = 10;
    let line = format!("head -c {GIGABYTES}000000000 /dev/zero | tr '\\0' x; echo end >&2");
    let ended = Example::start(&[&line]).finish();
    assert!(
        ended.stdout.contains("[9998951424 bytes cut]") && ended.stderr.contains("end"),
        "{} {}",
        ended.stdout.len(),
        ended.stderr
    );
    assert!(ended.peak_kibibytes < 64 * 1024, "{} KiB", ended.peak_kibibytes);
}
