//! Well-framed and badly framed heads and bodies of clients.

use proptest::prelude::*;

use super::*;

const LIMITS: HeadLimits = HeadLimits { bytes: 256, headers: 8, time: Duration::from_secs(5) };

/// A stream that yields its bytes in pieces of the given sizes; 0 is a pause.
struct Pieces {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
}

impl AsyncRead for Pieces {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let size = this.sizes.pop().unwrap_or(usize::MAX);
        if size == 0 {
            return Poll::Pending;
        }
        let taken = size.min(this.bytes.len()).min(buffer.remaining());
        buffer.put_slice(&this.bytes[..taken]);
        this.bytes.drain(..taken);
        Poll::Ready(Ok(()))
    }
}

/// The bytes that hyper would get if a client sent `bytes`, and how the connection ended.
fn through(bytes: &[u8], sizes: &[usize]) -> (Vec<u8>, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    let framing = Arc::new(Framing::default());
    let stream = Pieces { bytes: bytes.to_vec(), sizes: sizes.to_vec() };
    let mut framed = Framed::new(stream, LIMITS, Arc::clone(&framing));
    let mut context = Context::from_waker(Waker::noop());
    let mut got = Vec::new();
    loop {
        let mut space = [0; 7];
        let mut buffer = ReadBuf::new(&mut space);
        match Pin::new(&mut framed).poll_read(&mut context, &mut buffer) {
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => return (got, "end".to_owned()),
            Poll::Ready(Ok(())) => got.extend_from_slice(buffer.filled()),
            Poll::Ready(Err(error)) => return (got, error.kind().to_string()),
            Poll::Pending => {
                if let Some((head, Note::Refused(refused))) = framing.notes.lock().unwrap().back() {
                    return (got, format!("{head}: {}", refused.error));
                }
            }
        }
    }
}

#[test]
fn good_messages_pass_unchanged() {
    let messages = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\na: b\r\n\r\n",
    ]
    .concat()
    .repeat(3);
    assert_eq!(through(messages.as_bytes(), &[]), (messages.clone().into_bytes(), "end".to_owned()));
}

#[test]
fn bad_head_is_replaced_and_nothing_follows() {
    let good = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let (got, end) = through(format!("{good}HEAD / HTTP/1.1\nHost: a\n\n{good}").as_bytes(), &[]);
    assert_eq!(
        String::from_utf8(got).unwrap(),
        format!("{good}HEAD / HTTP/1.1\r\nconnection: close\r\n\r\n")
    );
    assert_eq!(end, "2: a line of the request head ends without a carriage return");
}

#[test]
fn raw_target_is_percent_encoded_for_hyper() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    let head = "GET /?\"a\" HTTP/1.1\r\nHost: a\r\n\r\n";
    let framing = Arc::new(Framing::default());
    let stream =
        Pieces { bytes: format!("{}{head}{head}", "GET / HTTP/1.1\r\n\r\n").into_bytes(), sizes: Vec::new() };
    let mut framed = Framed::new(stream, LIMITS, Arc::clone(&framing));
    let mut got = Vec::new();
    let read = std::pin::pin!(tokio::io::AsyncReadExt::read_to_end(&mut framed, &mut got));
    assert!(read.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    let stand_in = head.replace('"', "%22");
    assert_eq!(String::from_utf8(got).unwrap(), format!("GET / HTTP/1.1\r\n\r\n{stand_in}{stand_in}"));
    assert!(framing.take_note(1).is_none());
    for head in [2, 3] {
        assert!(matches!(framing.take_note(head), Some(Note::Target(target)) if target == b"/?\"a\""));
    }
    assert!(framing.take_note(4).is_none());
    // The percent-encoded target counts towards the limit.
    let (_, end) = through(format!("GET /?{} HTTP/1.1\r\n\r\n", "\"".repeat(100)).as_bytes(), &[]);
    assert_eq!(end, "1: the request head is longer than this proxy accepts");
}

#[test]
fn bytes_after_a_body_are_read_as_a_head() {
    for (length, body) in
        [("Content-Length: 5", "hello"), ("Transfer-Encoding: chunked", "1\r\na\r\n0\r\n\r\n")]
    {
        let head = format!("POST / HTTP/1.1\r\n{length}\r\n\r\n");
        let bytes = format!("{head}{body}GET / HTTP/1.1\nHost: b\n\n");
        // The body and the next head arrive with the first head, or separately.
        for sizes in [&[][..], &[usize::MAX, head.len()]] {
            let (got, end) = through(bytes.as_bytes(), sizes);
            assert_eq!(
                String::from_utf8(got).unwrap(),
                format!("{head}{body}GET / HTTP/1.1\r\nconnection: close\r\n\r\n")
            );
            assert!(end.starts_with("2: "), "{end}");
        }
    }
}

#[test]
fn bad_chunk_ends_the_connection_before_it() {
    let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
    let (got, end) = through(format!("{head}zz\r\n").as_bytes(), &[]);
    assert_eq!((String::from_utf8(got).unwrap(), end.as_str()), (head.to_owned(), "invalid data"));
}

#[test]
fn bytes_after_an_upgrade_request_are_withheld() {
    let head = "GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(
        through(format!("{head}\x01\x02").as_bytes(), &[]),
        (head.as_bytes().to_vec(), "end".to_owned())
    );
}

proptest! {
    /// The split of the bytes changes neither the bytes that pass nor the end, and nothing passes
    /// that was not sent.
    #[test]
    fn split_does_not_change_what_passes(
        messages in "(GET / HTTP/1\\.1\r\n|Host: a\r\n|Content-Length: [0-4]\r\n|Transfer-Encoding: chunked\r\n|Upgrade: x\r\n|\r\n|\n|[0-3]\r\n|abc|\r|x: y\r\n| |0\r\n\r\n){0,20}",
        sizes in proptest::collection::vec(0usize..30, 0..20),
    ) {
        let whole = through(messages.as_bytes(), &[]);
        prop_assert_eq!(&through(messages.as_bytes(), &sizes), &whole);
        let (passed, end) = whole;
        if !end.contains(':') {
            // Empty lines before a head are dropped.
            let squeeze = |text: &str| text.replace("\r\n", "");
            let passed = String::from_utf8(passed).unwrap();
            prop_assert!(squeeze(&messages).starts_with(&squeeze(&passed)), "{passed:?}");
        }
    }
}
