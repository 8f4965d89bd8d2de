//! One record as a line of `network-sandbox.jsonl`.

use std::io;

use sandbox_proxy_protocol::{Event, Record, RequestOutcome};
use serde::{Deserialize, Serialize};
use serde_json::ser::{CharEscape, Formatter};

use crate::{ocsf, timestamp};

/// The version of the schema. It is incremented when a field changes its meaning or is removed, not
/// when one is added.
const VERSION: u32 = 1;

/// One event of the network log.
///
/// As JSON: `{"v":1,"time":"2026-02-03T12:34:56.789Z","event":"dns","kind":"A",…}`. Strings from
/// the container are unchanged; on disk everything that is not printable ASCII is escaped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogEntry {
    v: u32,
    /// When it ended, RFC 3339 with milliseconds, UTC.
    pub time: String,
    /// The event itself.
    #[serde(flatten)]
    pub event: Event,
    /// The number of repetitions that this entry represents: of identical refusals, the first ten
    /// have an entry each. 0, which is not written, for the entry of one event.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A line that is not an entry of a known version.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidLogEntry {
    /// It is not JSON of an entry.
    #[error("not an entry of a network log")]
    Malformed(#[from] serde_json::Error),
    /// It is of another version.
    #[error("an entry of version {0} of the network log's schema; this program reads version {VERSION}")]
    Version(u32),
}

impl LogEntry {
    /// The entry of a line; a newline at its end is accepted.
    ///
    /// # Errors
    ///
    /// If it is not an entry, or has another version.
    pub fn parse(line: &str) -> Result<Self, InvalidLogEntry> {
        #[derive(Deserialize)]
        struct Versioned {
            v: u32,
        }
        // The version first: an entry of another version may have another form.
        let Versioned { v } = serde_json::from_str(line)?;
        if v != VERSION {
            return Err(InvalidLogEntry::Version(v));
        }
        Ok(serde_json::from_str(line)?)
    }

    /// Whether something was refused: a request by the policy or a limit, a connection to a
    /// service, a TLS connection, or a port.
    #[must_use]
    pub fn blocked(&self) -> bool {
        match &self.event {
            Event::Request(request) => request.decision == RequestOutcome::Blocked,
            Event::Stream(stream) => stream.decision == RequestOutcome::Blocked,
            Event::TlsRefused { .. } | Event::PortRefused { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn of(record: &Record) -> Self {
        Self {
            v: VERSION,
            time: timestamp::milliseconds(record.at_ms),
            event: record.event.clone(),
            repeated: 0,
        }
    }

    /// The same entry, for `repeated` repetitions.
    pub(crate) fn repeated(self, repeated: u64) -> Self {
        Self { repeated, ..self }
    }

    /// The line of the JSON file in printable ASCII, newline included.
    ///
    /// # Errors
    ///
    /// If the entry has no JSON form. Every entry that was read or logged has one.
    pub fn to_line(&self) -> io::Result<String> {
        printable(self)
    }

    /// The entry as an event of the Open Cybersecurity Schema Framework, 1.8.0, in the same form: a
    /// request is of the class HTTP Activity, a query of DNS Activity, a connection of Network
    /// Activity, and everything else a Base Event. `raw_data` has the fields of the entry
    /// that this version knows.
    ///
    /// # Errors
    ///
    /// As [`to_line`](Self::to_line).
    pub fn to_ocsf_line(&self) -> io::Result<String> {
        printable(&ocsf::event(self))
    }
}

fn printable(value: &impl Serialize) -> io::Result<String> {
    let mut line = Vec::with_capacity(256);
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut line, PrintableAscii))?;
    line.push(b'\n');
    String::from_utf8(line).map_err(io::Error::other)
}

/// Compact JSON in printable ASCII, because people look at it with `cat`.
struct PrintableAscii;

impl Formatter for PrintableAscii {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut units = [0; 2];
        for c in fragment.chars() {
            if c == ' ' || c.is_ascii_graphic() {
                writer.write_all(&[c as u8])?;
            } else {
                for unit in c.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        serde_json::ser::CompactFormatter.write_char_escape(writer, escape)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sandbox_proxy_protocol::{
        DnsAnswer, OpenRequest, OpenStream, PolicyChange, PolicyState, PortProtocol, RequestRecord, Scheme,
        StreamRecord, TunnelRecord,
    };

    use super::*;

    fn queried(name: &str) -> LogEntry {
        let answer = DnsAnswer::Nodata;
        LogEntry::of(&Record {
            at_ms: 1_770_122_096_789,
            event: Event::Dns { kind: "AAAA".to_owned(), name: name.to_owned(), answer },
        })
    }

    #[test]
    fn entry_has_version_and_time() {
        assert_eq!(
            queried("a.b").to_line().unwrap(),
            concat!(
                r#"{"v":1,"time":"2026-02-03T12:34:56.789Z","event":"dns","kind":"AAAA","name":"a.b","answer":"nodata"}"#,
                "\n"
            )
        );
    }

    /// Other programs read these lines: a changed one needs a new version.
    #[test]
    fn each_kind_of_event_is_written_as_version_1_has_it() {
        let mut request =
            RequestRecord::asked("GET".to_owned(), Scheme::Https, "a.b".to_owned(), "/c?d".to_owned());
        request.reason = Some(allowlist::Reason::Host.into());
        let tunnel = TunnelRecord {
            scheme: Scheme::Http,
            host: "a.b".to_owned(),
            target: "/".to_owned(),
            bytes_up: 1,
            bytes_down: 2,
            duration_ms: 3,
        };
        let refused = Event::TlsRefused {
            server_name: Some("a.b".to_owned()),
            alert: "unknown_ca".to_owned(),
            reason: None,
        };
        let open = Event::RequestOpen(OpenRequest {
            method: "PUT".to_owned(),
            scheme: Scheme::Https,
            host: "a.b".to_owned(),
            target: "/c".to_owned(),
        });
        let stream = Event::Stream(StreamRecord {
            decision: RequestOutcome::Allowed,
            service: "db".to_owned(),
            port: 5432,
            reason: None,
            error: None,
            bytes_up: 1,
            bytes_down: 2,
            duration_ms: 3,
        });
        let stream_open = Event::StreamOpen(OpenStream { service: "db".to_owned(), port: 5432 });
        let limit = Event::Limit { limit: "requests".to_owned(), count: 4 };
        let port = Event::PortRefused { protocol: PortProtocol::Udp, port: 443 };
        let warning = Event::Warning { text: "x".to_owned() };
        let policy = Event::Policy {
            change: PolicyChange::Down,
            state: PolicyState::Down,
            until_ms: Some(1_770_122_696_789),
        };
        for (event, expected) in [
            (policy, r#""event":"policy","change":"down","state":"down","until_ms":1770122696789}"#),
            (Event::TaskStart, r#""event":"task_start"}"#),
            (
                Event::Request(request),
                concat!(
                    r#""event":"request","decision":"blocked","method":"GET","scheme":"https","host":"a.b","target":"/c?d","#,
                    r#""status":null,"rule":null,"reason":"host","error":null,"masked":0,"dropped":0,"scrubbed":0,"region":null,"#,
                    r#""bytes_up":0,"bytes_down":0,"first_byte_ms":null,"duration_ms":0}"#
                ),
            ),
            (
                Event::Tunnel(tunnel),
                r#""event":"tunnel","scheme":"http","host":"a.b","target":"/","bytes_up":1,"bytes_down":2,"duration_ms":3}"#,
            ),
            (refused, r#""event":"tls_refused","server_name":"a.b","alert":"unknown_ca","reason":null}"#),
            (open, r#""event":"request_open","method":"PUT","scheme":"https","host":"a.b","target":"/c"}"#),
            (stream_open, r#""event":"stream_open","service":"db","port":5432}"#),
            (
                stream,
                concat!(
                    r#""event":"stream","decision":"allowed","service":"db","port":5432,"reason":null,"error":null,"#,
                    r#""bytes_up":1,"bytes_down":2,"duration_ms":3}"#
                ),
            ),
            (port, r#""event":"port_refused","protocol":"udp","port":443}"#),
            (limit, r#""event":"limit","limit":"requests","count":4}"#),
            (warning, r#""event":"warning","text":"x"}"#),
        ] {
            let line = LogEntry::of(&Record { at_ms: 0, event }).to_line().unwrap();
            let (_, written) = line.trim_end().split_once("Z\",").unwrap();
            assert_eq!(written, expected);
        }
    }

    #[test]
    fn repeat_count_is_an_additional_field() {
        let entry = queried("a.b").repeated(26);
        let line = entry.to_line().unwrap();
        assert!(line.ends_with(",\"answer\":\"nodata\",\"repeated\":26}\n"), "{line}");
        assert_eq!(LogEntry::parse(&line).unwrap(), entry);
        let one = queried("a.b").to_line().unwrap();
        assert_eq!(LogEntry::parse(&one).unwrap().repeated, 0);
    }

    #[test]
    fn other_versions_and_lines_are_errors() {
        assert!(matches!(LogEntry::parse(r#"{"v":2,"what":"ever"}"#), Err(InvalidLogEntry::Version(2))));
        for line in ["", "{}", r#"{"v":1}"#, "DNS A x -> y", r#"{"v":1,"time":"t","event":"unheard of"}"#] {
            assert!(matches!(LogEntry::parse(line), Err(InvalidLogEntry::Malformed(_))), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_text_makes_one_printable_line_and_comes_back(name in any::<String>()) {
            let entry = queried(&name);
            let line = entry.to_line().unwrap();
            prop_assert!(line.trim_end_matches('\n').bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
            prop_assert_eq!(LogEntry::parse(&line).unwrap(), entry);
        }
    }
}
