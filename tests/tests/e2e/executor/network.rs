//! Network settings of an executor's commands.

use std::net::Ipv4Addr;

use e2e_tests::fixture::{self, Fixture};
use sandbox::executor::ExecutorConfig;
use sandbox::{ContainerEnv, Network, SandboxError};

use super::fixture::{config, executor, output};

/// Reserved for documentation, and never contacted.
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
const PROXY: &str = "http://proxy.test:3128";
const SETTINGS: &str = "grep nameserver /etc/resolv.conf; for name in HTTP_PROXY HTTPS_PROXY http_proxy https_proxy; do echo \"$name=${!name-}\"; done";

#[tokio::test(flavor = "multi_thread")]
async fn unrestricted_network_accepts_a_name_server_and_a_proxy() {
    let fixture = Fixture::new().await;
    let open = || config(&fixture).network(Network::Unrestricted);
    let named = executor(&fixture, open().dns(SERVER).http_proxy(PROXY));
    assert_eq!(
        output(&named, SETTINGS).await,
        format!(
            "nameserver {SERVER}\nHTTP_PROXY={PROXY}\nHTTPS_PROXY={PROXY}\nhttp_proxy={PROXY}\nhttps_proxy={PROXY}\n"
        )
    );
    let own = ContainerEnv::default().with("HTTPS_PROXY", "http://mine.test");
    let own = output(&executor(&fixture, open().http_proxy(PROXY).env(own)), SETTINGS).await;
    assert!(
        own.contains("HTTPS_PROXY=http://mine.test\n") && own.contains(&format!("\nHTTP_PROXY={PROXY}\n")),
        "the caller's own variable takes precedence: {own}"
    );
    let control = output(&executor(&fixture, open()), SETTINGS).await;
    assert!(
        control.ends_with("HTTP_PROXY=\nHTTPS_PROXY=\nhttp_proxy=\nhttps_proxy=\n"),
        "the control: {control}"
    );
    assert!(!control.contains(&SERVER.to_string()), "the control: {control}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_networks_refuse_a_name_server_and_a_proxy() {
    let fixture = Fixture::new().await;
    let refused = |config: ExecutorConfig| match fixture.sandbox.create_executor(config) {
        Err(SandboxError::Spec(error)) => error.field().to_owned(),
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("breach: it was accepted"),
    };
    for network in [Network::Disabled, fixture::network("domains: []")] {
        let with = || config(&fixture).network(network.clone());
        assert_eq!(refused(with().dns(SERVER)), "dns");
        assert_eq!(refused(with().http_proxy(PROXY)), "http_proxy");
    }
    fixture.close().await;
}
