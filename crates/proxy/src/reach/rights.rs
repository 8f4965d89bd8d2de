//! Gives up every capability permanently.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, no_new_privs,
    remove_capability_from_bounding_set, set_capabilities,
};

const NONE: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

/// Takes every capability from this thread, which must be the only one: those that it has, those
/// that a program it executes could get, and the bounding set. gVisor gives users other than root
/// no capabilities, and so no right to shrink the bounding set: that does not matter to a process
/// that gains nothing by executing a program.
///
/// # Errors
///
/// If one is left.
pub fn give_up_rights() -> io::Result<()> {
    for capability in bounding()? {
        match remove_capability_from_bounding_set(capability) {
            Err(Errno::PERM) if no_new_privs()? => {}
            removed => removed?,
        }
    }
    // The ambient set can contain only capabilities that the others contain.
    set_capabilities(None, NONE)?;
    if capabilities(None)? == NONE && (bounding()?.is_empty() || no_new_privs()?) {
        return Ok(());
    }
    Err(io::Error::other("some capabilities are left"))
}

/// The capabilities in the bounding set.
fn bounding() -> io::Result<Vec<CapabilitySet>> {
    let mut held = Vec::new();
    for capability in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        match capability_is_in_bounding_set(capability) {
            Ok(true) => held.push(capability),
            Ok(false) => {}
            // The kernel has no more capabilities.
            Err(error) if error == Errno::INVAL => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(held)
}
