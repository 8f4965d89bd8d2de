//! Records the connections and datagrams of the task that the kernel refuses because nothing is
//! served on their port; it only records them.
//!
//! The kernel itself answers, at once: a TCP connection with a reset, a datagram with an ICMP
//! message. Rules of the filter report these answers before they leave, each kind at most once a
//! second. So no code has to know which ports are served.

use std::convert::Infallible;
use std::io;
use std::os::fd::AsFd as _;

use sandbox_packet_filter::{ICMP, Reports, TCP, UDP};
use sandbox_proxy_protocol::{Event, PortProtocol};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use crate::record::Recorder;

/// The kernel's reports of its answers.
#[derive(Debug)]
pub(crate) struct Refusals(pub(super) Reports);

impl Refusals {
    /// Records them until `shutdown` ends.
    pub(crate) async fn serve(self, recorder: Recorder, shutdown: impl Future<Output = ()>) {
        let Self(reports) = self;
        let mut shutdown = std::pin::pin!(shutdown);
        let failed = tokio::select! {
            Err(error) = follow(&reports, &recorder) => error,
            () = &mut shutdown => {
                // Reports that arrived just before are recorded, too.
                while let Ok(packets) = reports.read() {
                    record(&packets, &recorder);
                }
                return;
            }
        };
        tracing::warn!(error = %failed, "traffic to ports that nothing serves is no longer recorded");
        shutdown.await;
    }
}

async fn follow(reports: &Reports, recorder: &Recorder) -> io::Result<Infallible> {
    // The socket is of another family, but becomes readable in the same way.
    let socket = UnixDatagram::from_std(reports.as_fd().try_clone_to_owned()?.into())?;
    loop {
        socket.readable().await?;
        // Any error but the absence of reports means that some are lost, which does not affect
        // later ones.
        if let Ok(packets) = socket.try_io(Interest::READABLE, || reports.read()) {
            record(&packets, recorder);
        }
    }
}

fn record(packets: &[Vec<u8>], recorder: &Recorder) {
    for (protocol, port) in packets.iter().filter_map(|packet| refused(packet)) {
        // A full queue means that the host does not read; then nothing else is served either.
        let _ = recorder.try_record(Event::PortRefused { protocol, port });
    }
}

/// The protocol and the port that the answer in `packet` refuses. The answer may quote bytes that
/// the task wrote.
fn refused(packet: &[u8]) -> Option<(PortProtocol, u16)> {
    let (protocol, answer) = of_ipv4(packet)?;
    match protocol {
        // The port that it comes from.
        TCP => Some((PortProtocol::Tcp, u16::from_be_bytes(*answer.first_chunk()?))),
        // After eight bytes, it quotes the refused packet, whose destination port this is.
        ICMP => match of_ipv4(answer.get(8..)?)? {
            (UDP, quoted) => Some((PortProtocol::Udp, u16::from_be_bytes(*quoted.get(2..)?.first_chunk()?))),
            _ => None,
        },
        _ => None,
    }
}

/// The protocol of an IPv4 packet, and the bytes after its header.
fn of_ipv4(packet: &[u8]) -> Option<(u8, &[u8])> {
    let first = *packet.first()?;
    let header = usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || header < 20 {
        return None;
    }
    Some((*packet.get(9)?, packet.get(header..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of `protocol` whose header has `options` words of options.
    fn ipv4(protocol: u8, options: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20 + 4 * usize::from(options)];
        (packet[0], packet[9]) = (0x45 + options, protocol);
        packet.extend(payload);
        packet
    }

    #[test]
    fn refused_port_is_found() {
        let reset = [0x1f, 0x91, 0x9c, 0x40, 0, 0, 0, 0];
        assert_eq!(refused(&ipv4(TCP, 0, &reset)), Some((PortProtocol::Tcp, 8081)));
        let datagram = [0x9c, 0x40, 1, 187, 0, 8, 0, 0];
        for options in [0, 10] {
            let quoted = ipv4(UDP, options, &datagram);
            let unreachable = [vec![3, 3, 0, 0, 0, 0, 0, 0], quoted].concat();
            assert_eq!(refused(&ipv4(ICMP, 0, &unreachable)), Some((PortProtocol::Udp, 443)));
            for cut in 0..ipv4(ICMP, 0, &unreachable).len() - 4 {
                assert_eq!(refused(&ipv4(ICMP, 0, &unreachable)[..cut]), None, "{cut}");
            }
        }
    }

    #[test]
    fn other_packets_report_no_port() {
        let of_tcp = [vec![3, 3, 0, 0, 0, 0, 0, 0], ipv4(TCP, 0, &[0, 1, 0, 2])].concat();
        let short = {
            let mut packet = ipv4(TCP, 0, &[0, 1]);
            packet[0] = 0x44;
            packet
        };
        for packet in
            [ipv4(ICMP, 0, &of_tcp), ipv4(UDP, 0, &[0, 1, 0, 2]), ipv4(TCP, 0, &[1]), short, vec![0x60; 60]]
        {
            assert_eq!(refused(&packet), None, "{packet:?}");
        }
    }
}
