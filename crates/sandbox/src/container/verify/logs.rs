//! The log of a detached container: its driver and its bound. Tests only.

use serde_json::json;

use super::fixture::{INSPECTIONS, MOUNTS, changed, differences, kernel, plan};
use crate::container::kernel::{self as facts, KernelFacts};
use crate::container::plan::{ContainerPlan, Detachment};

#[test]
fn log_with_another_driver_or_bound_is_reported() {
    let plan = ContainerPlan {
        detachment: Detachment { log_limit: Some(65536), ..Detachment::default() },
        ..plan()
    };
    for (inspection, mounts) in INSPECTIONS.into_iter().zip(MOUNTS) {
        let kernel = KernelFacts { mounts: facts::parse(mounts).unwrap(), ..kernel() };
        for (log, good) in [
            (json!({"Type": "k8s-file", "Size": "65.54kB"}), true),
            (json!({"Type": "k8s-file", "Size": "0B"}), false),
            (json!({"Type": "none", "Size": "65.54kB"}), false),
            (json!({"Type": "journald", "Size": "65.54kB"}), false),
        ] {
            let found =
                differences(&plan, changed(inspection, "/HostConfig/LogConfig", log.clone()), &kernel);
            let of_log: Vec<_> = found.iter().filter(|text| text.starts_with("log:")).collect();
            assert_eq!(of_log.is_empty(), good, "{log}: {found:?}");
        }
    }
}
