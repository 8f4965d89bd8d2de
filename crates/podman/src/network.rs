//! Calls about networks, all of podman's own API: the Docker-compatible one forces a name server on
//! every network, and an address of the host that containers can reach.

use std::collections::BTreeMap;

use http::Method;
use ipnet::{IpNet, Ipv4Net};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::connection::{CALL_DEADLINE, Engine};
use crate::error::{Cause, EngineError};
use crate::libpod::{Call, escape};

/// A network to create: a bridge without a name server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRequest {
    /// Its name.
    pub name: String,
    /// The name of its bridge on the host, at most 15 bytes.
    pub bridge: String,
    /// `None`: chosen by the engine.
    pub subnet: Option<Ipv4Net>,
    /// Whether it has no egress, and no address of the host.
    pub internal: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A network in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSummary {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its subnets.
    pub subnets: Vec<IpNet>,
    /// Whether it has no egress.
    pub internal: bool,
}

/// A network, as described by podman.
#[derive(Debug, Deserialize)]
struct Described {
    name: String,
    driver: String,
    #[serde(default)]
    network_interface: String,
    internal: bool,
    dns_enabled: bool,
    ipv6_enabled: bool,
    #[serde(default)]
    options: BTreeMap<String, String>,
    #[serde(default)]
    subnets: Vec<Subnet>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct Subnet {
    subnet: IpNet,
    #[serde(default)]
    gateway: Option<String>,
}

impl Engine {
    /// Creates a network and verifies the result; a network that differs from the plan is removed
    /// again.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`]; also if the network differs from the plan.
    pub async fn create_network(&self, plan: &NetworkRequest) -> Result<(), EngineError> {
        const OPERATION: &str = "create network";
        let body = Some(body(plan));
        let described: Described = self
            .libpod()
            .json(Call { body, ..call(OPERATION, &plan.name, Method::POST, "/networks/create") })
            .await?;
        let wrong = differences(plan, &described);
        if wrong.is_empty() {
            tracing::debug!(network = %plan.name, bridge = %plan.bridge, subnet = ?plan.subnet, internal = plan.internal, "created");
            return Ok(());
        }
        self.remove_network(&plan.name).await?;
        let problem = format!("it differs from the plan: {}", wrong.join(", "));
        Err(EngineError::new(OPERATION, &plan.name, Cause::Answer(problem)))
    }

    /// Looks for the network that `plan` names and verifies it, except for the name of its bridge.
    /// Returns whether there is one.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`]; also if the network differs from the plan.
    pub async fn find_network(&self, plan: &NetworkRequest) -> Result<bool, EngineError> {
        const OPERATION: &str = "use network";
        let name = &plan.name;
        let path = format!("/networks/{}/json", escape(name));
        let described: Described = match self.libpod().json(call(OPERATION, name, Method::GET, path)).await {
            Err(error) if error.is_not_found() => return Ok(false),
            other => other?,
        };
        let plan = NetworkRequest { bridge: described.network_interface.clone(), ..plan.clone() };
        let wrong = differences(&plan, &described);
        if wrong.is_empty() {
            return Ok(true);
        }
        let problem = format!(
            "it differs from what the sandbox makes: {}; `podman network rm {name}` removes it, and the next start makes it anew",
            wrong.join(", ")
        );
        Err(EngineError::new(OPERATION, name, Cause::Refused(problem)))
    }

    /// Removes a network without containers; succeeds if it does not exist.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`]; also if a container is connected to it.
    pub async fn remove_network(&self, name: &str) -> Result<(), EngineError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Removal {
            err: Option<Value>,
        }
        const OPERATION: &str = "remove network";
        let path = format!("/networks/{}", escape(name));
        let removals: Vec<Removal> =
            match self.libpod().json(call(OPERATION, name, Method::DELETE, path)).await {
                Err(error) if error.is_not_found() => return Ok(()),
                other => other?,
            };
        match removals.into_iter().find_map(|removal| removal.err) {
            None => Ok(()),
            Some(error) => Err(EngineError::new(
                OPERATION,
                name,
                Cause::Refused(crate::error::printable(&error.to_string())),
            )),
        }
    }

    /// Whether there is a network of this name.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn network_exists(&self, name: &str) -> Result<bool, EngineError> {
        let path = format!("/networks/{}/exists", escape(name));
        match self.libpod().call(call("look for network", name, Method::GET, path)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The networks that carry all of `labels` (`name=value`).
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn list_networks(&self, labels: &[String]) -> Result<Vec<NetworkSummary>, EngineError> {
        let filters = escape(&json!({ "label": labels }).to_string());
        let path = format!("/networks/json?filters={filters}");
        let object = labels.join(" ");
        let found: Option<Vec<Described>> =
            self.libpod().json(call("list networks with", &object, Method::GET, path)).await?;
        let summary = |found: Described| NetworkSummary {
            name: found.name,
            labels: found.labels,
            subnets: found.subnets.into_iter().map(|subnet| subnet.subnet).collect(),
            internal: found.internal,
        };
        Ok(found.unwrap_or_default().into_iter().map(summary).collect())
    }
}

fn call<'a>(operation: &'static str, object: &'a str, method: Method, path: impl Into<String>) -> Call<'a> {
    Call { operation, object, method, path: path.into(), body: None, deadline: Some(CALL_DEADLINE) }
}

fn body(plan: &NetworkRequest) -> Value {
    let mut body = json!({
        "name": plan.name,
        "driver": "bridge",
        "network_interface": plan.bridge,
        "internal": plan.internal,
        // A name server would be a process of the host that containers can reach; an internal
        // network without one gets no address of the host.
        "dns_enabled": false,
        "labels": plan.labels,
    });
    if let (Some(subnet), Some(fields)) = (plan.subnet, body.as_object_mut()) {
        fields.insert("subnets".to_owned(), json!([{ "subnet": subnet }]));
    }
    if let (false, Some(fields)) = (plan.internal, body.as_object_mut()) {
        // No access to the engine's other networks.
        fields.insert("options".to_owned(), json!({ "isolate": "true" }));
    }
    body
}

fn differences(plan: &NetworkRequest, described: &Described) -> Vec<&'static str> {
    let subnets = &described.subnets;
    let planned_subnet = match plan.subnet {
        Some(planned) => matches!(subnets.as_slice(), [only] if only.subnet == IpNet::V4(planned)),
        None => !subnets.is_empty() && subnets.iter().all(|subnet| matches!(subnet.subnet, IpNet::V4(_))),
    };
    [
        (described.name == plan.name, "name"),
        (described.driver == "bridge", "driver"),
        (described.internal == plan.internal, "internal"),
        (!described.dns_enabled, "dns"),
        (!described.ipv6_enabled, "ipv6"),
        (planned_subnet, "subnet"),
        (plan.internal || described.options.get("isolate").is_some_and(|value| value == "true"), "isolate"),
        (!plan.internal || subnets.iter().all(|subnet| subnet.gateway.is_none()), "gateway"),
        (plan.labels.iter().all(|(name, value)| described.labels.get(name) == Some(value)), "labels"),
        (described.network_interface == plan.bridge, "bridge"),
    ]
    .into_iter()
    .filter_map(|(right, field)| (!right).then_some(field))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> NetworkRequest {
        NetworkRequest {
            name: "n".to_owned(),
            bridge: "sbx0".to_owned(),
            subnet: Some("10.199.0.0/28".parse().unwrap()),
            internal: true,
            labels: BTreeMap::from([("sandbox.owner".to_owned(), "sandbox".to_owned())]),
        }
    }

    fn answer() -> Value {
        json!({
            "name": "n", "driver": "bridge", "network_interface": "sbx0", "internal": true, "dns_enabled": false, "ipv6_enabled": false,
            "subnets": [{"subnet": "10.199.0.0/28"}], "labels": {"sandbox.owner": "sandbox"}, "id": "00",
        })
    }

    fn wrong(plan: &NetworkRequest, answer: Value) -> Vec<&'static str> {
        differences(plan, &serde_json::from_value(answer).unwrap())
    }

    #[test]
    fn internal_network_has_neither_name_server_nor_gateway() {
        let body = body(&plan());
        assert_eq!(body.pointer("/dns_enabled"), Some(&json!(false)));
        assert_eq!(body.pointer("/subnets"), Some(&json!([{"subnet": "10.199.0.0/28"}])));
        assert_eq!(body.pointer("/options"), None);
    }

    #[test]
    fn network_with_egress_is_isolated_from_others() {
        let open = NetworkRequest { internal: false, subnet: None, ..plan() };
        let body = body(&open);
        assert_eq!(body.pointer("/options/isolate"), Some(&json!("true")));
        assert_eq!(body.pointer("/subnets"), None);
        for (options, expected) in [
            (json!({"isolate": "true"}), vec![]),
            (json!({"isolate": "false"}), vec!["isolate"]),
            (json!({}), vec!["isolate"]),
        ] {
            let mut described = answer();
            described["internal"] = json!(false);
            described["options"] = options;
            assert_eq!(wrong(&open, described), expected);
        }
    }

    #[test]
    fn each_weakening_of_a_network_is_detected() {
        assert!(wrong(&plan(), answer()).is_empty());
        for (field, value, expected) in [
            ("name", json!("m"), "name"),
            ("driver", json!("macvlan"), "driver"),
            ("internal", json!(false), "internal"),
            ("dns_enabled", json!(true), "dns"),
            ("ipv6_enabled", json!(true), "ipv6"),
            ("subnets", json!([{"subnet": "10.0.0.0/8"}]), "subnet"),
            ("subnets", json!([{"subnet": "10.199.0.0/28"}, {"subnet": "10.198.0.0/28"}]), "subnet"),
            ("subnets", json!([]), "subnet"),
            ("subnets", json!([{"subnet": "10.199.0.0/28", "gateway": "10.199.0.1"}]), "gateway"),
            ("labels", json!({}), "labels"),
            ("network_interface", json!("podman1"), "bridge"),
        ] {
            let mut changed = answer();
            changed.as_object_mut().unwrap().insert(field.to_owned(), value);
            assert_eq!(wrong(&plan(), changed), [expected]);
        }
    }

    #[test]
    fn answer_without_a_field_is_an_error() {
        for field in ["name", "driver", "internal", "dns_enabled", "ipv6_enabled"] {
            let mut changed = answer();
            changed.as_object_mut().unwrap().remove(field);
            assert!(serde_json::from_value::<Described>(changed).is_err(), "{field}");
        }
    }
}
