//! The mapping of the container's users to users of the host.

use crate::spec::InvalidSpec;

/// The mapping of the container's users to users of the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserNamespace {
    /// The same ids as on the engine's host: root in the container is root there, limited by all
    /// other confinement.
    #[default]
    Host,
    /// Separate ids: user 0 in the container is `first` on the host, and so on; no other user
    /// exists.
    ///
    /// Folders of the host then belong to a user that the container does not have; it has only the
    /// rights of others on them. Only a rootful engine supports this.
    Private {
        /// The id on the host of the container's root; choose a range that the host assigns to no
        /// user.
        first: u32,
        /// The number of ids; every user of the image must be below it. 65536 covers all of them.
        size: u32,
    },
}

impl UserNamespace {
    pub(super) fn validate(self) -> Result<(), InvalidSpec> {
        let Self::Private { first, size } = self else {
            return Ok(());
        };
        // The kernel's highest id means no user.
        let fits = first.checked_add(size).is_some_and(|end| end < u32::MAX);
        if first > 0 && size > 0 && fits {
            return Ok(());
        }
        Err(InvalidSpec::new(
            "isolation.user_namespace",
            format!(
                "{size} numbers from {first} are not a private range; leave the host's root out and stay \
                 below 2^32, such as 65536 from 200000"
            ),
        ))
    }
}
