//! Scrubbing of answer bodies.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::decode::{Chain, DecodeError, Pulled};
use super::headers::scrub_headers;
use super::needles::{Length, Needles};
use super::plan::{BodyScrub, Search, is_digest};
use super::stream::Stream;
use crate::fields::only;

/// How many steps without output one poll may take before it yields to other tasks.
const STEPS_PER_POLL: u32 = 64;

type BodyError = Box<dyn Error + Send + Sync>;

/// A body on its way to the container: decoded if it was encoded, and without real values, even in
/// its trailers.
///
/// A frame of text without a value is passed on unchanged; decoded frames have at most 32 KiB. The
/// body fails at the point where its data cannot be decoded.
pub(crate) struct Scrubbed<B> {
    inner: B,
    searched: Option<Box<Searched>>,
}

struct Searched {
    needles: Arc<Needles>,
    decoding: Decoding,
    text: Stream,
    length: Length,
    /// Received data that is not processed yet.
    input: Bytes,
    state: ReadState,
    replaced: Arc<AtomicU32>,
}

enum Decoding {
    None,
    /// The decoders are created when the first bytes arrive.
    Ready(Search),
    Open(Chain),
}

enum ReadState {
    /// Nothing has arrived.
    Fresh,
    Open,
    /// The upstream has sent everything; these trailers come last.
    Received(Option<HeaderMap>),
    /// Only the trailers are left.
    Over(Option<HeaderMap>),
}

/// The result of [`Searched::next`].
enum Next {
    Frame(Frame<Bytes>),
    End,
    /// More input is needed.
    Hungry,
    /// The steps are used up: other tasks have their turn.
    Tired,
}

impl<B> Scrubbed<B> {
    /// Processes `inner` according to `plan`, and adds the number of replaced values to `replaced`.
    pub(crate) fn new(inner: B, plan: BodyScrub, replaced: Arc<AtomicU32>) -> Self {
        let searched = match plan {
            BodyScrub::Pass => None,
            BodyScrub::Search(search) => Some(Box::new(Searched::new(search, replaced))),
        };
        Self { inner, searched }
    }
}

impl<B> Body for Scrubbed<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let Some(searched) = &mut this.searched else {
            return Pin::new(&mut this.inner).poll_frame(cx).map_err(Into::into);
        };
        let mut steps = STEPS_PER_POLL;
        while let Some(left) = steps.checked_sub(1) {
            steps = left;
            match searched.next(&mut steps) {
                Ok(Next::Frame(frame)) => return Poll::Ready(Some(Ok(frame))),
                Ok(Next::End) => return Poll::Ready(None),
                Ok(Next::Tired) => break,
                Ok(Next::Hungry) => {}
                Err(error) => return Poll::Ready(Some(Err(searched.fail(error)))),
            }
            match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                None => searched.state = ReadState::Received(None),
                Some(Ok(frame)) => searched.receive(frame, this.inner.is_end_stream()),
                Some(Err(error)) => return Poll::Ready(Some(Err(searched.fail(error)))),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        match self.searched.as_ref().map(|searched| &searched.state) {
            None | Some(ReadState::Fresh) => self.inner.is_end_stream(),
            Some(ReadState::Open | ReadState::Received(_)) => false,
            Some(ReadState::Over(trailers)) => trailers.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.searched {
            None => self.inner.size_hint(),
            Some(searched) if searched.length == Length::Fixed => {
                let own = (searched.text.held() + searched.input.len()) as u64;
                let inner = self.inner.size_hint();
                let mut hint = SizeHint::new();
                hint.set_lower(inner.lower().saturating_add(own));
                if let Some(upper) = inner.upper().and_then(|upper| upper.checked_add(own)) {
                    hint.set_upper(upper);
                }
                hint
            }
            Some(_) => SizeHint::default(),
        }
    }
}

impl Searched {
    fn new(search: Search, replaced: Arc<AtomicU32>) -> Self {
        Self {
            needles: Arc::clone(&search.needles),
            text: Stream::new(Arc::clone(&search.needles), search.length),
            length: search.length,
            decoding: if search.codings.is_empty() { Decoding::None } else { Decoding::Ready(search) },
            input: Bytes::new(),
            state: ReadState::Fresh,
            replaced,
        }
    }

    /// Takes a frame; `last` means that none follows.
    fn receive(&mut self, frame: Frame<Bytes>, last: bool) {
        self.state = if last { ReadState::Received(None) } else { ReadState::Open };
        match frame.into_data() {
            Ok(data) => self.input = data,
            Err(frame) => self.state = ReadState::Received(frame.into_trailers().ok()),
        }
    }

    /// Ends the body with `error`.
    fn fail(&mut self, error: impl Into<BodyError>) -> BodyError {
        self.state = ReadState::Over(None);
        error.into()
    }

    fn next(&mut self, steps: &mut u32) -> Result<Next, DecodeError> {
        loop {
            if let ReadState::Over(trailers) = &mut self.state {
                let trailers = trailers.take();
                return Ok(trailers.map_or(Next::End, |trailers| Next::Frame(self.trailers(trailers))));
            }
            let pulled = self.decoded(steps)?;
            let received = matches!(self.state, ReadState::Received(_));
            let (output, replaced) = match pulled {
                Pulled::Tired => return Ok(Next::Tired),
                Pulled::Hungry if !received => return Ok(Next::Hungry),
                Pulled::Hungry => self.end(Bytes::new())?,
                Pulled::Data(data) if received && !self.is_encoded() => self.end(data)?,
                Pulled::Data(data) => self.text.push(data),
            };
            self.replaced.fetch_add(replaced, Ordering::Relaxed);
            if !output.is_empty() {
                return Ok(Next::Frame(Frame::data(output)));
            }
        }
    }

    /// The next piece of the decoded text.
    fn decoded(&mut self, steps: &mut u32) -> Result<Pulled, DecodeError> {
        let input = std::mem::take(&mut self.input);
        if let (Decoding::Ready(search), false) = (&self.decoding, input.is_empty()) {
            self.decoding = Decoding::Open(Chain::new(&search.codings)?);
        }
        match &mut self.decoding {
            Decoding::Open(chain) => {
                if !input.is_empty() {
                    chain.feed(input);
                }
                chain.pull(steps)
            }
            _ if input.is_empty() => Ok(Pulled::Hungry),
            _ => Ok(Pulled::Data(input)),
        }
    }

    /// Ends the text with `data`, and returns the rest of the output.
    fn end(&mut self, data: Bytes) -> Result<(Bytes, u32), DecodeError> {
        if let Decoding::Open(chain) = &mut self.decoding {
            chain.finish()?;
        }
        let trailers = match &mut self.state {
            ReadState::Received(trailers) => trailers.take(),
            _ => None,
        };
        self.state = ReadState::Over(trailers);
        Ok(self.text.push_last(data))
    }

    fn trailers(&self, mut trailers: HeaderMap) -> Frame<Bytes> {
        if self.is_encoded() {
            trailers = only(&trailers, |name| !is_digest(name));
        }
        let (trailers, replaced) = scrub_headers(&self.needles, trailers);
        self.replaced.fetch_add(replaced, Ordering::Relaxed);
        Frame::trailers(trailers)
    }

    fn is_encoded(&self) -> bool {
        !matches!(self.decoding, Decoding::None)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io;

    use futures_util::task::noop_waker;
    use http::header::CONTENT_ENCODING;
    use http::{HeaderValue, Method, StatusCode};
    use proptest::prelude::*;
    use sandbox_credentials::SecretValue;

    use super::super::decode::{Coding, encode};
    use super::super::plan::plan_body;
    use super::*;

    const REAL: &str = "ghp_0123456789abcdefghijABCDEFGHIJ";
    const SURROGATE: &str = "ghp_9081726354qwertyuiopQWERTYUIOP";
    const NAMES: [(&str, Coding); 4] = [
        ("gzip", Coding::Gzip),
        ("deflate", Coding::Deflate),
        ("br", Coding::Brotli),
        ("zstd", Coding::Zstd),
    ];

    /// One step of a scripted upstream.
    enum Sent {
        Data(Bytes),
        /// No data for now.
        Pause,
        Trailers(HeaderMap),
        Reset,
    }

    struct Script {
        sent: VecDeque<Sent>,
        /// Whether the last frame is known to be the last.
        announced: bool,
    }

    impl Body for Script {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            match self.sent.pop_front() {
                None => Poll::Ready(None),
                Some(Sent::Pause) => Poll::Pending,
                Some(Sent::Data(data)) => Poll::Ready(Some(Ok(Frame::data(data)))),
                Some(Sent::Trailers(trailers)) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Some(Sent::Reset) => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
            }
        }

        fn is_end_stream(&self) -> bool {
            self.announced && self.sent.is_empty()
        }
    }

    fn scrubbed(encoding: &str, sent: Vec<Sent>, announced: bool) -> (Scrubbed<Script>, Arc<AtomicU32>) {
        let needles = Needles::new([(SecretValue::new(REAL), SURROGATE.to_owned())]);
        let mut headers = HeaderMap::new();
        headers.append(CONTENT_ENCODING, HeaderValue::from_str(encoding).unwrap());
        let plan = plan_body(&Arc::new(needles), &Method::GET, StatusCode::OK, false, &mut headers).unwrap();
        let counter = Arc::new(AtomicU32::new(0));
        let script = Script { sent: sent.into(), announced };
        (Scrubbed::new(script, plan, Arc::clone(&counter)), counter)
    }

    type Polled = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

    fn poll(body: &mut Scrubbed<Script>) -> Polled {
        Pin::new(body).poll_frame(&mut Context::from_waker(&noop_waker()))
    }

    /// Reads the data up to the end, and the trailers.
    fn read(body: &mut Scrubbed<Script>) -> Result<(Vec<u8>, Option<HeaderMap>), BodyError> {
        let (mut data, mut trailers) = (Vec::new(), None);
        while !body.is_end_stream() {
            match poll(body) {
                Poll::Pending => {}
                Poll::Ready(None) => break,
                Poll::Ready(Some(Err(error))) => return Err(error),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(piece) => data.extend_from_slice(&piece),
                    Err(frame) => trailers = frame.into_trailers().ok(),
                },
            }
        }
        Ok((data, trailers))
    }

    fn data(polled: Polled) -> Bytes {
        match polled {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap(),
            other => panic!("no data: {other:?}"),
        }
    }

    #[test]
    fn event_is_passed_on_in_the_poll_that_receives_it() {
        let events = [format!("data: {REAL}\n\n"), "data: two\n\n".to_owned()];
        let expected = [format!("data: {SURROGATE}\n\n"), "data: two\n\n".to_owned()];
        let pieces = events.each_ref().map(String::as_bytes);
        let plain = ("identity", pieces.map(<[u8]>::to_vec).to_vec());
        let encoded = NAMES.map(|(name, coding)| (name, encode(coding, &pieces)));
        for (name, chunks) in encoded.into_iter().chain([plain]) {
            let sent = chunks.into_iter().flat_map(|chunk| [Sent::Data(chunk.into()), Sent::Pause]).collect();
            let (mut body, counter) = scrubbed(name, sent, false);
            for event in &expected {
                assert_eq!(data(poll(&mut body)), *event, "{name}");
                assert!(poll(&mut body).is_pending());
            }
            assert_eq!(read(&mut body).unwrap().0, b"", "{name}");
            assert_eq!(counter.load(Ordering::Relaxed), 1);
        }
    }

    #[test]
    fn known_end_is_reported_with_the_last_frame() {
        let (mut body, _) = scrubbed("", vec![Sent::Data(format!("a:{REAL}").into())], true);
        assert!(!body.is_end_stream());
        assert_eq!(data(poll(&mut body)), format!("a:{SURROGATE}"));
        assert!(body.is_end_stream());
        let (body, _) = scrubbed("gzip", Vec::new(), true);
        assert!(body.is_end_stream());
    }

    #[test]
    fn trailers_are_scrubbed_and_come_last() {
        let trailers = || {
            let mut trailers = HeaderMap::new();
            trailers.append("x-echo", HeaderValue::from_static(REAL));
            trailers.append("x-amz-checksum-crc32", HeaderValue::from_static("AAAAAA=="));
            trailers
        };
        let text = format!("a:{REAL}");
        let gzip = encode(Coding::Gzip, &[text.as_bytes()]).concat();
        for (name, chunk, left) in [("", text.clone().into_bytes(), 2), ("gzip", gzip, 1)] {
            let sent = vec![Sent::Data(chunk.into()), Sent::Trailers(trailers())];
            let (mut body, counter) = scrubbed(name, sent, false);
            let (data, trailers) = read(&mut body).unwrap();
            let trailers = trailers.unwrap();
            assert_eq!(data, format!("a:{SURROGATE}").as_bytes());
            assert_eq!((trailers["x-echo"].as_bytes(), trailers.len()), (SURROGATE.as_bytes(), left));
            assert_eq!(counter.load(Ordering::Relaxed), 2);
            assert!(matches!(poll(&mut body), Poll::Ready(None)));
        }
    }

    #[test]
    fn body_ends_after_an_error() {
        for (name, sent) in [
            ("", vec![Sent::Data("text".into()), Sent::Reset]),
            ("gzip", vec![Sent::Data(REAL.into()), Sent::Data(REAL.into())]),
            ("gzip", vec![Sent::Data(encode(Coding::Gzip, &[b"x"])[0].clone().into())]),
        ] {
            let (mut body, _) = scrubbed(name, sent, false);
            read(&mut body).unwrap_err();
            assert!(matches!(poll(&mut body), Poll::Ready(None)));
        }
    }

    #[test]
    fn body_of_many_small_frames_yields() {
        let sent = (0..200).map(|_| Sent::Data("x".into())).collect();
        let (mut body, _) = scrubbed("", sent, false);
        assert!(poll(&mut body).is_pending());
        assert_eq!(read(&mut body).unwrap().0.len(), 200);
    }

    #[test]
    fn announced_length_is_kept() {
        let needles = Needles::new([(SecretValue::new(REAL), "shorter".to_owned())]);
        let mut headers = HeaderMap::new();
        let text = format!("a:{REAL}:{REAL}");
        headers.append("content-length", HeaderValue::from(text.len()));
        let plan = plan_body(&Arc::new(needles), &Method::GET, StatusCode::OK, false, &mut headers).unwrap();
        let inner = http_body_util::Full::new(Bytes::from(text.clone()));
        let mut body = Scrubbed::new(inner, plan, Arc::default());
        assert_eq!(body.size_hint().exact(), Some(text.len() as u64));
        let polled = Pin::new(&mut body).poll_frame(&mut Context::from_waker(&noop_waker()));
        assert_eq!(data(polled).len(), text.len());
        assert_eq!(body.size_hint().exact(), Some(0));
    }

    proptest! {
        #[test]
        fn every_value_is_replaced_in_any_coding_and_split(
            pieces in prop::collection::vec(prop_oneof![Just(REAL.to_owned()), "[ -~\n]{0,60}", Just(REAL[..20].to_owned())], 0..12),
            codings in prop::collection::vec(prop::sample::select(NAMES.to_vec()), 0..=3),
            size in 1_usize..60,
            announced in any::<bool>(),
        ) {
            let text = pieces.concat();
            let encoded = codings.iter().fold(text.clone().into_bytes(), |data, (_, coding)| encode(*coding, &[&data]).concat());
            let chunks = encoded.chunks(size).flat_map(|chunk| [Sent::Pause, Sent::Data(Bytes::copy_from_slice(chunk))]);
            let encoding: Vec<&str> = codings.iter().map(|(name, _)| *name).collect();
            let (mut body, counter) = scrubbed(&encoding.join(", "), chunks.collect(), announced);
            let (data, _) = read(&mut body).unwrap();
            prop_assert_eq!(String::from_utf8(data).unwrap(), text.replace(REAL, SURROGATE));
            prop_assert_eq!(counter.load(Ordering::Relaxed) as usize, text.matches(REAL).count());
        }
    }
}
