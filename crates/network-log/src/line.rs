//! One record, one line of `network-sandbox.log`.
//!
//! Other programs rely on the wording. Every field from the container goes through [`escape`], so a
//! record is exactly one line, its words are separated by single spaces, and only this module
//! writes ` [`.

use std::fmt::Write as _;

use sandbox_proxy_protocol::{
    BlockReason, DnsAnswer, Event, PolicyChange, PolicyState, PortProtocol, Record, RequestOutcome,
    RequestRecord, Scheme, StreamRecord, TunnelRecord, Verdict,
};

use crate::escape;
use crate::timestamp;

/// The line of `record`, without a newline.
pub(crate) fn render(record: &Record) -> String {
    match &record.event {
        Event::TaskStart => format!("=== TASK START {} ===", timestamp::seconds(record.at_ms)),
        Event::Dns { kind, name, answer } => {
            format!("DNS {} {} -> {}", escape::word(kind), queried(name), answered(answer))
        }
        Event::RequestOpen(open) => format!(
            "open {} {} -> in progress",
            escape::word(&open.method),
            url(open.scheme, &open.host, &open.target)
        ),
        Event::Asked { question, request } => format!(
            "ASKED {} {} -> question {question}",
            escape::word(&request.method),
            url(request.scheme, &request.host, &request.target)
        ),
        Event::Answered { question, verdict, by } => format!(
            "ANSWERED question {question} -> {} [by: {}]",
            match verdict {
                Some(Verdict::Once) => "once",
                Some(Verdict::Run) => "run",
                Some(Verdict::Always) => "always",
                Some(Verdict::No) => "no",
                None => "-",
            },
            escape::text(by)
        ),
        Event::Request(request) => self::request(request),
        Event::Tunnel(tunnel) => self::tunnel(tunnel),
        Event::StreamOpen(open) => {
            format!("open STREAM {}:{} -> in progress", escape::word(&open.service), open.port)
        }
        Event::Stream(stream) => self::stream(stream),
        Event::TlsRefused { server_name, alert, reason } => annotated(
            format!(
                "BLOCKED TLS {} -> {}",
                escape::word(server_name.as_deref().unwrap_or("")),
                escape::text(alert)
            ),
            None,
            reason.as_ref(),
        ),
        Event::PortRefused { protocol, port } => {
            let protocol = match protocol {
                PortProtocol::Tcp => "tcp",
                PortProtocol::Udp => "udp",
            };
            format!("BLOCKED PORT {port}/{protocol} -> refused")
        }
        Event::Traffic(used) => format!(
            "TRAFFIC {} requests -> {} bytes up, {} bytes down, {} tokens in, {} tokens out",
            used.requests, used.bytes_up, used.bytes_down, used.tokens.input, used.tokens.output
        ),
        Event::Limit { limit, count } => format!("LIMIT {} -> reached {count} times", escape::word(limit)),
        Event::Policy { change, state, until_ms } => policy(*change, *state, *until_ms),
        Event::Warning { text } => format!("WARNING {}", escape::text(text)),
    }
}

fn request(request: &RequestRecord) -> String {
    let decision = outcome(request.decision);
    let url = url(request.scheme, &request.host, &request.target);
    let result = match (&request.error, request.status) {
        (Some(error), _) if request.decision == RequestOutcome::Error => escape::text(error),
        (_, Some(status)) => status.to_string(),
        (_, None) => "-".to_owned(),
    };
    annotated(
        format!("{decision} {} {url} -> {result}", escape::word(&request.method)),
        Some(request),
        request.reason.as_ref(),
    )
}

fn policy(change: PolicyChange, state: PolicyState, until_ms: Option<u64>) -> String {
    let change = match change {
        PolicyChange::Set => "set",
        PolicyChange::Down => "down",
        PolicyChange::Up => "up",
        PolicyChange::Expired => "expired",
        PolicyChange::Quarantine => "quarantine",
        PolicyChange::Credentials => "credentials renewed",
    };
    let state = match (state, until_ms) {
        (PolicyState::Up, _) => "up".to_owned(),
        (PolicyState::Down, Some(until_ms)) => format!("down until {}", timestamp::seconds(until_ms)),
        (PolicyState::Down, None) => "down".to_owned(),
        (PolicyState::Quarantine, _) => "quarantine".to_owned(),
    };
    format!("POLICY {change} -> {state}")
}

fn tunnel(tunnel: &TunnelRecord) -> String {
    format!(
        "closed TUNNEL {} -> {} bytes up, {} bytes down, {} ms",
        url(tunnel.scheme, &tunnel.host, &tunnel.target),
        tunnel.bytes_up,
        tunnel.bytes_down,
        tunnel.duration_ms
    )
}

fn stream(stream: &StreamRecord) -> String {
    let decision = outcome(stream.decision);
    let result = match (&stream.error, stream.decision) {
        (_, RequestOutcome::Allowed) => format!(
            "{} bytes up, {} bytes down, {} ms",
            stream.bytes_up, stream.bytes_down, stream.duration_ms
        ),
        (Some(error), RequestOutcome::Error) => escape::text(error),
        _ => "-".to_owned(),
    };
    let line = format!("{decision} STREAM {}:{} -> {result}", escape::word(&stream.service), stream.port);
    annotated(line, None, stream.reason.as_ref())
}

fn outcome(decision: RequestOutcome) -> &'static str {
    match decision {
        RequestOutcome::Allowed => "allowed",
        RequestOutcome::Blocked => "BLOCKED",
        RequestOutcome::Error => "ERROR",
    }
}

/// Annotations are at the end, in the order masked, dropped, scrubbed, region, removed, tokens,
/// question, shield, ref, reason; empty ones are left out.
fn annotated(mut line: String, request: Option<&RequestRecord>, reason: Option<&BlockReason>) -> String {
    // Writing to a string cannot fail.
    if let Some(request) = request {
        for (name, count) in
            [("masked", request.masked), ("dropped", request.dropped), ("scrubbed", request.scrubbed)]
        {
            if count > 0 {
                let _ = write!(line, " [{name}: {count}]");
            }
        }
        if let Some(region) = &request.region {
            let _ = write!(line, " [region: {}]", escape::word(region));
        }
        if !request.removed.is_empty() {
            let kinds: Vec<&str> = request.removed.iter().map(|kind| kind.as_str()).collect();
            let _ = write!(line, " [removed: {}]", kinds.join(", "));
        }
        if let Some(used) = request.tokens {
            let _ = write!(line, " [tokens: {} in, {} out]", used.input, used.output);
        }
        if let Some(question) = request.question {
            let _ = write!(line, " [question: {question}]");
        }
        if request.shield_down {
            line.push_str(" [shield: down]");
        }
        if let Some(name) = &request.ref_name {
            let _ = write!(line, " [ref: {}]", escape::word(name));
        }
    }
    if let Some(reason) = reason {
        let _ = write!(line, " [reason: {}]", escape::text(reason.as_str()));
    }
    line
}

/// A URL as it appears in the log, always in printable ASCII.
#[must_use]
pub fn url(scheme: Scheme, host: &str, target: &str) -> String {
    let scheme = match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    // A target such as `*` or `http://…` must not read as a part of the host.
    let gap = if target.is_empty() || target.starts_with(['/', '?']) { "" } else { "/" };
    format!("{scheme}://{}{gap}{}", escape::host(host), escape::target(target))
}

/// The root's name is a dot; a label that is a dot is not the root.
fn queried(name: &str) -> String {
    match name {
        "" => ".".to_owned(),
        "." => "\\x2e".to_owned(),
        _ => escape::word(name),
    }
}

fn answered(answer: &DnsAnswer) -> String {
    match answer {
        DnsAnswer::Address(address) => address.to_string(),
        DnsAnswer::Nodata => "NODATA".to_owned(),
        DnsAnswer::Notimp => "NOTIMP".to_owned(),
        DnsAnswer::Formerr => "FORMERR".to_owned(),
        DnsAnswer::Refused => "REFUSED".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use allowlist::{Reason, VendorTool};

    fn line(event: Event) -> String {
        render(&Record { at_ms: 1_770_122_096_000, event })
    }

    fn dns(kind: &str, name: &str, answer: DnsAnswer) -> String {
        line(Event::Dns { kind: kind.to_owned(), name: name.to_owned(), answer })
    }

    fn request(decision: RequestOutcome, method: &str, host: &str, target: &str) -> RequestRecord {
        RequestRecord {
            decision,
            status: Some(if decision == RequestOutcome::Blocked { 403 } else { 200 }),
            ..RequestRecord::asked(method.to_owned(), Scheme::Https, host.to_owned(), target.to_owned())
        }
    }

    #[test]
    fn wording_is_as_documented() {
        let address = DnsAnswer::Address(Ipv4Addr::new(10, 199, 1, 100));
        assert_eq!(line(Event::TaskStart), "=== TASK START 2026-02-03T12:34:56Z ===");
        assert_eq!(dns("A", "api.github.com", address), "DNS A api.github.com -> 10.199.1.100");
        assert_eq!(dns("AAAA", "evil.com", DnsAnswer::Nodata), "DNS AAAA evil.com -> NODATA");
        assert_eq!(dns("TYPE65", "", DnsAnswer::Refused), "DNS TYPE65 . -> REFUSED");
        assert_eq!(
            line(Event::Request(request(
                RequestOutcome::Allowed,
                "GET",
                "api.github.com",
                "/repos/o/r/pulls"
            ))),
            "allowed GET https://api.github.com/repos/o/r/pulls -> 200"
        );
        let unruled = RequestRecord {
            shield_down: true,
            masked: 1,
            ..request(RequestOutcome::Allowed, "GET", "other.example", "/")
        };
        assert_eq!(
            line(Event::Request(unruled)),
            "allowed GET https://other.example/ -> 200 [masked: 1] [shield: down]"
        );
        let policy = |change, state, until_ms| line(Event::Policy { change, state, until_ms });
        assert_eq!(
            policy(PolicyChange::Down, PolicyState::Down, Some(1_770_122_696_999)),
            "POLICY down -> down until 2026-02-03T12:44:56Z"
        );
        assert_eq!(policy(PolicyChange::Set, PolicyState::Up, None), "POLICY set -> up");
        assert_eq!(policy(PolicyChange::Expired, PolicyState::Up, None), "POLICY expired -> up");
        assert_eq!(
            policy(PolicyChange::Credentials, PolicyState::Up, None),
            "POLICY credentials renewed -> up"
        );
        assert_eq!(
            policy(PolicyChange::Quarantine, PolicyState::Quarantine, None),
            "POLICY quarantine -> quarantine"
        );
        let error = RequestRecord {
            error: Some("Connection failed: Name or service not known".to_owned()),
            ..request(RequestOutcome::Error, "GET", "down.example.com", "/api")
        };
        assert_eq!(
            line(Event::Request(error)),
            "ERROR GET https://down.example.com/api -> Connection failed: Name or service not known"
        );
        assert_eq!(
            line(Event::TlsRefused {
                server_name: None,
                alert: "unrecognized_name".to_owned(),
                reason: Some(Reason::NoSni.into())
            }),
            "BLOCKED TLS - -> unrecognized_name [reason: no_sni]"
        );
        assert_eq!(
            line(Event::PortRefused { protocol: PortProtocol::Tcp, port: 8081 }),
            "BLOCKED PORT 8081/tcp -> refused"
        );
        assert_eq!(
            line(Event::Limit { limit: "connections".to_owned(), count: 3 }),
            "LIMIT connections -> reached 3 times"
        );
        assert_eq!(line(Event::Warning { text: "clock is off".to_owned() }), "WARNING clock is off");
    }

    #[test]
    fn reason_is_the_last_annotation() {
        let blocked = RequestRecord {
            reason: Some(Reason::Host.into()),
            ..request(RequestOutcome::Blocked, "GET", "evil.com", "/exfiltrate")
        };
        let text = line(Event::Request(blocked));
        assert_eq!(
            text,
            format!("BLOCKED GET https://evil.com/exfiltrate -> 403 [reason: {}]", Reason::Host.as_str())
        );
    }

    #[test]
    fn annotations_are_complete_and_in_order() {
        let counts = |masked, dropped, scrubbed, region: Option<&str>| {
            line(Event::Request(RequestRecord {
                masked,
                dropped,
                scrubbed,
                region: region.map(str::to_owned),
                ..request(RequestOutcome::Allowed, "GET", "a.example", "/")
            }))
        };
        let plain = "allowed GET https://a.example/ -> 200";
        assert_eq!(counts(0, 0, 0, None), plain);
        assert_eq!(counts(2, 0, 0, None), format!("{plain} [masked: 2]"));
        assert_eq!(counts(0, 1, 0, None), format!("{plain} [dropped: 1]"));
        assert_eq!(counts(0, 0, 7, None), format!("{plain} [scrubbed: 7]"));
        assert_eq!(
            counts(1, 2, 3, Some("eu-west-1")),
            format!("{plain} [masked: 1] [dropped: 2] [scrubbed: 3] [region: eu-west-1]")
        );
        let removed = RequestRecord {
            region: Some("eu-west-1".to_owned()),
            removed: vec![VendorTool::WebSearch, VendorTool::Mcp],
            ..request(RequestOutcome::Allowed, "GET", "a.example", "/")
        };
        assert_eq!(
            line(Event::Request(removed)),
            format!("{plain} [region: eu-west-1] [removed: web_search, mcp]")
        );
        let blocked = RequestRecord {
            masked: 1,
            reason: Some(BlockReason::Framing),
            region: Some("*".to_owned()),
            ..request(RequestOutcome::Blocked, "PUT", "a.example", "/")
        };
        assert_eq!(
            line(Event::Request(blocked)),
            "BLOCKED PUT https://a.example/ -> 403 [masked: 1] [region: *] [reason: framing]"
        );
    }

    #[test]
    fn tunnel_has_bytes_and_time() {
        let tunnel = TunnelRecord {
            scheme: Scheme::Http,
            host: "ws.example.com".to_owned(),
            target: "/chat?room=a[]".to_owned(),
            bytes_up: 1,
            bytes_down: 2,
            duration_ms: 3,
        };
        assert_eq!(
            line(Event::Tunnel(tunnel)),
            "closed TUNNEL http://ws.example.com/chat?room=a[] -> 1 bytes up, 2 bytes down, 3 ms"
        );
    }

    #[test]
    fn stream_is_shown_with_its_service() {
        let stream = |decision, reason, error: Option<&str>| {
            line(Event::Stream(StreamRecord {
                decision,
                service: "db".to_owned(),
                port: 5432,
                reason,
                error: error.map(str::to_owned),
                bytes_up: 1,
                bytes_down: 2,
                duration_ms: 3,
            }))
        };
        assert_eq!(
            stream(RequestOutcome::Allowed, None, None),
            "allowed STREAM db:5432 -> 1 bytes up, 2 bytes down, 3 ms"
        );
        assert_eq!(
            stream(RequestOutcome::Error, None, Some("Connect: the service refused it")),
            "ERROR STREAM db:5432 -> Connect: the service refused it"
        );
        assert_eq!(
            stream(RequestOutcome::Blocked, Some(BlockReason::Quarantine), None),
            "BLOCKED STREAM db:5432 -> - [reason: quarantine]"
        );
    }

    #[test]
    fn target_never_reads_as_part_of_the_host() {
        for (host, target, expected) in [
            ("api.github.com", ".evil.com/x", "https://api.github.com/.evil.com/x"),
            ("api.github.com", "*", "https://api.github.com/*"),
            ("api.github.com", "?q", "https://api.github.com?q"),
            ("api.github.com", "", "https://api.github.com"),
            ("api.github.com/", "@evil.com", "https://api.github.com\\x2f/@evil.com"),
            ("", "/", "https://-/"),
        ] {
            assert_eq!(url(Scheme::Https, host, target), expected);
        }
    }

    /// Text that attempts to forge: every character, and the parts of which lines consist.
    fn hostile() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            any::<char>().prop_map(String::from),
            prop_oneof![
                Just("\n"),
                Just("\r"),
                Just("\u{1b}[2K"),
                Just(" "),
                Just("["),
                Just("]"),
                Just(" -> 200"),
                Just("\\"),
                Just("\nallowed GET https://evil.com/ -> 200"),
                Just(" [masked: 1]"),
                Just("[reason: host]"),
                Just("\u{2028}"),
            ]
            .prop_map(str::to_owned),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    fn check_one_line(line: &str) -> Result<(), TestCaseError> {
        prop_assert!(line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{line:?}");
        Ok(())
    }

    proptest! {
        #[test]
        fn no_name_forges_anything(kind in hostile(), name in hostile()) {
            let line = dns(&kind, &name, DnsAnswer::Nodata);
            check_one_line(&line)?;
            prop_assert_eq!(line.split(' ').count(), 5, "{}", line);
            prop_assert!(line.starts_with("DNS ") && line.ends_with(" -> NODATA"));
        }

        #[test]
        fn no_method_and_no_url_forges_anything(method in hostile(), host in hostile(), target in hostile()) {
            let record = RequestRecord { reason: Some(Reason::Host.into()), ..request(RequestOutcome::Blocked, &method, &host, &target) };
            let line = line(Event::Request(record));
            check_one_line(&line)?;
            let words: Vec<&str> = line.split(' ').collect();
            prop_assert_eq!(words.len(), 7, "{}", line);
            prop_assert_eq!((words[0], words[3], words[4], words[5]), ("BLOCKED", "->", "403", "[reason:"));
        }

        #[test]
        fn no_region_forges_anything(region in hostile()) {
            let record = RequestRecord { region: Some(region), ..request(RequestOutcome::Allowed, "GET", "a.b", "/") };
            let line = line(Event::Request(record));
            check_one_line(&line)?;
            let words: Vec<&str> = line.split(' ').collect();
            prop_assert_eq!(words.len(), 7, "{}", line);
            prop_assert_eq!((words[4], words[5]), ("200", "[region:"));
            prop_assert_eq!(line.matches(['[', ']']).count(), 2, "{}", line);
        }

        #[test]
        fn no_message_forges_a_line_or_an_annotation(message in hostile(), server_name in hostile()) {
            let error = RequestRecord { error: Some(message.clone()), ..request(RequestOutcome::Error, "GET", "a.b", "/") };
            let refused = Event::TlsRefused { server_name: Some(server_name), alert: message.clone(), reason: None };
            for event in [Event::Request(error), refused, Event::Warning { text: message }] {
                let line = line(event);
                check_one_line(&line)?;
                prop_assert!(!line.contains(" ["), "{}", line);
            }
        }

        #[test]
        fn different_urls_never_look_alike(a in hostile(), b in hostile()) {
            prop_assume!(a != b);
            prop_assert_ne!(dns("A", &a, DnsAnswer::Nodata), dns("A", &b, DnsAnswer::Nodata));
        }
    }
}
