//! The variables.

use sandbox_verify_probe::Order;

use crate::check::Check;
use crate::seen::Seen;

pub(super) const CHECKS: &[Check] = &[("environment_clean", environment_clean)];

/// Names only: what a variable holds is nobody's business here.
fn environment_clean(order: &Order) -> Seen {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let (known, strange): (Vec<String>, Vec<String>) = names.partition(|name| order.variables.contains(name));
    let strange: Vec<String> = strange.iter().map(|name| format!("{name} is there")).collect();
    Seen::without_faults(&strange, format!("{} variables, all accounted for", known.len()))
}
