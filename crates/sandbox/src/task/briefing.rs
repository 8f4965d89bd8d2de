//! The briefing of an agent: the contents of its container, and nothing of the host.

use sandbox_agents::{MountedPath, NetworkAccess, Surroundings};

use crate::spec::{Launch, Network};

/// The briefing for an agent that `launch` launches.
pub(super) fn briefing(launch: &Launch) -> String {
    let network = match &launch.network {
        Network::Disabled => NetworkAccess::Disabled,
        Network::Unrestricted => NetworkAccess::Unrestricted,
        Network::Sandboxed(config) => NetworkAccess::Proxied {
            policy: config.allowlist(),
            is_audited: config.is_audited(),
            services: config
                .host_services()
                .iter()
                .map(|service| format!("{}:{}", service.name(), service.task_port()))
                .collect(),
            has_surrogates: !config.secret_replacements().is_empty(),
        },
    };
    let mounts = launch.mounts.iter().map(|mount| MountedPath {
        path: mount.container_path(),
        read_only: mount.read_only(),
        is_protected: mount.protection().is_some(),
    });
    Surroundings { network, mounts: mounts.collect(), time_limit: launch.limits.timeout }.briefing()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use allowlist::Allowlist;
    use sandbox_workspace::Protection;

    use super::*;
    use crate::spec::{HostService, ImageTag, Mount, NetworkSandboxConfig, ResourceLimits};

    #[test]
    fn briefing_describes_the_container_and_nothing_of_the_host() {
        let database = HostService::tcp("db", (std::net::Ipv4Addr::LOCALHOST, 5432)).unwrap();
        let policy = Allowlist::from_yaml("domains: [a.example]", "policy.yaml").unwrap();
        let config = NetworkSandboxConfig::new(policy).services([database]).unwrap();
        let mut launch = Launch::new("x".to_owned(), ImageTag::new("x"));
        launch.network = Network::Sandboxed(config.clone());
        launch.mounts = vec![
            Mount::read_write("/home/me/secret-name", "/workspace").protected(Protection::default()),
            Mount::read_only_at("/data", "/data"),
        ];
        launch.limits = ResourceLimits::default().timeout(Duration::from_mins(10));
        let text = briefing(&launch);
        for part in [
            "allows `a.example` when",
            " Services: db:5432.",
            "`/workspace` (read and write), `/data` (read only)",
            " are protected.",
            " 600 s ",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("surrogates") && !text.contains("secret-name"), "{text}");
        launch.network = Network::Disabled;
        assert!(briefing(&launch).contains("Network: none."));
    }
}
