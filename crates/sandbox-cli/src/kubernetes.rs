//! Manifests for Kubernetes: a proxy and a task in a pod each, and policies by which the task's reaches
//! only the proxy's.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use sandbox::ResourceLimits;
use sandbox::network::RemoteProxy;
use serde_json::{Value, json};

use crate::args::TaskKind;

/// The user of a proxy, which owns nothing.
const PROXY_USER: u32 = 65_532;
/// The user of a task. A policy of the cluster may refuse root.
const TASK_USER: u32 = 1000;
/// As podman limits a proxy.
const PROXY_MEMORY: &str = "192Mi";
/// The ports at which a proxy listens.
const PORTS: [(&str, u16); 4] = [("UDP", 53), ("TCP", 53), ("TCP", 80), ("TCP", 443)];
/// The networks to which a proxy sends nothing: its program refuses them as well.
const NOT_PUBLIC: [&str; 8] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "224.0.0.0/3",
];

/// A proxy that waits for its start document on stdin.
pub(crate) struct ProxyPod<'a> {
    /// Of the task.
    pub(crate) name: &'a str,
    pub(crate) image: &'a str,
    pub(crate) dns: SocketAddrV4,
    /// Networks that are reached although they are not public.
    pub(crate) allow_addresses: Vec<String>,
}

/// A task and its proxy.
pub(crate) struct TaskPod<'a> {
    pub(crate) name: &'a str,
    pub(crate) image: &'a str,
    pub(crate) command: &'a [String],
    pub(crate) variables: &'a BTreeMap<String, String>,
    pub(crate) working_dir: &'a str,
    pub(crate) limits: ResourceLimits,
    pub(crate) runtime_class: Option<&'a str>,
    pub(crate) claim: Option<&'a str>,
    pub(crate) proxy: &'a RemoteProxy,
    pub(crate) proxy_address: Ipv4Addr,
}

impl ProxyPod<'_> {
    /// The policies of both pods, and the proxy's pod.
    pub(crate) fn manifests(&self) -> Vec<Value> {
        let container = json!({
            "name": "proxy",
            "image": self.image,
            "command": ["/sandbox-proxy", "warn"],
            // Who attaches owns the proxy, which ends with its stdin.
            "stdin": true,
            "stdinOnce": true,
            "resources": {"limits": {"memory": PROXY_MEMORY}},
            "securityContext": rights(PROXY_USER),
        });
        let spec = json!({
            "containers": [container],
            "securityContext": {
                "runAsNonRoot": true,
                "seccompProfile": {"type": "RuntimeDefault"},
                // Without it, ports below 1024 need a capability.
                "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
            },
        });
        let name = format!("{}-proxy", self.name);
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels(self.name, "proxy")},
            "spec": with_common(spec),
        });
        vec![self.policy_of_task(), self.policy_of_proxy(&name), pod]
    }

    fn policy_of_task(&self) -> Value {
        let to_proxy = json!({"to": [selector(self.name, "proxy")], "ports": ports()});
        policy(self.name, self.name, "task", &json!([]), &json!([to_proxy]))
    }

    fn policy_of_proxy(&self, name: &str) -> Value {
        let from_task = json!({"from": [selector(self.name, "task")], "ports": ports()});
        let dns = |protocol: &str| json!({"protocol": protocol, "port": self.dns.port()});
        let mut egress = vec![
            json!({"to": [block(&format!("{}/32", self.dns.ip()))], "ports": [dns("UDP"), dns("TCP")]}),
            json!({"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": NOT_PUBLIC}}]}),
        ];
        egress.extend(self.allow_addresses.iter().map(|network| json!({"to": [block(network)]})));
        policy(name, self.name, "proxy", &json!([from_task]), &Value::Array(egress))
    }
}

impl TaskPod<'_> {
    /// The files that the task trusts, and the object that has its pod.
    pub(crate) fn manifests(&self, kind: TaskKind) -> Vec<Value> {
        let trust = format!("{}-trust", self.name);
        let metadata = |name: &str| json!({"name": name, "labels": labels(self.name, "task")});
        let files = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(&trust),
            "immutable": true,
            "data": self.proxy.trust_files,
        });
        // Of the pod, which stays, with its output; that of a Job removes it.
        let mut spec = with_common(self.spec(&trust));
        let limit = self.limits.timeout.map(|limit| Value::from(limit.as_secs().max(1)));
        set(&mut spec, "activeDeadlineSeconds", limit);
        let template = json!({"metadata": {"labels": labels(self.name, "task")}, "spec": spec});
        let (version, spec) = match kind {
            TaskKind::Job => ("batch/v1", json!({"backoffLimit": 0, "template": template})),
            TaskKind::Sandbox => {
                ("agents.x-k8s.io/v1beta1", json!({"podTemplate": template, "operatingMode": "Running"}))
            }
        };
        let kind = format!("{kind:?}");
        let object =
            json!({"apiVersion": version, "kind": kind, "metadata": metadata(self.name), "spec": spec});
        vec![files, object]
    }

    fn spec(&self, trust: &str) -> Value {
        let volume = |name: &str| format!("{}-{name}", self.name);
        let (work, temporary) = (volume("workspace"), volume("tmp"));
        let mut limits = json!({});
        set(&mut limits, "memory", self.limits.memory.map(|size| size.bytes().to_string().into()));
        set(&mut limits, "cpu", self.limits.cpus.map(|cpus| format!("{}m", cpus.nano() / 1_000_000).into()));
        let container = json!({
            "name": "task",
            "image": self.image,
            "command": self.command.iter().map(|word| plain(word)).collect::<Vec<_>>(),
            "env": self.environment(),
            "workingDir": self.working_dir,
            "resources": {"limits": limits},
            "securityContext": rights(TASK_USER),
            "volumeMounts": [
                {"name": work, "mountPath": "/workspace"},
                {"name": temporary, "mountPath": "/tmp"},
                {"name": trust, "mountPath": self.proxy.trust_folder, "readOnly": true},
            ],
        });
        let files = match self.claim {
            Some(claim) => json!({"name": work, "persistentVolumeClaim": {"claimName": claim}}),
            None => json!({"name": work, "emptyDir": {}}),
        };
        let mut spec = json!({
            "containers": [container],
            // The proxy answers every name, and is the only name server.
            "dnsPolicy": "None",
            "dnsConfig": {"nameservers": [self.proxy_address]},
            "securityContext": {
                "runAsNonRoot": true,
                "fsGroup": TASK_USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumes": [
                files,
                {"name": temporary, "emptyDir": {}},
                {"name": trust, "configMap": {"name": trust, "defaultMode": 0o444}},
            ],
        });
        set(&mut spec, "runtimeClassName", self.runtime_class.map(Value::from));
        spec
    }

    fn environment(&self) -> Vec<Value> {
        let trust = self.proxy.variables.iter().map(|(name, value)| (*name, value.as_str()));
        // The root file system is read-only.
        let mut variables = BTreeMap::from([("HOME", "/tmp")]);
        variables.extend(trust);
        variables.extend(self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        variables.iter().map(|(name, value)| json!({"name": name, "value": plain(value)})).collect()
    }
}

/// The documents as YAML.
pub(crate) fn to_yaml(documents: &[Value]) -> Result<String, serde_yaml::Error> {
    let texts: Vec<String> = documents.iter().map(serde_yaml::to_string).collect::<Result<_, _>>()?;
    Ok(texts.join("---\n"))
}

/// The text that Kubernetes, which expands `$(NAME)` and `$$`, turns into `text`.
fn plain(text: &str) -> String {
    text.replace('$', "$$")
}

fn set(object: &mut Value, key: &str, value: Option<Value>) {
    if let (Some(object), Some(value)) = (object.as_object_mut(), value) {
        object.insert(key.to_owned(), value);
    }
}

/// Adds what both pods have: nothing of the cluster is in them.
fn with_common(mut spec: Value) -> Value {
    set(&mut spec, "automountServiceAccountToken", Some(false.into()));
    set(&mut spec, "enableServiceLinks", Some(false.into()));
    set(&mut spec, "restartPolicy", Some("Never".into()));
    spec
}

/// The rights of a container, which has none but those of its user.
fn rights(user: u32) -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
        "runAsUser": user,
        "runAsGroup": user,
    })
}

fn labels(name: &str, component: &str) -> Value {
    json!({
        "app.kubernetes.io/managed-by": "sandbox",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/component": component,
    })
}

fn selector(name: &str, component: &str) -> Value {
    json!({"podSelector": {"matchLabels": labels(name, component)}})
}

fn block(network: &str) -> Value {
    json!({"ipBlock": {"cidr": network}})
}

fn ports() -> Value {
    PORTS.iter().map(|(protocol, port)| json!({"protocol": protocol, "port": port})).collect()
}

fn policy(name: &str, instance: &str, component: &str, ingress: &Value, egress: &Value) -> Value {
    let mut spec = selector(instance, component);
    set(&mut spec, "policyTypes", Some(json!(["Ingress", "Egress"])));
    set(&mut spec, "ingress", Some(ingress.clone()));
    set(&mut spec, "egress", Some(egress.clone()));
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "labels": labels(instance, component)},
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use allowlist::Allowlist;
    use sandbox::{NetworkSandboxConfig, UpstreamConfig};

    use super::*;

    #[test]
    fn pods_have_no_rights_and_the_task_reaches_the_proxy_only() {
        let dns: SocketAddrV4 = "10.96.0.10:53".parse().unwrap();
        let address = "10.244.0.7".parse().unwrap();
        let pod = ProxyPod { name: "fix", image: "p", dns, allow_addresses: vec!["10.1.0.0/16".into()] };
        let remote = NetworkSandboxConfig::new(Allowlist::default());
        let mut remote = remote.remote_proxy(address, dns.into(), &UpstreamConfig::default()).unwrap();
        remote.trust_files.values_mut().for_each(|text| *text = "a certificate".to_owned());
        let task = TaskPod {
            name: "fix",
            image: "t",
            command: &["make".to_owned()],
            variables: &BTreeMap::from([("A".to_owned(), "$(B)".to_owned())]),
            working_dir: "/workspace",
            limits: ResourceLimits::untrusted(),
            runtime_class: Some("gvisor"),
            claim: None,
            proxy: &remote,
            proxy_address: address,
        };
        let manifests = [pod.manifests(), task.manifests(TaskKind::Job), task.manifests(TaskKind::Sandbox)];
        insta::assert_snapshot!(to_yaml(&manifests.concat()).unwrap());
    }
}
