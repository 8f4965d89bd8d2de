//! Real clients trust the task's certificate authority without changes to the image.

use e2e_tests::fixture::Fixture;
use e2e_tests::setting::Setting;
use sandbox::Mount;

const POLICY: &str = "domains: [open.test, git.test, npm.test, pypi.test]";

/// Runs `script` and expects `expected` on its stdout.
async fn expect(script: &str, expected: &str) {
    let fixture = Fixture::new().await;
    let ran = fixture.run(POLICY, script).await;
    assert!(
        ran.stdout.contains(expected),
        "stdout: {}\nstderr: {}\nlog: {}",
        ran.stdout,
        ran.stderr,
        ran.log
    );
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_with_and_without_its_environment_trusts_the_authority() {
    expect("curl -sS https://open.test/", "hello from open.test").await;
    expect("env -i PATH=$PATH curl -sS https://open.test/", "hello from open.test").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wget_and_openssl_trust_the_authority() {
    expect("wget -qO- https://open.test/", "hello from open.test").await;
    expect(
        "openssl s_client -connect open.test:443 -servername open.test -verify_return_error </dev/null 2>&1",
        "Verify return code: 0",
    )
    .await;
    expect("env -i PATH=$PATH openssl s_client -connect open.test:443 -servername open.test -verify_return_error </dev/null 2>&1", "Verify return code: 0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn git_over_https_trusts_the_authority() {
    expect("cd /tmp && git clone -q https://git.test/demo.git && cat demo/greeting.txt", "hello").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_ssl_requests_and_httpx_trust_the_authority() {
    expect(
        "python3 -c \"import urllib.request as u; print(u.urlopen('https://open.test/').read().decode())\"",
        "hello from open.test",
    )
    .await;
    expect(
        "python3 -c \"import requests; print(requests.get('https://open.test/').text)\"",
        "hello from open.test",
    )
    .await;
    expect(
        "python3 -c \"import httpx; print(httpx.get('https://open.test/').text)\"",
        "hello from open.test",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_trusts_the_authority() {
    expect(
        "node -e \"fetch('https://open.test/').then(r => r.text()).then(console.log)\"",
        "hello from open.test",
    )
    .await;
    expect(
        "node -e \"require('https').get('https://open.test/', r => r.pipe(process.stdout))\"",
        "hello from open.test",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pip_installs_a_package() {
    let script = "pip install -q --break-system-packages --index-url https://pypi.test/simple --target /tmp/site demo 2>&1 \
         || pip install -q --index-url https://pypi.test/simple --target /tmp/site demo; \
         PYTHONPATH=/tmp/site python3 -c 'import demo; print(demo.GREETING)'";
    expect(script, "demo from pip").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn npm_installs_a_package() {
    let fixture = Fixture::new().await;
    let script = "mkdir /tmp/project && cd /tmp/project && node /npm/bin/npm-cli.js install --registry=https://npm.test/ demo >/dev/null \
         && node -e \"console.log(require('demo'))\"";
    let spec = fixture
        .command(POLICY, &["bash", "-c", script])
        .mount(Mount::read_only_at(&Setting::of_this_run().npm, "/npm"));
    let ran = fixture.run_spec(spec).await;
    assert_eq!(ran.stdout, "demo from npm\n", "{}\n{}", ran.stderr, ran.log);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_client_without_our_root_refuses_the_proxy() {
    expect("curl -sS --cacert /dev/null --capath /nowhere https://open.test/ 2>&1", "certificate").await;
}
