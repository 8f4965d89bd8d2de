//! Gives up every capability, for good.

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
/// that a program could get which it executes, and the bound of both. gVisor gives a user other
/// than root none, and so no right to lower the bound: that is no loss to who gains nothing by
/// executing a program.
///
/// # Errors
///
/// When one is left.
pub fn give_up_rights() -> io::Result<()> {
    for capability in bounding()? {
        match remove_capability_from_bounding_set(capability) {
            Err(Errno::PERM) if no_new_privs()? => {}
            removed => removed?,
        }
    }
    // The ambient set can hold nothing that the others do not.
    set_capabilities(None, NONE)?;
    if capabilities(None)? == NONE && (bounding()?.is_empty() || no_new_privs()?) {
        return Ok(());
    }
    Err(io::Error::other("the kernel left some"))
}

/// What the bounding set holds.
fn bounding() -> io::Result<Vec<CapabilitySet>> {
    let mut held = Vec::new();
    for capability in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        match capability_is_in_bounding_set(capability) {
            Ok(true) => held.push(capability),
            Ok(false) => {}
            // The kernel knows no more.
            Err(error) if error == Errno::INVAL => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(held)
}
