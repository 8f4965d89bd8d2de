//! Copy-on-write views of folders: the engine and the kernel must both report the overlay. Tests
//! only.

use serde_json::{Value, json};

use super::fixture::{INSPECTIONS, MOUNTS, differences, kernel, plan};
use crate::container::kernel::{self as facts, KernelFacts};
use crate::spec::Mount;

#[test]
fn copy_that_is_not_the_planned_overlay_after_the_set_up_is_reported() {
    let mut plan = plan();
    plan.mounts = vec![Mount::copy_on_write("/srv/app", "/workspace", "/state/c")];
    let folders = ["lowerdir=/srv/app", "upperdir=/state/c/upper", "workdir=/state/c/work"];
    let mount = |options: &[&str]| json!([{"Type": "bind", "Source": "/storage/merge", "Destination": "/workspace", "RW": true, "Options": options}]);
    let line = |folders: &str| {
        format!("{}9 1 0:57 / /workspace rw,relatime - overlay /storage/merge rw,{folders}\n", MOUNTS[0])
    };
    let found = |status: &str, mounts: Value, line: &str| {
        let mut inspection: Value = serde_json::from_str(INSPECTIONS[0]).unwrap();
        *inspection.pointer_mut("/Mounts").unwrap() = mounts;
        *inspection.pointer_mut("/State/Status").unwrap() = json!(status);
        let kernel = KernelFacts { mounts: facts::parse(line).unwrap(), ..kernel() };
        let mut found = differences(&plan, inspection, &kernel);
        found.retain(|difference| difference.starts_with("mounts"));
        found
    };
    let good = line(&folders.join(","));
    assert_eq!(found("initialized", mount(&folders), &good), Vec::<String>::new());
    assert_eq!(found("created", json!([]), &good), Vec::<String>::new(), "not mounted yet");
    assert_eq!(found("initialized", json!([]), &good).len(), 1);
    assert_eq!(found("initialized", mount(&["rbind"]), &good).len(), 2, "a plain mount");
    assert_eq!(found("initialized", mount(&folders), MOUNTS[0]).len(), 1);
    assert_eq!(
        found("initialized", mount(&folders), &line("lowerdir=/srv/app,upperdir=/x,workdir=/y")).len(),
        1
    );
}
