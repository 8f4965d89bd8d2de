//! The controls of the table in ARCHITECTURE.md: what podman itself makes of each field, without a word. The tests that show what
//! the sandbox makes of them are beside this one.

use e2e_tests::engine;
use e2e_tests::setting::Setting;
use serde_json::{Value, json};

/// What a script sees that asks for a field: on podman 4, on podman 5.
async fn seen(script: &str, host: Value, four: &str, five: &str) {
    let expected = if Setting::of_this_run().podman == "4" {
        four
    } else {
        five
    };
    assert_eq!(engine::unverified(script, &host).await, expected, "{host}");
}

#[tokio::test(flavor = "multi_thread")]
async fn podman_says_nothing_of_what_it_leaves_out() {
    seen(
        "echo ran",
        json!({"Runtime": "/no/such/runtime"}),
        "ran\n",
        "ran\n",
    )
    .await;
    seen("echo ran", json!({"Runtime": "runsc"}), "ran\n", "ran\n").await;
    let files = "ls /etc/apt | wc -l; touch /srv/x && echo written";
    let hidden = json!({"MaskedPaths": ["/etc/apt"], "ReadonlyPaths": ["/srv"]});
    let plain = engine::unverified(files, &json!({})).await;
    seen(files, hidden, &plain, &plain).await;
    assert!(
        plain.ends_with("written\n") && !plain.starts_with("0\n"),
        "{plain}"
    );
    // What podman has for it instead.
    seen(
        files,
        json!({"SecurityOpt": ["mask=/etc/apt"]}),
        "0\nwritten\n",
        "0\nwritten\n",
    )
    .await;
    seen(
        "ls /dev/described 2>/dev/null || echo none",
        json!({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["sandbox.test/device=zero"]}]}),
        "none\n",
        "/dev/described\n",
    )
    .await;
    seen(
        "ls /dev/nvidia0 2>/dev/null || echo none",
        json!({"DeviceRequests": [{"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu"]]}]}),
        "none\n",
        "none\n",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn podman_gives_as_much_swap_as_memory_whatever_is_asked_for() {
    let script = "cd /sys/fs/cgroup; if [ -e memory.swap.max ]; then cat memory.swap.max; else \
         echo $(($(cat memory/memory.memsw.limit_in_bytes) - $(cat memory/memory.limit_in_bytes))); fi";
    let twice = "67108864\n";
    seen(
        script,
        json!({"Memory": 64 << 20, "MemorySwap": -1}),
        twice,
        twice,
    )
    .await;
    seen(script, json!({"Memory": 64 << 20}), twice, twice).await;
}
