//! A name server for tests, on loopback, over UDP and TCP: it gives the answers that a test
//! specifies, valid or not.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;

use super::message::{CLASS_IN, Header, Name, Reader, TYPE_A, TYPE_AAAA, TYPE_CNAME};

/// A server that runs until it is dropped.
pub(super) struct FakeServer {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl FakeServer {
    /// Answers each query with the messages that `answer` returns for it.
    pub(super) async fn start(answer: impl Fn(&Asked) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let (udp, tcp) = bind_both().await;
        let address = udp.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            let mut buffer = [0; 512];
            loop {
                tokio::select! {
                    received = udp.recv_from(&mut buffer) => {
                        let (length, client) = received.unwrap();
                        count.fetch_add(1, Ordering::Relaxed);
                        for message in answer(&Asked::read(&buffer[..length], false)) {
                            udp.send_to(&message, client).await.unwrap();
                        }
                    }
                    accepted = tcp.accept() => {
                        let mut stream = accepted.unwrap().0;
                        let mut query = vec![0; usize::from(stream.read_u16().await.unwrap())];
                        stream.read_exact(&mut query).await.unwrap();
                        for message in answer(&Asked::read(&query, true)) {
                            stream.write_u16(u16::try_from(message.len()).unwrap()).await.unwrap();
                            stream.write_all(&message).await.unwrap();
                        }
                    }
                }
            }
        });
        Self { address, asked, task }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of queries that arrived over UDP so far.
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Binds both protocols to one port that the kernel chooses, and which another process may have
/// taken for TCP.
async fn bind_both() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
            return (udp, tcp);
        }
    }
}

/// A query as the server sees it.
pub(super) struct Asked {
    id: u16,
    question: Vec<u8>,
    name: String,
    kind: u16,
    tcp: bool,
}

impl Asked {
    fn read(query: &[u8], tcp: bool) -> Self {
        let mut reader = Reader::new(query);
        let header = reader.header().unwrap();
        assert_eq!((header.flags, header.questions), (Header::RECURSION_DESIRED, 1));
        let name = reader.plain_name().unwrap().to_string();
        let kind = reader.word().unwrap();
        Self { id: header.id, question: query[12..].to_vec(), name, kind, tcp }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_v4(&self) -> bool {
        self.kind == TYPE_A
    }

    pub(super) fn is_tcp(&self) -> bool {
        self.tcp
    }

    /// An answer with `records`.
    pub(super) fn answer(&self, records: &[Fields]) -> Vec<u8> {
        let section: Vec<u8> = records.iter().flat_map(|fields| fields.0.clone()).collect();
        self.message(0, u16::try_from(records.len()).unwrap(), &section)
    }

    /// An answer with the records of the family that is asked for.
    pub(super) fn by_family(&self, v4: &[Fields], v6: &[Fields]) -> Vec<u8> {
        self.answer(if self.is_v4() { v4 } else { v6 })
    }

    /// An answer that announces `answers` records, regardless of the content of `section`.
    pub(super) fn raw(&self, answers: u16, section: &[u8]) -> Vec<u8> {
        self.message(0, answers, section)
    }

    /// An empty answer with a response code.
    pub(super) fn code(&self, code: u16) -> Vec<u8> {
        self.message(code, 0, &[])
    }

    /// An answer that did not fit.
    pub(super) fn truncated(&self) -> Vec<u8> {
        self.message(Header::TRUNCATED, 0, &[])
    }

    fn message(&self, flags: u16, answers: u16, section: &[u8]) -> Vec<u8> {
        let flags = flags | Header::RESPONSE | Header::RECURSION_DESIRED | Header::RECURSION_AVAILABLE;
        let header = Header { id: self.id, flags, questions: 1, answers, authorities: 0, additionals: 0 };
        let mut message = Vec::new();
        header.write(&mut message);
        message.extend_from_slice(&self.question);
        message.extend_from_slice(section);
        message
    }
}

/// A record on the wire.
pub(super) struct Fields(Vec<u8>);

impl Fields {
    pub(super) fn new(owner: &str, kind: u16, ttl: u32, data: &[u8]) -> Self {
        let mut wire = Name::from_host(owner).unwrap().as_wire().to_vec();
        wire.extend([kind, CLASS_IN].into_iter().flat_map(u16::to_be_bytes));
        wire.extend_from_slice(&ttl.to_be_bytes());
        wire.extend_from_slice(&u16::try_from(data.len()).unwrap().to_be_bytes());
        wire.extend_from_slice(data);
        Self(wire)
    }

    /// A record whose data is a name.
    pub(super) fn named(owner: &str, kind: u16, ttl: u32, target: &str) -> Self {
        Self::new(owner, kind, ttl, Name::from_host(target).unwrap().as_wire())
    }
}

pub(super) fn a(owner: &str, ttl: u32, address: [u8; 4]) -> Fields {
    Fields::new(owner, TYPE_A, ttl, &address)
}

pub(super) fn aaaa(owner: &str, ttl: u32, address: &str) -> Fields {
    Fields::new(owner, TYPE_AAAA, ttl, &address.parse::<Ipv6Addr>().unwrap().octets())
}

pub(super) fn cname(owner: &str, target: &str) -> Fields {
    Fields::named(owner, TYPE_CNAME, 60, target)
}
