//! The DNS listeners of the task's network, over UDP and TCP.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::rate::Rate;
use super::responder::reply;
use crate::accounting::LimitCounter;
use crate::record::Recorder;

/// The longest UDP query that is read whole; a longer one is truncated.
const UDP_BYTES: usize = 4096;
/// The maximum number of open TCP connections; any more are closed at once.
const TCP_CONNECTIONS: usize = 64;
/// The time limit of each message over TCP, in and out, including the silence before it.
const TCP_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after the operating system failed to receive or accept, so that a lasting failure does
/// not spin.
const PAUSE: Duration = Duration::from_millis(50);

/// The bound sockets.
#[derive(Debug)]
pub(crate) struct DnsSockets {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl DnsSockets {
    /// Binds UDP and TCP at `address`.
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { udp: UdpSocket::bind(address).await?, tcp: TcpListener::bind(address).await? })
    }

    /// Answers queries, at most `per_second`, until `shutdown`. Every answer is recorded first: a
    /// query that cannot be recorded is not answered.
    pub(crate) async fn serve(
        self,
        address: Ipv4Addr,
        per_second: u32,
        recorder: Recorder,
        shutdown: impl Future<Output = ()>,
    ) {
        let responder = Arc::new(Responder {
            address,
            rate: Rate::new(per_second, Instant::now()),
            over_rate: LimitCounter::new("dns_queries_per_second"),
            refused: LimitCounter::new("connections"),
            recorder,
        });
        tokio::select! {
            never = serve_udp(&responder, &self.udp) => match never {},
            never = serve_tcp(&responder, &self.tcp) => match never {},
            never = responder.over_rate.report(&responder.recorder) => match never {},
            never = responder.refused.report(&responder.recorder) => match never {},
            () = shutdown => {}
        }
        responder.over_rate.flush(&responder.recorder);
        responder.refused.flush(&responder.recorder);
    }
}

/// Answers queries of both transports.
#[derive(Debug)]
struct Responder {
    address: Ipv4Addr,
    rate: Rate,
    over_rate: LimitCounter,
    refused: LimitCounter,
    recorder: Recorder,
}

impl Responder {
    /// Records and returns the answer to `query`; `None` if it gets none.
    fn answer(&self, query: &[u8]) -> Option<Vec<u8>> {
        #[cfg(feature = "forced-panic")]
        crate::forced_panic::end_listener(query);
        if !self.rate.admits(Instant::now()) {
            self.over_rate.add();
            return None;
        }
        let reply = reply(query, self.address)?;
        self.recorder.try_record(reply.event).ok()?;
        Some(reply.message)
    }
}

async fn serve_udp(responder: &Responder, socket: &UdpSocket) -> Infallible {
    let mut buffer = vec![0; UDP_BYTES];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, client)) => {
                if let Some(answer) = buffer.get(..length).and_then(|query| responder.answer(query)) {
                    // Never waits: an answer that does not fit into the socket's buffer is lost, as
                    // UDP allows.
                    let _ = socket.try_send_to(&answer, client);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "failed to receive a DNS query");
                // tidy: sleep: a socket that fails must not be asked again at once.
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn serve_tcp(responder: &Arc<Responder>, listener: &TcpListener) -> Infallible {
    let places = Arc::new(Semaphore::new(TCP_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match (accepted, Arc::clone(&places).try_acquire_owned()) {
            (Ok((stream, _)), Ok(place)) => {
                let responder = Arc::clone(responder);
                connections.spawn(async move {
                    // A client that disconnects is not an error.
                    let _ = serve_connection(&responder, stream).await;
                    drop(place);
                });
            }
            (Ok(_), Err(_)) => responder.refused.add(),
            (Err(error), _) => {
                tracing::warn!(%error, "failed to accept a connection for DNS");
                // tidy: sleep: as above.
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Answers one query after the other, until the client disconnects, is silent for too long, or
/// sends a query that gets no answer.
async fn serve_connection(responder: &Responder, mut stream: TcpStream) -> io::Result<()> {
    loop {
        let query = timeout(TCP_TIMEOUT, read_message(&mut stream)).await??;
        let Some(answer) = responder.answer(&query) else {
            return Ok(());
        };
        let mut framed = u16::try_from(answer.len()).map_err(io::Error::other)?.to_be_bytes().to_vec();
        framed.extend_from_slice(&answer);
        timeout(TCP_TIMEOUT, stream.write_all(&framed)).await??;
    }
}

async fn read_message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use sandbox_proxy_protocol::{DnsAnswer, Event, ProxyMessage, from_line};
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::record::{self, Records};

    const PROXY: Ipv4Addr = Ipv4Addr::new(10, 199, 1, 100);
    const QUERY: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";
    const RESPONSE: &[u8] = b"\0\x07\x81\x80\0\x01\0\x01\0\0\0\0";

    struct Running {
        address: SocketAddr,
        stop: oneshot::Sender<()>,
        task: JoinHandle<()>,
        records: Records,
    }

    impl Running {
        async fn start(per_second: u32) -> (Self, Recorder) {
            let (address, sockets) = loop {
                let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
                if let Ok(sockets) = DnsSockets::bind(free).await {
                    break (free, sockets);
                }
            };
            let (recorder, records) = record::channel();
            let (stop, stopped) = oneshot::channel();
            let shutdown = async { drop(stopped.await) };
            let task = tokio::spawn(sockets.serve(PROXY, per_second, recorder.clone(), shutdown));
            (Self { address, stop, task, records }, recorder)
        }

        /// Stops it, and returns everything that it recorded.
        async fn stop(self, recorder: Recorder) -> Vec<Event> {
            self.stop.send(()).unwrap();
            self.task.await.unwrap();
            drop(recorder);
            let mut output = Vec::new();
            self.records.write_to(&mut output).await.unwrap();
            let lines = output.split_inclusive(|byte| *byte == b'\n');
            lines
                .map(|line| match from_line(line).unwrap() {
                    ProxyMessage::Record(record) => record.event,
                    other => panic!("{other:?}"),
                })
                .collect()
        }
    }

    fn framed(query: &[u8]) -> Vec<u8> {
        [&u16::try_from(query.len()).unwrap().to_be_bytes(), query].concat()
    }

    #[tokio::test]
    async fn udp_and_tcp_give_the_same_answers() {
        let (running, recorder) = Running::start(200).await;
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut buffer = [0; 512];
        // A message without an answer does not keep the next one from getting its own.
        for message in [&b"short"[..], RESPONSE, QUERY] {
            udp.send_to(message, running.address).await.unwrap();
        }
        let length = udp.recv(&mut buffer).await.unwrap();
        assert!(buffer[..length].starts_with(RESPONSE) && buffer[..length].ends_with(&PROXY.octets()));

        let mut tcp = TcpStream::connect(running.address).await.unwrap();
        // Two queries at once, the second cut into pieces.
        let both = [framed(QUERY), framed(QUERY)].concat();
        let (first, second) = both.split_at(framed(QUERY).len() + 3);
        tcp.write_all(first).await.unwrap();
        assert_eq!(read_message(&mut tcp).await.unwrap(), buffer[..length]);
        tcp.write_all(second).await.unwrap();
        assert_eq!(read_message(&mut tcp).await.unwrap(), buffer[..length]);

        let answered = Event::Dns {
            kind: "A".to_owned(),
            name: "a.example".to_owned(),
            answer: DnsAnswer::Address(PROXY),
        };
        assert_eq!(running.stop(recorder).await, [answered.clone(), answered.clone(), answered]);
    }

    #[tokio::test]
    async fn queries_above_the_rate_are_dropped_and_counted() {
        let (running, recorder) = Running::start(1).await;
        let mut tcp = TcpStream::connect(running.address).await.unwrap();
        tcp.write_all(&[framed(QUERY), framed(QUERY)].concat()).await.unwrap();
        read_message(&mut tcp).await.unwrap();
        assert!(read_message(&mut tcp).await.is_err(), "closed without an answer");
        let events = running.stop(recorder).await;
        assert!(matches!(events[0], Event::Dns { .. }));
        assert_eq!(events[1..], [Event::Limit { limit: "dns_queries_per_second".to_owned(), count: 1 }]);
    }

    #[tokio::test]
    async fn query_without_room_for_its_record_gets_no_answer() {
        let (running, recorder) = Running::start(200).await;
        while recorder.try_record(Event::TaskStart).is_ok() {}
        let mut tcp = TcpStream::connect(running.address).await.unwrap();
        tcp.write_all(&framed(QUERY)).await.unwrap();
        assert!(read_message(&mut tcp).await.is_err());
        assert!(running.stop(recorder).await.iter().all(|event| *event == Event::TaskStart));
    }

    #[tokio::test]
    async fn connections_beyond_the_bound_are_closed() {
        let (running, recorder) = Running::start(1000).await;
        let mut open = Vec::new();
        for _ in 0..TCP_CONNECTIONS {
            let mut tcp = TcpStream::connect(running.address).await.unwrap();
            tcp.write_all(&framed(QUERY)).await.unwrap();
            read_message(&mut tcp).await.unwrap();
            open.push(tcp);
        }
        let mut refused = TcpStream::connect(running.address).await.unwrap();
        assert!(read_message(&mut refused).await.is_err());
        let events = running.stop(recorder).await;
        assert_eq!(events.last(), Some(&Event::Limit { limit: "connections".to_owned(), count: 1 }));
        for mut tcp in open {
            assert!(read_message(&mut tcp).await.is_err(), "closed by the end of the server");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_client_is_dropped() {
        let (running, recorder) = Running::start(200).await;
        for beginning in [&b""[..], b"\0", b"\0\x1c\0\x07"] {
            let mut tcp = TcpStream::connect(running.address).await.unwrap();
            tcp.write_all(beginning).await.unwrap();
            let began = Instant::now();
            assert!(read_message(&mut tcp).await.is_err());
            assert_eq!(began.elapsed().as_secs(), TCP_TIMEOUT.as_secs(), "{beginning:?}");
        }
        assert_eq!(running.stop(recorder).await, []);
    }
}
