//! A vendor's token endpoint. As at real vendors, each refresh token is valid once, and a second
//! use revokes the whole family.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use e2e_tests::DEADLINE;
use e2e_tests::secret::unique;
use e2e_tests::world::{Lock, World};
use serde_json::{Value, json};

/// The endpoint, on the loopback of this machine, and the service that accepts its access tokens.
pub(super) struct Vendor {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    /// Accepts the access token that was issued last.
    host: &'static str,
    family: Mutex<Family>,
    changed: Condvar,
}

#[derive(Default)]
struct Family {
    /// Pairs of access and refresh token, the newest last.
    issued: Vec<[String; 2]>,
    asked: usize,
    is_revoked: bool,
    /// Whether the next refresh fails as at an overloaded vendor.
    is_busy: bool,
    waits: Option<Wait>,
}

/// The point at which requests wait.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Wait {
    /// Unread, before any token is used.
    Request,
    /// After the token has been consumed.
    Answer,
}

impl Vendor {
    /// A vendor that has issued one pair of tokens for `host`.
    pub(super) fn new(host: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("a bound listener");
        let shared = Arc::new(Shared { host, family: Mutex::default(), changed: Condvar::new() });
        shared.issue(&mut shared.family.lock().expect("the family"));
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || shared.answer(stream));
            }
        });
        Self { address, shared }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/v1/oauth/token", self.address)
    }

    /// Access and refresh token of pair `number`.
    pub(super) fn issued(&self, number: usize) -> [String; 2] {
        self.shared.family.lock().expect("the family").issued.get(number).expect("it was issued").clone()
    }

    /// All tokens of all pairs.
    pub(super) fn tokens(&self) -> Vec<String> {
        self.shared.family.lock().expect("the family").issued.concat()
    }

    pub(super) fn asked(&self) -> usize {
        self.shared.family.lock().expect("the family").asked
    }

    /// Refuses every refresh from now on.
    pub(super) fn revoke(&self) {
        self.shared.family.lock().expect("the family").is_revoked = true;
    }

    /// Sets the point at which requests wait from now on.
    pub(super) fn wait(&self, waits: Option<Wait>) {
        self.shared.family.lock().expect("the family").waits = waits;
        self.shared.changed.notify_all();
    }

    /// Fails the next refresh without consuming a token, so that the client has to retry.
    pub(super) fn fail_once(&self) {
        self.shared.family.lock().expect("the family").is_busy = true;
    }

    /// Issues a new pair, as when the user logs in again.
    pub(super) fn log_in(&self) -> [String; 2] {
        let mut family = self.shared.family.lock().expect("the family");
        family.is_revoked = false;
        self.shared.issue(&mut family)
    }

    /// Waits until `count` pairs have been issued.
    pub(super) fn await_issued(&self, count: usize) {
        let family = self.shared.family.lock().expect("the family");
        let waited =
            self.shared.changed.wait_timeout_while(family, DEADLINE, |family| family.issued.len() < count);
        assert!(!waited.expect("the family").1.timed_out(), "no further refresh arrived");
    }

    /// Sends `refresh` and returns the response.
    pub(super) fn refresh(&self, refresh: &str) -> String {
        let body = json!({"grant_type": "refresh_token", "refresh_token": refresh}).to_string();
        let mut stream = TcpStream::connect(self.address).expect("the endpoint");
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).expect("the endpoint");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }
}

impl Shared {
    fn issue(&self, family: &mut Family) -> [String; 2] {
        let pair = [unique("sk-ant-oat01-", 95), unique("sk-ant-ort01-", 95)];
        family.issued.push(pair.clone());
        World::shared().lock(self.host, Lock::Bearer(pair[0].clone()));
        self.changed.notify_all();
        pair
    }

    fn answer(&self, mut stream: TcpStream) {
        let body = request(&mut stream);
        let mut family = self.family.lock().expect("the family");
        if std::mem::take(&mut family.is_busy) {
            send(&mut stream, "503 Service Unavailable", &json!({}));
            return;
        }
        let resumed =
            self.changed.wait_timeout_while(family, DEADLINE, |family| family.waits == Some(Wait::Request));
        let (mut family, _) = resumed.expect("the family");
        family.asked += 1;
        let [_, newest] = family.issued.last().expect("one").clone();
        let field = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
        let is_good = field("refresh_token") == newest && field("grant_type") == "refresh_token";
        let (status, answer) = if is_good && !family.is_revoked {
            let [access, refresh] = self.issue(&mut family);
            let lifetime = json!({"access_token": access, "refresh_token": refresh, "expires_in": 28_800});
            ("200 OK", lifetime)
        } else {
            family.is_revoked = true;
            ("400 Bad Request", json!({"error": "invalid_grant", "error_description": "reused"}))
        };
        let freed =
            self.changed.wait_timeout_while(family, DEADLINE, |family| family.waits == Some(Wait::Answer));
        drop(freed.expect("the family"));
        send(&mut stream, status, &answer);
    }
}

fn send(stream: &mut TcpStream, status: &str, answer: &Value) {
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    // The client may be dead.
    let _ = stream.write_all((head + &answer).as_bytes());
}

/// The body of a request with a content length.
fn request(stream: &mut TcpStream) -> Value {
    stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a socket");
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            if length.is_some_and(|length: usize| body.len() >= length) {
                let at = memchr::memmem::find(&bytes, b"\r\n\r\n").expect("the end of the head");
                return serde_json::from_slice(bytes.get(at + 4..).unwrap_or_default()).unwrap_or_default();
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return Value::Null,
            Ok(read) => bytes.extend_from_slice(piece.get(..read).unwrap_or_default()),
        }
    }
}
