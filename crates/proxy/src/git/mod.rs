//! Packs on their way to a repository: proof that an update of a ref loses no commit.
//!
//! The proxy does not see the repository. What it sees is the pack, in which the new commits and
//! the ids of their parents are; and an id is the hash of what it stands for, so a path from the
//! new commit to the old one cannot be forged. All but the pack's checksum passes while it is read:
//! without its last bytes a server discards the push. Whatever cannot be read leaves the update
//! unproven.

mod ancestry;
mod commit;
mod delta;
mod object_head;
mod pack;
mod proof;

pub(crate) use proof::{Proof, ROOM};

#[cfg(test)]
mod tests;
