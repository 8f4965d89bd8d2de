//! A container's network, as its creation and the network's own ask for it.

use e2e_tests::bed::Bed;
use e2e_tests::engine;
use sandbox::Isolation;
use serde_json::{Value, json};

use super::row::Gives::Ignored;
use super::row::{Look, Ours, Row, check};

const INTERFACES: &str = "ls /sys/class/net";

pub(super) const ROWS: &[Row] = &[
    Row {
        field: "`NetworkDisabled`",
        base: r#"{"HostConfig": {"NetworkMode": "default"}}"#,
        asked: r#"{"NetworkDisabled": true}"#,
        look: Look::Inside(INTERFACES),
        wanted: "lo\n",
        four: Ignored,
        five: Ignored,
        ours: &[Ours::Works(Isolation::agent, INTERFACES, "lo\n")],
    },
    Row {
        field: "`MacAddress`",
        base: r#"{"HostConfig": {"NetworkMode": "default"}}"#,
        asked: r#"{"MacAddress": "02:00:00:00:00:07"}"#,
        look: Look::Inside("grep -o 02:00:00:00:00:07 /sys/class/net/eth0/address || echo another"),
        wanted: "02:00:00:00:00:07\n",
        four: Ignored,
        five: Ignored,
        ours: &[Ours::Unaskable],
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_containers() {
    check(ROWS).await;
}

pub(super) const NETWORKS: &str = "options of networks";

#[tokio::test(flavor = "multi_thread")]
async fn options_of_networks_are_dropped_and_they_have_names_and_a_gateway() {
    let name = format!("e2e-dropped-{}", std::process::id());
    let option = "com.docker.network.bridge.enable_icc";
    let body = json!({"Name": name, "Driver": "bridge", "Internal": true, "Options": {option: "false"},
        "IPAM": {"Config": [{"Subnet": "10.198.76.0/24"}]}});
    let (status, answer) = engine::raw_with("POST", "/v1.41/networks/create", &body).await;
    assert_eq!(status, 201, "{}", String::from_utf8_lossy(&answer));
    let made = engine::json("GET", &format!("/networks/{name}/json"), None).await;
    engine::call("DELETE", &format!("/networks/{name}"), None).await;
    // Some versions report a list of one.
    let made = made.get(0).cloned().unwrap_or(made);
    assert_eq!(made["dns_enabled"], true, "{made}");
    assert!(!made["options"].to_string().contains("enable_icc"), "{made}");
    assert_ne!(made["subnets"][0]["gateway"], Value::Null, "{made}");

    // What we make of it has neither.
    let bed = Bed::new().await;
    let script = "awk '$2 == \"00000000\"' /proc/net/route | tail -n +2 | wc -l; curl -s -o /dev/null -w '%{http_code}\\n' https://open.test/";
    let ran = bed.run("domains: [open.test]", script).await;
    assert_eq!(ran.stdout, "0\n200\n", "{}", ran.stderr);
    bed.close().await;
}
