//! The resource limits of a container.

use std::collections::BTreeSet;

use crate::container::kernel::KernelFacts;
use crate::container::plan::ContainerPlan;
use sandbox_podman::BindFacts;

use super::difference::Differences;

pub(super) fn compare(found: &mut Differences, plan: &ContainerPlan, host: &BindFacts) {
    let bytes = |bytes: Option<u64>| bytes.map_or(0, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    found.compare("memory", bytes(plan.memory), host.memory);
    found.compare("memory with swap", bytes(plan.memory_with_swap()), host.memory_swap);
    found.compare("processors", plan.nano_cpus.unwrap_or(0), host.nano_cpus);
    // Without a requested limit, the engine's own applies.
    if let Some(pids) = plan.pids {
        found.compare("processes", i64::from(pids), host.pids_limit);
    }
    let is: BTreeSet<(String, i64, i64)> =
        host.ulimits.iter().map(|limit| (limit.name.clone(), limit.soft, limit.hard)).collect();
    for limit in &plan.isolation.ulimits {
        let number = |limit| i64::try_from(limit).unwrap_or(i64::MAX);
        let name = format!("RLIMIT_{}", limit.kind.name().to_ascii_uppercase());
        let planned = (name, number(limit.soft), number(limit.hard));
        found.require(is.contains(&planned), || {
            format!("limit {}: planned {} of {}, is not set", limit.kind.name(), limit.soft, limit.hard)
        });
    }
}

pub(super) fn kernel(found: &mut Differences, plan: &ContainerPlan, kernel: &KernelFacts) {
    // The engine does not report the value that it applied. A file system that rounds does so
    // downwards.
    if let Some(planned) = plan.disk {
        found.require(kernel.disk.is_some_and(|is| is <= planned), || {
            let is = kernel.disk.map_or("unknown".to_owned(), |bytes| bytes.to_string());
            format!("disk: planned {planned} bytes, the kernel's bound is {is}")
        });
    }
    // The host's own programs would be killed instead.
    let score = kernel.oom_score_adj;
    found.require(score >= 0, || format!("OOM score in the kernel: planned 0 or more, is {score}"));
    for limit in &plan.isolation.ulimits {
        found.compare(
            &format!("limit {} in the kernel", limit.kind.name()),
            Some(&(Some(limit.soft), Some(limit.hard))),
            kernel.limits.get(&limit.kind),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn oom_score_below_zero_is_reported() {
        for (score, good) in [(0, true), (200, true), (-1, false)] {
            let facts = KernelFacts { oom_score_adj: score, ..fixture::kernel() };
            let mut found = Differences::default();
            kernel(&mut found, &fixture::plan(), &facts);
            assert_eq!(found.0.is_empty(), good, "{:?}", found.0);
        }
    }

    #[test]
    fn disk_without_a_bound_or_with_a_larger_one_is_reported() {
        for (planned, is, good) in [
            (None, None, true),
            (Some(8192), Some(8192), true),
            (Some(8193), Some(8192), true),
            (Some(8191), Some(8192), false),
            (Some(8192), None, false),
        ] {
            let plan = ContainerPlan { disk: planned, ..fixture::plan() };
            let facts = KernelFacts { disk: is, ..fixture::kernel() };
            let mut found = Differences::default();
            kernel(&mut found, &plan, &facts);
            let named = found.0.iter().any(|difference| difference.starts_with("disk:"));
            assert_eq!(named, !good, "{planned:?} {is:?}: {:?}", found.0);
        }
    }
}
