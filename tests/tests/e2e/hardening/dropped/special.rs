//! The rows that take more than one container to show.

use e2e_tests::engine;
use e2e_tests::setting::Setting;
use serde_json::{Value, json};

use super::row::is_four;

pub(super) const AUTO_REMOVE: &str = "`AutoRemove`";

/// Nothing of ours asks for it: the sandbox removes containers itself.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_the_removal_gets_a_wrong_code_from_podman_4() {
    // The wait has to be there before the end.
    let body = json!({
        "Image": Setting::of_this_run().clients_image,
        "Entrypoint": [],
        "Cmd": ["bash", "-c", "sleep 3; exit 6"],
        "HostConfig": {"NetworkMode": "none", "AutoRemove": true, "LogConfig": {"Type": "k8s-file"}},
    });
    let (status, answer) = engine::raw_with("POST", "/v1.41/containers/create", &body).await;
    assert_eq!(status, 201, "{}", String::from_utf8_lossy(&answer));
    let created: Value = serde_json::from_slice(&answer).expect("JSON");
    let id = created["Id"].as_str().expect("an id");
    let start = format!("/containers/{id}/start");
    engine::call("POST", &start, None).await;
    let wait = format!("/v1.41/containers/{id}/wait?condition=removed");
    let (_, answer) = engine::raw("POST", &wait).await;
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    assert_eq!(answer["StatusCode"], if is_four() { 0 } else { 6 }, "{answer}");
}

pub(super) const LOG_SIZE: &str = "`LogConfig.Config` `max-size`";

/// The sandbox asks for it for runs: `runs::allowed::output_without_end_does_not_fill_the_hosts_disk`.
#[tokio::test(flavor = "multi_thread")]
async fn a_bound_on_the_log_is_obeyed() {
    let script = "echo first; seq 1 20000; echo last";
    let with = async |config: Value| {
        let log = json!({"Type": "k8s-file", "Config": config});
        let body = json!({"HostConfig": {"LogConfig": log}});
        let made = engine::compatible(script, &body).await;
        assert!(made.output.ends_with("last\n"), "{:?}", made.refusal);
        assert_eq!(made.facts["HostConfig"]["LogConfig"]["Config"], Value::Null);
        made.output.starts_with("first\n")
    };
    assert!(!with(json!({"max-size": "65536"})).await, "what came first is gone");
    assert!(with(json!({})).await, "the control");
}
