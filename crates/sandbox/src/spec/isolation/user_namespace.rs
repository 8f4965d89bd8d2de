//! Who the container's users are on the host.

use crate::spec::InvalidSpec;

/// Who the container's users are on the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserNamespace {
    /// The same numbers as on the engine's host: root in the container is root there, confined by
    /// everything else.
    #[default]
    Host,
    /// Numbers of their own: user 0 in the container is `first` on the host, and so on, and no
    /// other user exists.
    ///
    /// Folders of the host then belong to no user that the container has; it can only do with them
    /// what every user can. Only an engine of root can do this.
    Private {
        /// The host's number for root of the container; choose numbers that the host gives to no
        /// user.
        first: u32,
        /// How many numbers; every user of the image must lie below it. 65536 suffices for all of
        /// them.
        size: u32,
    },
}

impl UserNamespace {
    pub(super) fn validate(self) -> Result<(), InvalidSpec> {
        let Self::Private { first, size } = self else {
            return Ok(());
        };
        // The kernel's last number means no user.
        let fits = first.checked_add(size).is_some_and(|end| end < u32::MAX);
        if first > 0 && size > 0 && fits {
            return Ok(());
        }
        Err(InvalidSpec::new(
            "isolation.user_namespace",
            format!(
                "{size} numbers from {first} are not a private range; leave the host's root out and stay below 2^32, such as 65536 from 200000"
            ),
        ))
    }
}
