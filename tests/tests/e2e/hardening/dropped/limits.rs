//! How much a container may use.

use sandbox::Isolation;
use sandbox::isolation::{Ulimit, UlimitKind};

use super::row::Gives::{Obeyed, Other, Refused};
use super::row::{Look, Ours, Row, check};

const SWAP: &str = "cd /sys/fs/cgroup; if [ -e memory.swap.max ]; then cat memory.swap.max; else \
     echo $(($(cat memory/memory.memsw.limit_in_bytes) - $(cat memory/memory.limit_in_bytes))); fi";
const SWAPS: &str = "`MemorySwap: -1`, or none";
const AS_MUCH: &str = "67108864\n";

pub(super) const ROWS: &[Row] = &[
    Row {
        field: SWAPS,
        base: r#"{"HostConfig": {"Memory": 67108864, "MemorySwap": 67108864}}"#,
        asked: r#"{"HostConfig": {"MemorySwap": -1}}"#,
        look: Look::Inside(SWAP),
        wanted: "max\n",
        four: Other(AS_MUCH),
        five: Other(AS_MUCH),
        ours: &[
            Ours::Works(Isolation::agent, SWAP, "0\n"),
            Ours::Works(|| Isolation { swap: 32 << 20, ..Isolation::agent() }, SWAP, "33554432\n"),
            Ours::Invalid(|| Isolation { swap: u64::MAX, ..Isolation::agent() }, "isolation.swap"),
        ],
    },
    Row {
        field: SWAPS,
        base: r#"{"HostConfig": {"Memory": 67108864, "MemorySwap": 67108864}}"#,
        asked: r#"{"HostConfig": {"MemorySwap": 0}}"#,
        look: Look::Inside(SWAP),
        wanted: "none at all\n",
        four: Other(AS_MUCH),
        five: Other(AS_MUCH),
        ours: &[],
    },
    Row {
        field: "`Ulimits`",
        base: "{}",
        asked: r#"{"HostConfig": {"Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}]}}"#,
        look: Look::Inside("ulimit -Hc"),
        wanted: "0\n",
        // Podman's own limits on open files and processes are above what the tests' service may set.
        four: Refused,
        five: Obeyed,
        ours: &[Ours::Works(
            || Isolation { ulimits: vec![Ulimit::fixed(UlimitKind::Core, 0)], ..Isolation::agent() },
            "ulimit -Hc",
            "0\n",
        )],
    },
    Row {
        field: "a `Ulimits` entry above the service's own limit",
        base: "{}",
        asked: r#"{"HostConfig": {"Ulimits": [{"Name": "nofile", "Soft": 1099511627776, "Hard": 1099511627776}, {"Name": "nproc", "Soft": 100, "Hard": 100}]}}"#,
        look: Look::Inside("ulimit -Hn"),
        wanted: "1099511627776\n",
        four: Refused,
        five: Refused,
        ours: &[Ours::Refused(
            || Isolation {
                ulimits: vec![Ulimit::fixed(UlimitKind::OpenFiles, 1 << 40)],
                ..Isolation::agent()
            },
            "isolation.ulimits",
        )],
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn swap_and_limits_on_processes() {
    check(ROWS).await;
}
