//! The bridges of networks. A killed service leaves bridges without a label: only their names,
//! which the caller chose, identify their owner.

use std::collections::BTreeSet;

use http::Method;
use serde::Deserialize;

use crate::connection::{CALL_DEADLINE, Engine};
use crate::error::EngineError;
use crate::libpod::Call;

impl Engine {
    /// The bridges on the engine's host whose names begin with `beginning` and that belong to no
    /// network: those that a killed service left. `None` if the host's interfaces are not visible.
    ///
    /// # Errors
    ///
    /// If the engine does not list its networks.
    pub async fn stray_bridges(&self, beginning: &str) -> Result<Option<Vec<String>>, EngineError> {
        let Some(before) = self.bridges(beginning).await else {
            return Ok(None);
        };
        let networks = self.network_bridges().await?;
        // A bridge that was created or removed meanwhile had its network.
        let Some(after) = self.bridges(beginning).await else {
            return Ok(None);
        };
        let stays = before.intersection(&after).filter(|name| !networks.contains(*name));
        Ok(Some(stays.cloned().collect()))
    }

    /// The interfaces on the engine's host whose names begin with `beginning`. A rootless engine
    /// has its bridges in a separate network namespace.
    async fn bridges(&self, beginning: &str) -> Option<BTreeSet<String>> {
        let service = self.service().await.filter(|service| service.of_root)?;
        let tables = service.tables("dev");
        (!tables.is_empty()).then(|| tables.iter().flat_map(|table| named(table, beginning)).collect())
    }

    /// The bridges of all networks of the engine.
    async fn network_bridges(&self) -> Result<BTreeSet<String>, EngineError> {
        #[derive(Deserialize)]
        struct Listed {
            #[serde(default)]
            network_interface: String,
        }
        let call = Call {
            operation: "list networks of",
            object: "the engine",
            method: Method::GET,
            path: "/networks/json".to_owned(),
            body: None,
            deadline: Some(CALL_DEADLINE),
        };
        let found: Option<Vec<Listed>> = self.libpod().json(call).await?;
        let networks = found.unwrap_or_default().into_iter();
        Ok(networks.map(|network| network.network_interface).collect())
    }
}

/// The interfaces in the kernel's table whose names begin with `beginning`.
fn named(table: &str, beginning: &str) -> BTreeSet<String> {
    let names = table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    names.filter(|name| name.starts_with(beginning)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_the_table_are_not_interfaces() {
        let table = "Inter-|   Receive\n face |bytes\n    lo: 0 0\nsbx1a2b00000001: 5 6\n veth0: 1 2\nsbx1a2c00000002: 7 8\n";
        assert_eq!(named(table, "sbx1a2b"), BTreeSet::from(["sbx1a2b00000001".to_owned()]));
        assert!(named("", "sbx").is_empty());
    }
}
