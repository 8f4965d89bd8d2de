//! Kernel limits on each process.

use crate::spec::InvalidSpec;

/// The resource of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum UlimitKind {
    /// Bytes of address space.
    AddressSpace,
    /// Bytes of a core dump. The kernel ignores this limit where the host pipes core dumps to a
    /// program.
    Core,
    /// Seconds of processor time.
    Cpu,
    /// Bytes of data.
    Data,
    /// Bytes of a file.
    FileSize,
    /// Bytes of locked memory.
    LockedMemory,
    /// Open files.
    OpenFiles,
    /// Processes of the user on the whole host, in all containers. To limit one container, use
    /// [`ResourceLimits::pids`](crate::ResourceLimits::pids).
    Processes,
    /// Pending signals.
    PendingSignals,
    /// Bytes of the stack.
    Stack,
}

impl UlimitKind {
    pub(crate) const ALL: [Self; 10] = [
        Self::AddressSpace,
        Self::Core,
        Self::Cpu,
        Self::Data,
        Self::FileSize,
        Self::LockedMemory,
        Self::OpenFiles,
        Self::Processes,
        Self::PendingSignals,
        Self::Stack,
    ];

    /// Its name in engines and shells.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AddressSpace => "as",
            Self::Core => "core",
            Self::Cpu => "cpu",
            Self::Data => "data",
            Self::FileSize => "fsize",
            Self::LockedMemory => "memlock",
            Self::OpenFiles => "nofile",
            Self::Processes => "nproc",
            Self::PendingSignals => "sigpending",
            Self::Stack => "stack",
        }
    }

    /// Its name in `/proc/PID/limits`.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::AddressSpace => "Max address space",
            Self::Core => "Max core file size",
            Self::Cpu => "Max cpu time",
            Self::Data => "Max data size",
            Self::FileSize => "Max file size",
            Self::LockedMemory => "Max locked memory",
            Self::OpenFiles => "Max open files",
            Self::Processes => "Max processes",
            Self::PendingSignals => "Max pending signals",
            Self::Stack => "Max stack size",
        }
    }
}

/// A limit on each process. A limit above what the engine's service may set is an error at launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ulimit {
    /// The limited resource.
    pub kind: UlimitKind,
    /// The enforced limit; the process may raise it up to `hard`.
    pub soft: u64,
    /// The ceiling of `soft`, which the process can only lower.
    pub hard: u64,
}

impl Ulimit {
    /// A limit that a process cannot raise.
    #[must_use]
    pub fn fixed(kind: UlimitKind, limit: u64) -> Self {
        Self { kind, soft: limit, hard: limit }
    }

    pub(super) fn validate(&self) -> Result<(), InvalidSpec> {
        let name = self.kind.name();
        if self.soft > self.hard {
            return Err(InvalidSpec::new(
                "isolation.ulimits",
                format!("the soft limit of `{name}` is above the hard one; lower it"),
            ));
        }
        if i64::try_from(self.hard).is_err() {
            return Err(InvalidSpec::new(
                "isolation.ulimits",
                format!("`{name}` must be below 2^63; leave it out for the engine's own limit"),
            ));
        }
        Ok(())
    }
}
