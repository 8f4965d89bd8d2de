//! Reads packs that are pushed to a repository, to prove that an update of a ref loses no commit.
//!
//! The proxy does not see the repository. It sees only the pack, which contains the new commits and
//! the ids of their parents. An id is the hash of the object that it names, so a path from the new
//! commit to the old one cannot be forged. Everything but the pack's checksum is forwarded while it
//! is read: without these last bytes, a server discards the push. Anything that cannot be read
//! leaves the update unproven.

mod ancestry;
mod commit;
mod delta;
mod object_head;
mod pack;
mod proof;

pub(crate) use proof::{Proof, ROOM};

#[cfg(test)]
mod tests;
