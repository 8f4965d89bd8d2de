//! `status`: the engine, the project's image, and the objects on the engine with their owners.

use sandbox::diagnostics::{Inventory, InventoryInstance, Role};
use sandbox::image::ImageSummary;
use sandbox::{ImageSource, Sandbox, SandboxConfig, SandboxError};
use serde::Serialize;

use super::image::created;
use crate::args::Output;
use crate::control::{Runs, shield_of};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Project;
use crate::table::aligned;
use crate::trust::Trust;
use crate::workspace_copy::CopySummary;

/// Prints engine, image and inventory.
pub(crate) async fn status(
    config: SandboxConfig,
    project: &Project,
    trust: &Trust,
    output: Output,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let state = config.state_dir.clone();
    let source = project.known_image(trust);
    let copy = CopySummary::of(&project.copy_dir(), &project.protection(false));
    let sandbox = Sandbox::start(config).await?;
    let inventory = sandbox.inventory().await?;
    let runs = Runs::find(&state, printer).await?;
    let engine = format!("podman {}", sandbox.capabilities().version());
    let image = built(&sandbox, source).await?;
    if output == Output::Text {
        for line in aligned(&head(&engine, image.as_ref(), &copy, &inventory)) {
            printer.line(line);
        }
        printer.line("");
    }
    match output {
        Output::Json => {
            printer.line(json(&engine, image.as_ref(), &copy, &inventory, &runs));
        }
        Output::Text if inventory.instances.is_empty() => {
            printer.line("no objects on the engine");
        }
        Output::Text => {
            for line in aligned(&rows(&inventory, &runs)) {
                if !printer.line(line) {
                    break;
                }
            }
            if inventory.instances.iter().any(|instance| !instance.alive && !is_shared(instance)) {
                printer.hint("`sandbox clean` or the next run removes the objects of ended runs");
            }
        }
    }
    if image.is_none() && output == Output::Text {
        printer.hint("run `sandbox build` to create the sandbox image");
    }
    Ok(ExitStatus::Success)
}

/// The image built from `source`; `None` if there is none yet.
async fn built(sandbox: &Sandbox, source: Option<ImageSource>) -> Result<Option<ImageSummary>, SandboxError> {
    let Some(source) = source else {
        return Ok(None);
    };
    let tag = match sandbox.image_tags(&source).await {
        Ok(tags) => Some(tags.overlay),
        // The configured image does not exist.
        Err(SandboxError::ImageBuild(_)) => None,
        Err(error) => return Err(error),
    };
    let images = sandbox.list_images().await?;
    Ok(images.into_iter().find(|image| image.tag.is_some() && image.tag == tag))
}

fn head(
    engine: &str,
    image: Option<&ImageSummary>,
    copy: &CopySummary,
    inventory: &Inventory,
) -> Vec<Vec<String>> {
    let running = inventory
        .instances
        .iter()
        .flat_map(|instance| &instance.objects)
        .filter(|object| object.state == "running")
        .count();
    let image = image.map_or("Not built".to_owned(), |image| {
        let id = image.id.trim_start_matches("sha256:");
        let id = id.get(..12).unwrap_or(id);
        format!("Built, {id}, {}, {} MiB", created(image.created), image.size >> 20)
    });
    [
        ("Engine", format!("Running, {engine}")),
        ("Sandbox Image", image),
        ("Work Tree Copy", copy.to_string()),
        ("Running Containers", running.to_string()),
    ]
    .map(|(name, value)| vec![name.to_owned(), value])
    .to_vec()
}

/// Whether it has only shared objects, which may outlive their creator.
fn is_shared(instance: &InventoryInstance) -> bool {
    instance.objects.iter().all(|object| object.role == Role::Egress)
}

/// The shield of an instance's run.
fn shield(runs: &Runs, instance: &str) -> Option<String> {
    let run = runs.all().iter().find(|run| run.run == instance)?;
    run.shield.map(|_| shield_of(run))
}

fn rows(inventory: &Inventory, runs: &Runs) -> Vec<Vec<String>> {
    let mut rows =
        vec![["INSTANCE", "OWNER", "SHIELD", "KIND", "ROLE", "STATE", "NAME"].map(str::to_owned).to_vec()];
    for instance in &inventory.instances {
        let owner = match (instance.alive, instance.pid) {
            (true, Some(pid)) => format!("pid {pid}"),
            (true, None) => "alive".to_owned(),
            (false, _) if is_shared(instance) => "shared".to_owned(),
            (false, _) => "ended".to_owned(),
        };
        let shield = shield(runs, &instance.id).unwrap_or_else(|| "-".to_owned());
        rows.extend(instance.objects.iter().map(|object| {
            let state = if object.state.is_empty() { "-" } else { &object.state };
            [&instance.id, &owner, &shield, object.kind.as_str(), object.role.as_str(), state, &object.name]
                .map(str::to_owned)
                .to_vec()
        }));
    }
    rows
}

/// The document of `--output json`; `version` rises when a field changes its meaning or is removed.
#[derive(Debug, Serialize)]
struct StatusReport<'a> {
    version: u32,
    engine: &'a str,
    /// `null` if it is not built.
    image: Option<StatusImage<'a>>,
    workspace_copy: &'a CopySummary,
    instances: Vec<StatusInstance<'a>>,
}

#[derive(Debug, Serialize)]
struct StatusImage<'a> {
    tag: Option<&'a str>,
    id: &'a str,
    created: String,
    size: u64,
}

#[derive(Debug, Serialize)]
struct StatusInstance<'a> {
    id: &'a str,
    alive: bool,
    pid: Option<u32>,
    /// `null` without a controllable run with a network sandbox.
    shield: Option<String>,
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

fn json(
    engine: &str,
    image: Option<&ImageSummary>,
    copy: &CopySummary,
    inventory: &Inventory,
    runs: &Runs,
) -> String {
    let instances = inventory
        .instances
        .iter()
        .map(|instance| StatusInstance {
            id: &instance.id,
            alive: instance.alive,
            pid: instance.pid,
            shield: shield(runs, &instance.id),
            objects: instance
                .objects
                .iter()
                .map(|object| StatusObject {
                    kind: object.kind.as_str(),
                    name: &object.name,
                    role: object.role.as_str(),
                    context: &object.context,
                    state: Some(object.state.as_str()).filter(|state| !state.is_empty()),
                })
                .collect(),
        })
        .collect();
    // Serializing texts and numbers cannot fail.
    serde_json::to_string(&StatusReport {
        version: 1,
        engine,
        image: image.map(|image| StatusImage {
            tag: image.tag.as_deref(),
            id: &image.id,
            created: created(image.created),
            size: image.size,
        }),
        workspace_copy: copy,
        instances,
    })
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn inventory() -> Inventory {
        serde_json::from_value(json!({"instances": [
            {"id": "aa", "alive": true, "pid": 7, "objects": [
                {"kind": "container", "name": "sandbox-task-x", "role": "task", "context": "x", "state": "running"},
            ]},
            {"id": "bb", "alive": false, "pid": null, "objects": [
                {"kind": "network", "name": "sandbox-egress", "role": "egress", "context": "", "state": ""},
            ]},
        ]}))
        .unwrap()
    }

    fn image() -> ImageSummary {
        serde_json::from_value(json!({
            "id": "sha256:0123456789abcdef",
            "tag": "localhost/sandbox-overlay:1",
            "kind": "overlay",
            "created": std::time::SystemTime::UNIX_EPOCH,
            "size": 5 << 20,
        }))
        .unwrap()
    }

    fn waiting() -> CopySummary {
        CopySummary { pending: 3, withheld: 1, ..CopySummary::default() }
    }

    #[test]
    fn head_shows_engine_image_and_running_containers() {
        insta::assert_snapshot!(aligned(&head("podman 5.4.2", Some(&image()), &waiting(), &inventory())).join("\n"), @r"
        Engine              Running, podman 5.4.2
        Sandbox Image       Built, 0123456789ab, 1970-01-01T00:00:00Z, 5 MiB
        Work Tree Copy      3 changed paths, 1 withheld, see `sandbox diff`
        Running Containers  1
        ");
        insta::assert_snapshot!(aligned(&head("podman 4.3.1", None, &CopySummary::default(), &inventory())).join("\n"), @r"
        Engine              Running, podman 4.3.1
        Sandbox Image       Not built
        Work Tree Copy      None
        Running Containers  1
        ");
    }

    #[test]
    fn text_and_json_output() {
        insta::assert_snapshot!(aligned(&rows(&inventory(), &Runs::default())).join("\n"), @r"
        INSTANCE  OWNER   SHIELD  KIND       ROLE    STATE    NAME
        aa        pid 7   -       container  task    running  sandbox-task-x
        bb        shared  -       network    egress  -        sandbox-egress
        ");
        insta::assert_snapshot!(json("podman 5.4.2", Some(&image()), &waiting(), &inventory(), &Runs::default()), @r#"{"version":1,"engine":"podman 5.4.2","image":{"tag":"localhost/sandbox-overlay:1","id":"sha256:0123456789abcdef","created":"1970-01-01T00:00:00Z","size":5242880},"workspace_copy":{"in_use":false,"pending":3,"withheld":1,"error":null},"instances":[{"id":"aa","alive":true,"pid":7,"shield":null,"objects":[{"kind":"container","name":"sandbox-task-x","role":"task","context":"x","state":"running"}]},{"id":"bb","alive":false,"pid":null,"shield":null,"objects":[{"kind":"network","name":"sandbox-egress","role":"egress","context":"","state":null}]}]}"#);
        let instances = inventory().instances;
        assert_eq!(instances.iter().map(is_shared).collect::<Vec<_>>(), [false, true]);
    }
}
