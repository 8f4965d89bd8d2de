//! `status`: what exists on the engine, and whose it is.

use sandbox::{Inventory, InventoryInstance, ObjectKind, Sandbox, SandboxConfig};
use serde::Serialize;

use crate::args::Output;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::table::aligned;

/// Prints the inventory.
pub(crate) async fn status(
    config: SandboxConfig,
    output: Output,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let sandbox = Sandbox::connect(config).await?;
    let inventory = sandbox.inventory().await?;
    match output {
        Output::Json => {
            printer.line(json(&inventory));
        }
        Output::Text if inventory.instances.is_empty() => {
            printer.line("nothing is there");
        }
        Output::Text => {
            for line in aligned(&rows(&inventory)) {
                if !printer.line(line) {
                    break;
                }
            }
            if inventory
                .instances
                .iter()
                .any(|instance| !instance.alive && !is_shared(instance))
            {
                printer.hint("`sandbox clean` removes what ended runs left; so does the next run");
            }
        }
    }
    Ok(ExitStatus::Success)
}

/// Whether all that is there is what instances share, which may outlive whoever made it.
fn is_shared(instance: &InventoryInstance) -> bool {
    instance
        .objects
        .iter()
        .all(|object| object.context.is_empty() && object.kind == ObjectKind::Network)
}

fn rows(inventory: &Inventory) -> Vec<Vec<String>> {
    let mut rows = vec![
        ["INSTANCE", "OWNER", "KIND", "ROLE", "STATE", "NAME"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for instance in &inventory.instances {
        let owner = match (instance.alive, instance.pid) {
            (true, Some(pid)) => format!("pid {pid}"),
            (true, None) => "alive".to_owned(),
            (false, _) => "ended".to_owned(),
        };
        rows.extend(instance.objects.iter().map(|object| {
            let state = if object.state.is_empty() {
                "-"
            } else {
                &object.state
            };
            [
                &instance.id,
                &owner,
                kind(object.kind),
                object.role.as_str(),
                state,
                &object.name,
            ]
            .map(str::to_owned)
            .to_vec()
        }));
    }
    rows
}

fn kind(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Container => "container",
        ObjectKind::Network => "network",
    }
}

/// What `--output json` prints; it changes its version when a field changes its meaning or goes away.
#[derive(Debug, Serialize)]
struct StatusReport<'a> {
    version: u32,
    instances: Vec<StatusInstance<'a>>,
}

#[derive(Debug, Serialize)]
struct StatusInstance<'a> {
    id: &'a str,
    alive: bool,
    pid: Option<u32>,
    objects: Vec<StatusObject<'a>>,
}

#[derive(Debug, Serialize)]
struct StatusObject<'a> {
    kind: &'static str,
    name: &'a str,
    role: &'static str,
    context: &'a str,
    state: Option<&'a str>,
}

fn json(inventory: &Inventory) -> String {
    let instances = inventory
        .instances
        .iter()
        .map(|instance| StatusInstance {
            id: &instance.id,
            alive: instance.alive,
            pid: instance.pid,
            objects: instance
                .objects
                .iter()
                .map(|object| StatusObject {
                    kind: kind(object.kind),
                    name: &object.name,
                    role: object.role.as_str(),
                    context: &object.context,
                    state: Some(object.state.as_str()).filter(|state| !state.is_empty()),
                })
                .collect(),
        })
        .collect();
    // Texts and numbers always have a form in JSON.
    serde_json::to_string(&StatusReport {
        version: 1,
        instances,
    })
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use sandbox::{InventoryObject, Role};

    use super::*;

    fn inventory() -> Inventory {
        let object = |kind, name: &str, role, context: &str, state: &str| InventoryObject {
            kind,
            name: name.to_owned(),
            role,
            context: context.to_owned(),
            state: state.to_owned(),
        };
        Inventory {
            instances: vec![
                InventoryInstance {
                    id: "aa".to_owned(),
                    alive: true,
                    pid: Some(7),
                    objects: vec![object(
                        ObjectKind::Container,
                        "sandbox-task-x",
                        Role::Task,
                        "x",
                        "running",
                    )],
                },
                InventoryInstance {
                    id: "bb".to_owned(),
                    alive: false,
                    pid: None,
                    objects: vec![object(
                        ObjectKind::Network,
                        "sandbox-egress",
                        Role::Egress,
                        "",
                        "",
                    )],
                },
            ],
        }
    }

    #[test]
    fn what_people_and_programs_see() {
        insta::assert_snapshot!(aligned(&rows(&inventory())).join("\n"), @r"
        INSTANCE  OWNER  KIND       ROLE    STATE    NAME
        aa        pid 7  container  task    running  sandbox-task-x
        bb        ended  network    egress  -        sandbox-egress
        ");
        insta::assert_snapshot!(json(&inventory()), @r#"{"version":1,"instances":[{"id":"aa","alive":true,"pid":7,"objects":[{"kind":"container","name":"sandbox-task-x","role":"task","context":"x","state":"running"}]},{"id":"bb","alive":false,"pid":null,"objects":[{"kind":"network","name":"sandbox-egress","role":"egress","context":"","state":null}]}]}"#);
        let instances = inventory().instances;
        assert_eq!(instances.iter().map(is_shared).collect::<Vec<_>>(), [false, true]);
    }
}
