//! The networks of a container.

use std::collections::BTreeSet;

use crate::container::kernel::KernelFacts;
use crate::container::plan::{ContainerPlan, Networks};
use sandbox_podman::Inspection;

use super::difference::Differences;

pub(super) fn compare(found: &mut Differences, plan: &ContainerPlan, is: &Inspection) {
    let host = &is.host_config;
    let names: BTreeSet<&str> = is.network_settings.networks.keys().map(String::as_str).collect();
    match &plan.network.networks {
        Networks::None => {
            found.compare("network", "none", host.network_mode.as_str());
            // Podman 5 reports the absence of a network as one.
            found.require(names.iter().all(|&name| name == "none"), || {
                format!("networks: planned none, is {names:?}")
            });
        }
        Networks::Default => {
            let apart =
                matches!(host.network_mode.split(':').next(), Some("bridge" | "slirp4netns" | "pasta"));
            found.require(apart, || format!("network: is {:?}", host.network_mode));
        }
        Networks::Attached(attachments) => {
            found.compare("network", "bridge", host.network_mode.as_str());
            let planned: BTreeSet<&str> =
                attachments.iter().map(|attachment| attachment.network.as_str()).collect();
            found.compare("networks", &planned, &names);
        }
    }
    let dns: Vec<String> = plan.network.dns.iter().map(ToString::to_string).collect();
    found.compare("name servers", &dns, &host.dns);
}

pub(super) fn addresses(found: &mut Differences, plan: &ContainerPlan, is: &Inspection) {
    let Networks::Attached(attachments) = &plan.network.networks else {
        return;
    };
    for attachment in attachments {
        let Some(place) = is.network_settings.networks.get(&attachment.network) else {
            continue;
        };
        let right = match attachment.address {
            Some(planned) => place.address == Some(planned),
            None => place.address.is_some(),
        };
        found.require(right, || {
            let (network, planned, is) = (&attachment.network, attachment.address, place.address);
            format!("address on `{network}`: planned {planned:?}, is {is:?}")
        });
        found.compare("IPv6 address", "", place.ipv6_address.as_str());
    }
}

fn has_no_ipv6(plan: &ContainerPlan) -> bool {
    plan.network.sysctls.get("net.ipv6.conf.all.disable_ipv6").is_some_and(|value| value == "1")
}

pub(super) fn kernel(found: &mut Differences, plan: &ContainerPlan, kernel: &KernelFacts) {
    if plan.network.networks == Networks::None {
        found.compare("interfaces", &BTreeSet::from(["lo".to_owned()]), &kernel.interfaces);
    }
    if has_no_ipv6(plan) {
        found.compare("IPv6 addresses", false, kernel.has_ipv6);
    }
    if plan.network.sysctls.get("net.ipv4.ip_forward").is_some_and(|value| value == "0") {
        found.compare("forwarding", false, kernel.forwards_ipv4);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixture::{INSPECTIONS, changed, differences, kernel, plan};
    use super::*;

    #[test]
    fn interface_without_a_network_is_reported() {
        let mut plan = plan();
        plan.network.networks = Networks::None;
        plan.network.dns = None;
        let lone = KernelFacts { interfaces: BTreeSet::from(["lo".to_owned()]), ..kernel() };
        for networks in [json!({}), json!(null), json!({"none": {"IPAddress": "", "GlobalIPv6Address": ""}})]
        {
            let [inspection, _] = INSPECTIONS;
            let mut answer = changed(inspection, "/NetworkSettings/Networks", networks);
            *answer.pointer_mut("/HostConfig/NetworkMode").unwrap() = json!("none");
            *answer.pointer_mut("/HostConfig/Dns").unwrap() = json!([]);
            assert_eq!(differences(&plan, answer.clone(), &lone), [""; 0]);
            let found = differences(&plan, answer, &kernel());
            assert!(matches!(found.as_slice(), [only] if only.starts_with("interfaces:")), "{found:?}");
        }
    }
}
