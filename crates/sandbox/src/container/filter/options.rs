//! The socket options that a container may set: those of its own connections, but none that puts
//! another protocol on top of one.
//!
//! `TCP_ULP` passes a connection to a kernel module (`espintcp`, `tls`, `smc`), and `UDP_ENCAP`
//! passes packets to `xfrm`: both load large parts of the kernel, need no privilege and have had
//! vulnerabilities (CVE-2026-43284, CVE-2026-46300). Permitted options are listed, and compared in
//! all 64 bits: a number that the kernel would truncate is not in the list. Neither are levels of
//! other families.

use serde_json::{Value, json};

/// Levels whose options are all permitted: sockets, IPv4, IPv6 and its ICMP, raw sockets, packets,
/// netlink, multipath TCP.
const LEVELS: [u64; 8] = [1, 0, 41, 58, 255, 263, 270, 284];

const TCP: u64 = 6;
/// All TCP options before this one are permitted, up to `TCP_FASTOPEN_CONNECT`; this one is not.
const TCP_ULP: u64 = 31;
/// The permitted options after it, up to `TCP_TX_DELAY`, and `TCP_IS_MPTCP` and `TCP_RTO_MAX_MS`,
/// without the authentication of routers.
const TCP_LATER: [u64; 8] = [32, 33, 34, 35, 36, 37, 43, 44];

const UDP: u64 = 17;
const UDP_ENCAP: u64 = 100;
/// `UDP_CORK`, checksums over IPv6, segments in one packet.
const UDP_PLAIN: [u64; 5] = [1, 101, 102, 103, 104];

/// Conditions on the arguments of `setsockopt`, one of which must hold.
pub(super) fn permitted() -> Vec<Vec<Value>> {
    let levels = LEVELS.map(|level| vec![equal(1, level)]);
    let below = json!({"index": 2, "value": TCP_ULP, "op": "SCMP_CMP_LT"});
    let later = TCP_LATER.map(|option| vec![equal(1, TCP), equal(2, option)]);
    let udp = UDP_PLAIN.map(|option| vec![equal(1, UDP), equal(2, option)]);
    let mut all = levels.to_vec();
    all.push(vec![equal(1, TCP), below]);
    all.extend(later);
    all.extend(udp);
    all
}

/// Conditions for which the error is that the option is not permitted, instead of that the call
/// does not exist.
pub(super) fn refused() -> Vec<Vec<Value>> {
    let option = |(level, option)| vec![equal(1, level), equal(2, option)];
    [(TCP, TCP_ULP), (UDP, UDP_ENCAP)].map(option).to_vec()
}

fn equal(index: u32, value: u64) -> Value {
    json!({"index": index, "value": value, "op": "SCMP_CMP_EQ"})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(conditions: &[Vec<Value>], level: u64, option: u64) -> bool {
        let meets = |argument: &Value| {
            let is = if argument["index"] == 1 { level } else { option };
            let wanted = argument["value"].as_u64().unwrap();
            match argument["op"].as_str().unwrap() {
                "SCMP_CMP_EQ" => is == wanted,
                "SCMP_CMP_LT" => is < wanted,
                other => panic!("{other}"),
            }
        };
        conditions.iter().any(|conditions| conditions.iter().all(meets))
    }

    #[test]
    fn options_of_connections_are_permitted_and_protocols_on_top_refused() {
        for (level, option, permitted) in [
            // SO_REUSEADDR, IP_TOS, IPV6_V6ONLY, TCP_NODELAY, TCP_FASTOPEN_CONNECT, TCP_INQ,
            // UDP_SEGMENT.
            (1, 2, true),
            (0, 1, true),
            (41, 26, true),
            (6, 1, true),
            (6, 30, true),
            (6, 36, true),
            (17, 103, true),
            (6, TCP_ULP, false),
            (17, UDP_ENCAP, false),
            // SOL_ALG, SOL_TLS, SOL_XDP.
            (279, 1, false),
            (282, 1, false),
            (283, 1, false),
            // The kernel would truncate these.
            (TCP | 1 << 32, TCP_ULP, false),
            (6, TCP_ULP | 1 << 32, false),
            (UDP | 1 << 32, UDP_ENCAP, false),
            (1 | 1 << 32, 2, false),
        ] {
            assert_eq!(holds(&super::permitted(), level, option), permitted, "{level} {option}");
        }
        assert!(holds(&refused(), 6, 31) && holds(&refused(), 17, 100) && !holds(&refused(), 6, 1));
    }
}
