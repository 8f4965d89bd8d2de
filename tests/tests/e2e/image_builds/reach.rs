//! Egress of the steps of a build.

use e2e_tests::assert_held;
use e2e_tests::engine;
use e2e_tests::host::HostService;
use e2e_tests::setting::Setting;
use sandbox::Network;
use serde_json::json;

use super::fixture::{BuildFixture, permitting};

/// The host's address on the link to the test network.
const HOST: &str = "203.0.113.254";

#[tokio::test(flavor = "multi_thread")]
async fn step_reaches_permitted_hosts_and_every_request_is_logged() {
    let fixture = BuildFixture::new("e2e-build-reach").await;
    let built = fixture
        .build(
            permitting("domains: [open.test]"),
            "RUN curl -sS https://open.test/ && curl -sS http://open.test/plain && \\\n    \
             curl -s -o /dev/null -w 'closed %{http_code}\\n' https://closed.test/ && \\\n    \
             ! curl -sS --noproxy '*' --max-time 5 https://203.0.113.20/\n\
             RUN [\"/usr/bin/curl\", \"-sS\", \"https://open.test/exec-form\"]\n",
        )
        .await;
    built.succeeded();
    assert!(
        built.output.contains("hello from open.test") && built.output.contains("closed 403"),
        "{}",
        built.output
    );
    for line in [
        "allowed GET https://open.test/ -> 200",
        "allowed GET http://open.test/plain -> ",
        "allowed GET https://open.test/exec-form -> ",
        "BLOCKED GET https://closed.test/ -> 403 [reason: host]",
    ] {
        assert!(built.log.contains(line), "{line}: {}", built.log);
    }
    fixture.close().await;
}

/// Tries the host's services, the bridges' addresses and names, with one line of output each.
/// Stderr is redirected to stdout, since the engine reads two pipes in any order and could split a
/// line.
fn attempts(port: u16) -> String {
    let addresses = ["127.0.0.1", HOST, "10.88.0.1", "::1"].join(" ");
    format!(
        "COPY probe /probe\nRUN exec 2>&1; chmod 755 /probe; for address in {addresses}; do echo \"$address $(/probe tcp $address {port})\"; done; \
         echo dns $(/probe dns 203.0.113.10:53 open.test 1); echo ipv6 $(cat /proc/net/if_inet6 | grep -vw lo | wc -l); \
         echo routes $(awk '$2 == \"00000000\"' /proc/net/route | wc -l); \
         for name in /proc/sys/net/ipv6/conf/all/disable_ipv6 /proc/sys/net/ipv4/ip_forward; do echo 0 > $name || echo refused; done\n"
    )
}

fn answered(output: &str, address: &str) -> bool {
    let line = output
        .lines()
        .find(|line| line.starts_with(&format!("{address} ")))
        .unwrap_or_else(|| panic!("{address} was not tried: {output}"));
    line.contains("\"reached\"") || line.contains("\"refused\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn step_reaches_nothing_else() {
    let fixture = BuildFixture::new("e2e-build-closed").await;
    let service = HostService::start();
    let attempts = attempts(service.port());
    for network in [permitting("domains: [open.test]"), Network::Disabled] {
        let is_sandboxed = network != Network::Disabled;
        let built = fixture.build(network, &attempts).await;
        built.succeeded();
        let output = &built.output;
        for address in [HOST, "10.88.0.1"] {
            assert_held!(!answered(output, address), "{address}: {output}");
        }
        // The step's own loopback refuses the connection at once.
        assert_held!(!output.contains("127.0.0.1 {\"outcome\":\"reached\""), "{output}");
        assert_held!(!output.contains("::1 {\"outcome\":\"reached\""), "{output}");
        assert_held!(!answered(output, "dns"), "{output}");
        assert_held!(output.contains("ipv6 0\n") && output.contains("routes 0\n"), "{output}");
        assert_eq!(output.lines().filter(|line| *line == "refused").count(), 2, "{output}");
        assert_eq!(!built.log.is_empty(), is_sandboxed, "{}", built.log);
    }

    let control = fixture.build(Network::Unrestricted, &attempts).await;
    control.succeeded();
    for address in ["127.0.0.1", HOST, "dns"] {
        assert!(
            answered(&control.output, address),
            "the control: on the engine's network {address} answers: {}",
            control.output
        );
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn step_without_a_network_fails_to_resolve_hosts() {
    let fixture = BuildFixture::new("e2e-build-none").await;
    let built = fixture.build(Network::Disabled, "RUN curl -sS --max-time 20 https://open.test/\n").await;
    assert!(built.error().contains("Could not resolve host"), "{built:?}");
    assert_eq!(built.log, "");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_cannot_open_foreign_sockets_or_user_namespaces() {
    // Sockets outside of any network or with a large kernel attack surface, raw sockets, and a new
    // user namespace.
    let attempts = "python3 -c 'import socket\n\
        for name, family, kind, protocol in [(\"vsock\", 40, 1, 0), (\"alg\", 38, 5, 0), (\"rxrpc\", 33, 2, 0), (\"xfrm\", 16, 3, 6), (\"packet\", 17, 3, 0)]:\n    \
        try: socket.socket(family, kind, protocol); print(name, \"open\")\n    \
        except OSError as error: print(name, error.errno)'; \
        unshare -U true && echo namespace open; grep CapBnd /proc/self/status; true";
    let fixture = BuildFixture::new("e2e-build-kernel").await;
    let files = [("attempts.sh".to_owned(), format!("#!/bin/sh\n{attempts}\n").into_bytes())].into();
    for network in [Network::Disabled, Network::Unrestricted] {
        let dockerfile = format!(
            "FROM {}\nENV STAMP={}{}\nCOPY attempts.sh /attempts.sh\nRUN /attempts.sh\n",
            Setting::of_this_run().clients_image,
            std::process::id(),
            network == Network::Disabled,
        );
        let source = sandbox::ImageSource::build(dockerfile, std::collections::BTreeMap::clone(&files));
        let built = fixture.build_source(source.with_network(network)).await;
        built.succeeded();
        assert_held!(!built.output.contains(" open"), "{}", built.output);
        assert!(built.output.contains("vsock "), "{}", built.output);
        // NET_RAW (13) and MKNOD (27) are not among the capabilities.
        let rights = built.output.split("CapBnd:").nth(1).expect("its rights").trim();
        let rights = rights.split_whitespace().next().unwrap_or_default();
        let rights = u64::from_str_radix(rights, 16).expect("hexadecimal");
        assert_held!(rights & (1 << 13 | 1 << 27) == 0, "{rights:x}");
    }
    let control = engine::unverified(attempts, &json!({})).await;
    assert!(
        control.contains("xfrm open") && control.contains("namespace open"),
        "the control: the engine's own filter allows them: {control}"
    );
    fixture.close().await;
}
