//! Sinks that count what arrives: nothing, when the sandbox holds.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// Counts datagrams.
#[derive(Debug)]
pub struct UdpSink {
    address: SocketAddr,
    count: Arc<AtomicU64>,
}

impl UdpSink {
    /// Listens at `address`, at a port of its own.
    ///
    /// # Panics
    ///
    /// When the address cannot be bound.
    #[must_use]
    pub fn bind(address: Ipv4Addr) -> Self {
        let socket = UdpSocket::bind((address, 0)).expect("an address of the world");
        let address = socket.local_addr().expect("a bound socket");
        let count = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&count);
        std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            while socket.recv_from(&mut buffer).is_ok() {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { address, count }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many datagrams have arrived.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }
}

/// Counts ICMP echo requests to one address.
#[derive(Debug)]
pub struct IcmpSink {
    count: Arc<AtomicU64>,
}

impl IcmpSink {
    /// Listens at `address`.
    ///
    /// # Panics
    ///
    /// When no raw socket can be had: the tests need root.
    #[must_use]
    pub fn bind(address: Ipv4Addr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).expect("a raw socket");
        socket.bind(&SocketAddr::from((address, 0)).into()).expect("an address of the world");
        socket.set_read_timeout(Some(Duration::from_hours(1))).expect("a timeout");
        let count = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&count);
        std::thread::spawn(move || {
            use std::io::Read as _;
            let mut buffer = [0; 2048];
            while let Ok(length) = (&socket).read(&mut buffer) {
                // Behind the IPv4 header, which says how many words it has, is the type: 8 is an
                // echo request.
                let head = usize::from(buffer[0] & 15) * 4;
                if buffer.get(..length).and_then(|packet| packet.get(head)) == Some(&8) {
                    counter.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        Self { count }
    }

    /// How many echo requests have arrived.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }
}
