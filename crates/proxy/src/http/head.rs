//! Reads the head of an HTTP/1 request in addition to hyper, and more strictly.
//!
//! hyper lets `Transfer-Encoding` win over `Content-Length`, accepts bare line feeds and merges
//! equal lengths. Each of these lets two readers disagree on where a message ends, so each is
//! refused here, before hyper sees a byte of the message.

use std::borrow::Cow;
use std::ops::Range;

use http::Uri;

/// Maximum bytes of each part of a refused head that are kept for the record.
const EXCERPT: usize = 2048;

/// How the body after a head is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// By its length, which may be 0.
    Length(u64),
    /// In chunks.
    Chunked,
}

/// The facts about a good head that the reader of the connection needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// How to find the end of the message.
    pub(super) body: Body,
    /// Whether the request asks for another protocol, so that the meaning of the next bytes depends
    /// on the response.
    pub(super) upgrade: bool,
    /// The position of the target, if hyper must get its [`stand_in`] instead.
    pub(super) raw_target: Option<Range<usize>>,
}

/// Why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeadError {
    /// More bytes than the limit.
    #[error("the request head is longer than this proxy accepts")]
    TooLarge,
    /// More lines than the limit.
    #[error("the request has more headers than this proxy accepts")]
    TooManyHeaders,
    /// The end did not arrive in time.
    #[error("the request head did not arrive in time")]
    Late,
    /// The target contains a character that no URL contains.
    #[error("the request target contains a character that must be percent-encoded")]
    Target,
    /// The bytes are not a head that everyone reads alike.
    #[error("{0}")]
    Malformed(&'static str),
}

/// A refused head, and the parts of it for the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefusedHead {
    /// Why it is refused.
    pub(super) error: HeadError,
    /// The method, if enough of the first line arrived.
    pub(super) method: String,
    /// The target, likewise.
    pub(super) target: String,
    /// The value of the first `Host` line.
    pub(super) host: String,
}

impl RefusedHead {
    /// Describes the part that has arrived of a head that is refused for `error`.
    pub(super) fn new(error: HeadError, bytes: &[u8]) -> Self {
        let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        let first = lines.next().unwrap_or_default();
        let (method, target) = match split_request_line(first) {
            Some((method, target, _)) => (method, target),
            None => (first.split(|byte| *byte == b' ').next().unwrap_or_default(), &[][..]),
        };
        let host = lines.find_map(|line| header(line).filter(|(name, _)| name.eq_ignore_ascii_case(b"host")));
        Self {
            error,
            method: excerpt(method),
            target: excerpt(target),
            host: excerpt(host.map_or(&[], |(_, value)| value)),
        }
    }
}

/// Reads a complete head: every line ends in CRLF, and the last one is empty.
pub(super) fn read(bytes: &[u8], max_headers: usize) -> Result<Head, HeadError> {
    let malformed = HeadError::Malformed;
    let text = bytes.strip_suffix(b"\r\n\r\n").ok_or(malformed("the request head has no end"))?;
    let mut lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let line = request_line(lines.next().unwrap_or_default())?;
    let mut fields = Fields::default();
    for (count, line) in lines.enumerate() {
        if count >= max_headers {
            return Err(HeadError::TooManyHeaders);
        }
        fields.add(line)?;
    }
    fields.finish(line)
}

/// `target` in a form that hyper accepts: `"`, `<` and `>` in a query are percent-encoded. Clients
/// send them as they are, and so must we.
pub(super) fn stand_in(target: &[u8]) -> Cow<'_, [u8]> {
    let (path, query) = split_target(target);
    if !query.iter().any(|byte| b"\"<>".contains(byte)) {
        return Cow::Borrowed(target);
    }
    let mut encoded = path.to_vec();
    for byte in query {
        match byte {
            b'"' => encoded.extend(b"%22"),
            b'<' => encoded.extend(b"%3C"),
            b'>' => encoded.extend(b"%3E"),
            other => encoded.push(*other),
        }
    }
    Cow::Owned(encoded)
}

/// Path and query, the latter with its `?`.
fn split_target(target: &[u8]) -> (&[u8], &[u8]) {
    let query = target.iter().position(|byte| *byte == b'?');
    target.split_at(query.unwrap_or(target.len()))
}

/// The contents of a good first line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RequestLine {
    /// HTTP/1.1 rather than HTTP/1.0.
    http11: bool,
    /// See [`Head::raw_target`].
    raw_target: Option<Range<usize>>,
}

/// Whether a head can begin with `byte`: a client that speaks another protocol is detected at once.
pub(super) fn begins_head(byte: u8) -> bool {
    is_token(byte) || matches!(byte, b'\r' | b'\n' | b' ')
}

/// Checks the first line.
fn request_line(line: &[u8]) -> Result<RequestLine, HeadError> {
    let malformed = HeadError::Malformed("the request line is not `METHOD target HTTP/1.1`");
    let (method, target, version) = split_request_line(line).ok_or(malformed)?;
    if method.is_empty() || !method.iter().copied().all(is_token) {
        return Err(malformed);
    }
    let http11 = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        _ => return Err(malformed),
    };
    let (path, query) = split_target(target);
    let in_query = |byte: &u8| byte.is_ascii_graphic() || !byte.is_ascii();
    let stand_in = stand_in(target);
    // A `#` is never forwarded: hyper would cut the target there, and forward a different one than
    // the rules saw.
    if !path.iter().all(u8::is_ascii_graphic)
        || !query.iter().all(in_query)
        || target.contains(&b'#')
        || Uri::try_from(stand_in.as_ref()).is_err()
    {
        return Err(HeadError::Target);
    }
    let start = method.len() + 1;
    let raw_target = matches!(stand_in, Cow::Owned(_)).then(|| start..start + target.len());
    Ok(RequestLine { http11, raw_target })
}

/// Method, target and version. Everything between the first space and the last is the target.
fn split_request_line(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let first = line.iter().position(|byte| *byte == b' ')?;
    let last = line.iter().rposition(|byte| *byte == b' ')?;
    Some((line.get(..first)?, line.get(first + 1..last)?, line.get(last + 1..)?))
}

/// The header lines that determine where the message ends.
#[derive(Default)]
struct Fields {
    length: Option<u64>,
    chunked: bool,
    upgrade: bool,
}

impl Fields {
    fn add(&mut self, line: &[u8]) -> Result<(), HeadError> {
        let malformed = |text| Err(HeadError::Malformed(text));
        if line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            return malformed("a header line is folded");
        }
        let Some((name, value)) = header(line) else {
            return malformed("a header line has no name");
        };
        if name.is_empty() || !name.iter().copied().all(is_token) {
            return malformed("a header name contains an invalid character");
        }
        if value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return malformed("a header value contains a control character");
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            match (self.length, decimal(value)) {
                (None, Some(length)) => self.length = Some(length),
                (Some(_), _) => return malformed("the request has more than one content-length"),
                (None, None) => return malformed("the content-length is not a number"),
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return malformed("the transfer-encoding is not exactly `chunked`");
            }
            self.chunked = true;
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            self.upgrade = true;
        }
        Ok(())
    }

    fn finish(self, line: RequestLine) -> Result<Head, HeadError> {
        let body = match (self.chunked, self.length) {
            (true, Some(_)) => {
                return Err(HeadError::Malformed(
                    "the request has both a content-length and a transfer-encoding",
                ));
            }
            (true, None) if !line.http11 => {
                return Err(HeadError::Malformed("HTTP/1.0 does not support transfer-encoding"));
            }
            (true, None) => Body::Chunked,
            (false, length) => Body::Length(length.unwrap_or(0)),
        };
        Ok(Head { body, upgrade: self.upgrade && body == Body::Length(0), raw_target: line.raw_target })
    }
}

/// Name and value of a header line.
fn header(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let value = line.get(colon + 1..)?;
    let blank = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let start = value.iter().position(blank).unwrap_or(value.len());
    let end = value.iter().rposition(blank).map_or(start, |last| last + 1);
    Some((line.get(..colon)?, value.get(start..end)?))
}

fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..EXCERPT).unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str) -> Result<Head, HeadError> {
        read(head.as_bytes(), 4)
    }

    #[test]
    fn good_heads_are_read() {
        let cases = [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", Body::Length(0), false),
            ("GET / HTTP/1.0\r\n\r\n", Body::Length(0), false),
            ("GET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\n", Body::Length(0), false),
            ("POST / HTTP/1.1\r\ncontent-length: 12 \r\n\r\n", Body::Length(12), false),
            ("POST / HTTP/1.1\r\nTransfer-Encoding:\tChunked\r\n\r\n", Body::Chunked, false),
            ("GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", Body::Length(0), true),
            ("GET / HTTP/1.1\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\n", Body::Length(1), false),
            ("GET / HTTP/1.1\r\nx: \u{e9}\ty\r\nempty:\r\n\r\n", Body::Length(0), false),
        ];
        for (head, body, upgrade) in cases {
            let raw_target = None;
            assert_eq!(check(head), Ok(Head { body, upgrade, raw_target }), "{head:?}");
        }
    }

    #[test]
    fn ambiguous_framing_is_malformed() {
        let cases = [
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 1",
            "Content-Length: 1\r\nContent-Length: 1",
            "Content-Length: 1, 1",
            "Content-Length: +1",
            "Content-Length: -1",
            "Content-Length: 0x1",
            "Content-Length:",
            "Content-Length: 9999999999999999999999",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: identity",
            "Transfer-Encoding: \u{b}chunked",
            "Transfer-Encoding : chunked",
            "x: a\r\n Transfer-Encoding: chunked",
            "x: a\r\n\tb",
            "x: a\0b",
            ": no name",
            "no colon",
            "x y: z",
            "\u{e9}: z",
        ];
        for lines in cases {
            let head = format!("POST / HTTP/1.1\r\n{lines}\r\n\r\n");
            assert!(matches!(check(&head), Err(HeadError::Malformed(_))), "{head:?}: {:?}", check(&head));
        }
    }

    #[test]
    fn request_lines_are_checked() {
        let malformed = Err(HeadError::Malformed("the request line is not `METHOD target HTTP/1.1`"));
        let cases = [
            ("PRI * HTTP/2.0", malformed),
            ("GET /", malformed),
            ("GET / HTTP/1.2", malformed),
            ("GET / http/1.1", malformed),
            (" GET / HTTP/1.1", malformed),
            ("G(T / HTTP/1.1", malformed),
            ("", malformed),
            ("GET /a b HTTP/1.1", Err(HeadError::Target)),
            ("GET  / HTTP/1.1", Err(HeadError::Target)),
            ("GET /\u{e9} HTTP/1.1", Err(HeadError::Target)),
            ("GET /#a HTTP/1.1", Err(HeadError::Target)),
            ("GET /?a#b HTTP/1.1", Err(HeadError::Target)),
            ("GET /?a=\"b\"&<c>&\u{fc} HTTP/1.1", Ok(true)),
            ("GET /?a b HTTP/1.1", Err(HeadError::Target)),
            ("GET /<a> HTTP/1.1", Err(HeadError::Target)),
            ("GET /\u{7f} HTTP/1.1", Err(HeadError::Target)),
            ("GET  HTTP/1.1", Err(HeadError::Target)),
            ("GET * HTTP/1.1", Ok(true)),
            ("FO!O /%zz HTTP/1.0", Ok(false)),
            ("CONNECT a:443 HTTP/1.1", Ok(true)),
        ];
        for (line, expected) in cases {
            let read = request_line(line.as_bytes()).map(|line| line.http11);
            assert_eq!(read, expected, "{line:?}");
        }
    }

    #[test]
    fn raw_target_has_a_percent_encoded_stand_in() {
        let head = check("GET /a\"?q=\"<b>\" HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(head.raw_target, Some(4..15));
        assert_eq!(stand_in(b"/a\"?q=\"<b>\""), b"/a\"?q=%22%3Cb%3E%22".as_slice());
        assert_eq!(check("GET /a?\u{fc} HTTP/1.1\r\n\r\n").unwrap().raw_target, None);
        assert_eq!(request_line(b"GET /?\xff HTTP/1.1"), Err(HeadError::Target));
    }

    /// The request line can carry every target that the rules accept, so a verdict without a
    /// network equals that of the whole gate.
    #[test]
    fn every_accepted_target_can_be_forwarded() {
        for byte in 0..=255 {
            for target in [&[b'/', byte, b'a'][..], &[b'/', b'?', byte, b'a']] {
                let accepted = allowlist::Target::from_wire(target).is_ok();
                let carried = request_line(&[b"GET ", target, b" HTTP/1.1"].concat()).is_ok();
                assert!(carried || !accepted, "{target:?}");
                let sent = stand_in(target);
                let forwarded = http::uri::PathAndQuery::try_from(sent.as_ref()).ok();
                assert!(
                    !accepted || forwarded.is_some_and(|forwarded| forwarded.as_str().as_bytes() == &*sent)
                );
            }
        }
    }

    #[test]
    fn headers_beyond_the_limit_are_refused() {
        assert_eq!(
            check(&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(5))),
            Err(HeadError::TooManyHeaders)
        );
        assert!(check(&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(4))).is_ok());
    }

    #[test]
    fn refused_head_keeps_the_parts_that_arrived() {
        let refused =
            RefusedHead::new(HeadError::Late, b"GET /a b HTTP/1.1\r\nx: y\r\nHost: a.example \r\nz");
        let found = (refused.method.as_str(), refused.target.as_str(), refused.host.as_str());
        assert_eq!(found, ("GET", "/a b", "a.example"));
        let refused = RefusedHead::new(HeadError::Late, b"SSH-2.0-OpenSSH");
        assert_eq!((refused.method.as_str(), refused.target.as_str()), ("SSH-2.0-OpenSSH", ""));
    }
}
