//! The variables.

use sandbox_inside::Order;

use super::observation::Observation;

/// Names only: the values may be secret.
pub(super) fn environment_clean(order: &Order) -> Observation {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let (known, strange): (Vec<String>, Vec<String>) = names.partition(|name| order.variables.contains(name));
    let strange: Vec<String> = strange.iter().map(|name| format!("{name} is there")).collect();
    Observation::from_problems(&strange, format!("{} variables, all accounted for", known.len()))
}
