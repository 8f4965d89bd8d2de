//! The objects on the engine, and their owners.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use sandbox_podman::{Engine, EngineError};

use crate::instance::{self, Liveness};
use crate::labels::{Labels, Role};

/// All objects on the engine with one prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Inventory {
    /// The instances, sorted by id.
    pub instances: Vec<InventoryInstance>,
}

/// An instance that has objects on the engine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct InventoryInstance {
    /// Its id.
    pub id: String,
    /// Whether its lock is held.
    pub alive: bool,
    /// The process that holds the lock, if known.
    pub pid: Option<u32>,
    /// Its containers, then its networks, each sorted by name.
    pub objects: Vec<InventoryObject>,
}

/// The engine's kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ObjectKind {
    /// A container.
    Container,
    /// A network.
    Network,
}

impl ObjectKind {
    /// `container` or `network`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Network => "network",
        }
    }
}

/// A container or a network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct InventoryObject {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub role: Role,
    /// Its execution context; empty for shared objects.
    pub context: String,
    /// The engine's state of a container (`running`, `exited`); empty for a network.
    pub state: String,
}

/// An object with the labels it was found with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) kind: ObjectKind,
    /// The engine's id.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) state: String,
    pub(super) labels: Labels,
}

/// The objects with `prefix`.
pub(crate) async fn inventory(engine: &Engine, prefix: &str) -> Result<Inventory, EngineError> {
    let mut by_instance: BTreeMap<String, InventoryInstance> = BTreeMap::new();
    for Found { kind, name, state, labels, .. } in find(engine, prefix).await? {
        let instance = by_instance.entry(labels.instance().to_owned()).or_insert_with(|| {
            // The shared network may outlive its creator: another boot says nothing about it.
            let is_left = labels.role() == Role::Egress && !labels.lock().is_here();
            let alive = !is_left && instance::liveness(labels.lock()) == Liveness::Alive;
            InventoryInstance {
                id: labels.instance().to_owned(),
                alive,
                pid: alive.then(|| instance::pid(&labels.lock().path)).flatten(),
                objects: Vec::new(),
            }
        });
        let (role, context) = (labels.role(), labels.context().to_owned());
        instance.objects.push(InventoryObject { kind, name, role, context, state });
    }
    let mut instances: Vec<_> = by_instance.into_values().collect();
    for instance in &mut instances {
        instance.objects.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    }
    Ok(Inventory { instances })
}

/// All objects with `prefix` whose labels are complete.
pub(super) async fn find(engine: &Engine, prefix: &str) -> Result<Vec<Found>, EngineError> {
    find_with(engine, prefix, &[Labels::owned_by(prefix)]).await
}

/// The objects of the instance `id`: a query takes longer the more objects it returns.
pub(super) async fn find_instance(
    engine: &Engine,
    prefix: &str,
    id: &str,
) -> Result<Vec<Found>, EngineError> {
    let filters = [Labels::owned_by(prefix), Labels::made_by(id)];
    let mut found = find_with(engine, prefix, &filters).await?;
    found.retain(|found| found.labels.instance() == id);
    Ok(found)
}

async fn find_with(engine: &Engine, prefix: &str, filters: &[String]) -> Result<Vec<Found>, EngineError> {
    let (containers, networks) =
        tokio::try_join!(engine.list_containers(filters), engine.list_networks(filters))?;
    let containers = containers.into_iter().map(|container| {
        (ObjectKind::Container, container.id, container.name, container.state, container.labels)
    });
    let networks = networks.into_iter().map(|network| {
        (ObjectKind::Network, network.name.clone(), network.name, String::new(), network.labels)
    });
    let found = containers.chain(networks).filter_map(|(kind, id, name, state, labels)| {
        let Some(labels) = Labels::from_map(&labels).filter(|labels| labels.owner() == prefix) else {
            tracing::warn!(object = %name, "has the owner label, but not all labels; it is kept");
            return None;
        };
        Some(Found { kind, id, name, state, labels })
    });
    Ok(found.collect())
}
