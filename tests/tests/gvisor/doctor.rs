//! `sandbox doctor` on an engine with gVisor.

use std::process::Command;

use e2e_tests::fixture::Fixture;
use e2e_tests::setting::Setting;
use serde_json::Value;

use super::hook;

#[tokio::test(flavor = "multi_thread")]
async fn doctor_warns_and_its_trial_run_succeeds() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    let setting = Setting::of_this_run();
    let output = Command::new(&setting.sandbox_bin)
        .args(["doctor", "--output", "json"])
        .current_dir(fixture.folder())
        .env("CONTAINER_HOST", &setting.engine)
        .env("SANDBOX_PROXY_DIR", &setting.proxy_dir)
        .env("XDG_STATE_HOME", fixture.folder().join("state"))
        .output()
        .expect("the sandbox command");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = report["checks"].as_array().expect("a list");
    let named = |name: &str| {
        let found = checks.iter().find(|check| check["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {report}"))
    };
    let gvisor = named("gVisor");
    assert_eq!(gvisor["verdict"], "warn", "{gvisor}");
    let hint = gvisor["hint"].as_str().expect("a hint");
    for part in ["sandbox verify", "--hooks-dir", "\"createRuntime\""] {
        assert!(hint.contains(part), "{part}: {hint}");
    }
    assert_eq!(named("trial run")["verdict"], "ok", "{report}");
    fixture.close().await;
}
