//! Very many connections to the proxy: each for a different name, or all extremely slow.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Number of concurrent handshakes.
const SIDE_BY_SIDE: u32 = 16;
/// Maximum time for a peer to answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Begins `count` TLS handshakes with `host`, each for a different name below it, and returns how
/// many were answered with a handshake record.
pub(super) fn names(host: &str, count: u32) -> io::Result<String> {
    let address = resolve(host, 443)?;
    let (next, answered) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    if begin(address, &format!("n{number}.{host}")).is_ok_and(|kind| kind == HANDSHAKE) {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Ok(answered.into_inner().to_string())
}

/// Opens `count` connections to `host` and sends a byte a second over each, of a hello on port 443
/// and of a request's head elsewhere, until all of them are closed or `seconds` are over. Returns
/// how many the peer closed.
pub(super) fn slow(host: &str, port: u16, count: u32, seconds: u64) -> io::Result<String> {
    let address = resolve(host, port)?;
    let mut open =
        (0..count).map(|_| TcpStream::connect_timeout(&address, TIMEOUT)).collect::<io::Result<Vec<_>>>()?;
    let begun = Instant::now();
    let bytes = match port {
        443 => hello(host),
        _ => format!("GET / HTTP/1.1\r\nHost: {host}\r\nX: {}", "x".repeat(4096)).into_bytes(),
    };
    for byte in bytes {
        open.retain(|stream| is_open(stream, byte));
        if open.is_empty() || begun.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        // tidy: sleep: the pace of the attack
        thread::sleep(Duration::from_secs(1));
    }
    Ok((count as usize - open.len()).to_string())
}

/// Sends a byte and checks whether the peer has closed the connection, possibly after an answer.
fn is_open(mut stream: &TcpStream, byte: u8) -> bool {
    let mut answer = [0; 1024];
    let taken = stream
        .set_nonblocking(true)
        .and_then(|()| stream.write(&[byte]))
        .and_then(|_| stream.read(&mut answer));
    matches!(taken, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    (host, port).to_socket_addrs()?.next().ok_or_else(|| ErrorKind::NotFound.into())
}

/// The type of the records of a handshake.
const HANDSHAKE: u8 = 22;

/// Sends a `ClientHello` for `name`; returns the type of the first record of the answer.
fn begin(address: SocketAddr, name: &str) -> io::Result<u8> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(&hello(name))?;
    let mut kind = [0];
    stream.read_exact(&mut kind)?;
    let [kind] = kind;
    Ok(kind)
}

/// A `ClientHello` of TLS 1.3 with the server name `name`.
fn hello(name: &str) -> Vec<u8> {
    let name = [&[0][..], &prefixed(2, name.as_bytes())].concat();
    // Any public key will do: the base point of X25519.
    let key = [&[9][..], &[0; 31]].concat();
    let share = [&[0, 0x1d][..], &prefixed(2, &key)].concat();
    let extensions = [
        extension(0, &prefixed(2, &name)),
        extension(10, &prefixed(2, &[0, 0x1d])),
        extension(13, &prefixed(2, &[4, 3, 8, 4])),
        extension(43, &prefixed(1, &[3, 4])),
        extension(51, &prefixed(2, &share)),
    ]
    .concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &prefixed(1, &[]),
        &prefixed(2, &[0x13, 1, 0x13, 2, 0x13, 3]),
        &prefixed(1, &[0]),
        &prefixed(2, &extensions),
    ]
    .concat();
    let message = [&[1][..], &prefixed(3, &body)].concat();
    [&[HANDSHAKE, 3, 1][..], &prefixed(2, &message)].concat()
}

fn extension(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[0, kind][..], &prefixed(2, content)].concat()
}

/// `content` preceded by its length in `width` bytes.
fn prefixed(width: usize, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let (_, length) = length.split_at(length.len() - width);
    [length, content].concat()
}
