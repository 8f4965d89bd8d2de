//! An entry as an event of the Open Cybersecurity Schema Framework, version 1.8.0.

use std::net::IpAddr;

use sandbox_proxy_protocol::{
    BlockReason, DnsAnswer, Event, OpenRequest, PortProtocol, RequestOutcome, Scheme,
};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::LogEntry;
use crate::line::url;

const VERSION: &str = "1.8.0";
/// Classes of the category of network activity.
const NETWORK: u32 = 4001;
const HTTP: u32 = 4002;
const DNS: u32 = 4003;
/// Activities of the class of network activity.
const OPEN: u32 = 1;
const CLOSE: u32 = 2;
const FAIL: u32 = 4;
const REFUSE: u32 = 5;
/// An activity that a class does not name.
const OTHER: u32 = 99;
/// Methods by the number of their activity in the class of HTTP activity, from 1.
const METHODS: [&str; 9] = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "TRACE", "PATCH"];

/// The event of `entry`. What the schema has no place for is only in its `raw_data`.
pub(crate) fn event(entry: &LogEntry) -> Value {
    let (class, activity, fields) = classified(&entry.event);
    let mut event = json!({
        "class_uid": class,
        "category_uid": class / 1000,
        "activity_id": activity,
        "type_uid": class * 100 + activity,
        "severity_id": if entry.blocked() { 3 } else { 1 },
        "time": milliseconds(&entry.time),
        "metadata": {
            "version": VERSION,
            "profiles": ["security_control"],
            "product": {"name": "sandbox", "version": env!("CARGO_PKG_VERSION")},
        },
    });
    if let Some(event) = event.as_object_mut() {
        event.extend(fields);
        if activity == OTHER && !event.contains_key("activity_name") {
            let entry = serde_json::to_value(entry).unwrap_or_default();
            event.insert("activity_name".to_owned(), entry.get("event").cloned().unwrap_or_default());
        }
        if entry.repeated > 0 {
            event.insert("count".to_owned(), entry.repeated.into());
        }
        if let Ok(line) = entry.to_line() {
            event.insert("raw_data".to_owned(), line.trim_end().into());
        }
    }
    event
}

/// The class, the activity, and the fields of that class.
fn classified(event: &Event) -> (u32, u32, Map<String, Value>) {
    let (class, activity, fields) = match event {
        Event::Request(request) => {
            let (activity, mut fields) =
                http(&request.method, request.scheme, &request.host, &request.target);
            let traffic = json!({"bytes_out": request.bytes_up, "bytes_in": request.bytes_down});
            set(&mut fields, "traffic", traffic);
            if let Some(code) = request.status {
                set(&mut fields, "http_response", json!({"code": code}));
            }
            (HTTP, activity, decided(fields, request.decision, request.reason, request.error.as_deref()))
        }
        Event::RequestOpen(request) => {
            let (activity, fields) = open(request);
            let mut fields = decided(fields, RequestOutcome::Allowed, None, None);
            // It may still fail.
            set(&mut fields, "status_id", 0.into());
            set(&mut fields, "status_detail", "in progress".into());
            (HTTP, activity, fields)
        }
        Event::Asked { request, .. } => {
            let (activity, fields) = open(request);
            (HTTP, activity, fields)
        }
        Event::Tunnel(tunnel) => {
            let fields = json!({
                "dst_endpoint": endpoint(&tunnel.host, tunnel.scheme),
                "url": {"url_string": url(tunnel.scheme, &tunnel.host, &tunnel.target)},
                "traffic": {"bytes_out": tunnel.bytes_up, "bytes_in": tunnel.bytes_down},
            });
            (NETWORK, CLOSE, decided(fields, RequestOutcome::Allowed, None, None))
        }
        Event::StreamOpen(stream) => {
            let fields = json!({"dst_endpoint": {"svc_name": stream.service, "port": stream.port}});
            (NETWORK, OPEN, decided(fields, RequestOutcome::Allowed, None, None))
        }
        Event::Stream(stream) => {
            let fields = json!({
                "dst_endpoint": {"svc_name": stream.service, "port": stream.port},
                "traffic": {"bytes_out": stream.bytes_up, "bytes_in": stream.bytes_down},
            });
            let activity = match stream.decision {
                RequestOutcome::Allowed => CLOSE,
                RequestOutcome::Blocked => REFUSE,
                RequestOutcome::Error => FAIL,
            };
            (NETWORK, activity, decided(fields, stream.decision, stream.reason, stream.error.as_deref()))
        }
        Event::TlsRefused { server_name, alert, reason } => {
            let name = server_name.as_deref().unwrap_or_default();
            let fields = json!({"dst_endpoint": endpoint(name, Scheme::Https)});
            (NETWORK, REFUSE, decided(fields, RequestOutcome::Blocked, *reason, Some(alert)))
        }
        Event::PortRefused { protocol, port } => {
            let protocol = match protocol {
                PortProtocol::Tcp => "tcp",
                PortProtocol::Udp => "udp",
            };
            let fields = json!({
                "dst_endpoint": {"svc_name": "proxy", "port": port},
                "connection_info": {"direction_id": 2, "protocol_name": protocol},
            });
            (NETWORK, REFUSE, decided(fields, RequestOutcome::Blocked, None, None))
        }
        Event::Dns { kind, name, answer } => {
            let code = match answer {
                DnsAnswer::Address(_) | DnsAnswer::Nodata => 0,
                DnsAnswer::Formerr => 1,
                DnsAnswer::Notimp => 4,
                DnsAnswer::Refused => 5,
            };
            let fields = json!({
                "query": {"hostname": name, "type": kind},
                "rcode_id": code,
                "dst_endpoint": {"svc_name": "proxy", "port": 53},
            });
            // Traffic: a query and its response.
            (DNS, 6, fields)
        }
        // The base event: the schema knows no class for it.
        _ => (0, OTHER, json!({})),
    };
    let Value::Object(fields) = fields else { return (class, activity, Map::new()) };
    (class, activity, fields)
}

/// The activity of a request, and its fields.
fn http(method: &str, scheme: Scheme, host: &str, target: &str) -> (u32, Value) {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut url = json!({
        "scheme": name(scheme),
        "hostname": host,
        "port": scheme.default_port(),
        "path": path,
        "url_string": url(scheme, host, target),
    });
    if let Some(query) = query {
        set(&mut url, "query_string", query.into());
    }
    let mut fields = json!({"dst_endpoint": endpoint(host, scheme)});
    let mut request = json!({"url": url});
    let known = METHODS.iter().zip(1..).find(|(known, _)| **known == method);
    if known.is_some() {
        set(&mut request, "http_method", method.into());
    } else {
        set(&mut fields, "activity_name", method.into());
    }
    set(&mut fields, "http_request", request);
    (known.map_or(OTHER, |(_, activity)| activity), fields)
}

fn open(request: &OpenRequest) -> (u32, Value) {
    http(&request.method, request.scheme, &request.host, &request.target)
}

fn endpoint(host: &str, scheme: Scheme) -> Value {
    let mut endpoint = json!({"svc_name": name(scheme), "port": scheme.default_port()});
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if bare.parse::<IpAddr>().is_ok() {
        set(&mut endpoint, "ip", bare.into());
    } else if !host.is_empty() {
        set(&mut endpoint, "hostname", host.into());
    }
    endpoint
}

fn name(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    }
}

/// Adds what was decided, and the reason for a refusal or a failure.
fn decided(
    mut fields: Value,
    decision: RequestOutcome,
    reason: Option<BlockReason>,
    error: Option<&str>,
) -> Value {
    // Allowed and denied; allowed, blocked and error; success and failure.
    let (action, disposition, status) = match decision {
        RequestOutcome::Allowed => (1, 1, 1),
        RequestOutcome::Blocked => (2, 2, 2),
        RequestOutcome::Error => (1, 27, 2),
    };
    for (field, value) in [("action_id", action), ("disposition_id", disposition), ("status_id", status)] {
        set(&mut fields, field, value.into());
    }
    if let Some(detail) = reason.map(BlockReason::as_str).or(error) {
        set(&mut fields, "status_detail", detail.into());
    }
    fields
}

fn set(fields: &mut Value, name: &str, value: Value) {
    if let Some(fields) = fields.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

/// The milliseconds since the Unix epoch; 0 if it is not a time.
fn milliseconds(time: &str) -> i64 {
    let time = OffsetDateTime::parse(time, &Rfc3339).ok();
    time.and_then(|time| i64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Value {
        let line = format!(r#"{{"v":1,"time":"2026-02-03T12:34:56.789Z",{json}}}"#);
        let entry = LogEntry::parse(&line).unwrap();
        let event: Value = serde_json::from_str(&entry.to_ocsf_line().unwrap()).unwrap();
        assert_eq!(event["raw_data"], entry.to_line().unwrap().trim_end());
        assert_eq!(
            (&event["time"], &event["metadata"]["version"]),
            (&json!(1_770_122_096_789_u64), &json!(VERSION))
        );
        let number = |name: &str| event[name].as_u64().unwrap();
        assert_eq!(number("type_uid"), number("class_uid") * 100 + number("activity_id"));
        assert_eq!(number("category_uid"), number("class_uid") / 1000);
        event
    }

    #[test]
    fn request_is_http_activity() {
        let blocked = of(concat!(
            r#""event":"request","decision":"blocked","method":"POST","scheme":"https","host":"evil.example","target":"/a?b","#,
            r#""status":403,"rule":null,"reason":"host","error":null,"bytes_up":1,"bytes_down":2,"first_byte_ms":null,"#,
            r#""duration_ms":0,"repeated":990"#
        ));
        assert_eq!(blocked["type_uid"], 400_206);
        let decision = ["action_id", "disposition_id", "status_id", "severity_id"].map(|name| &blocked[name]);
        assert_eq!(decision, [&json!(2), &json!(2), &json!(2), &json!(3)]);
        assert_eq!((&blocked["status_detail"], &blocked["count"]), (&json!("host"), &json!(990)));
        let url = json!({
            "scheme": "https", "hostname": "evil.example", "port": 443, "path": "/a", "query_string": "b",
            "url_string": "https://evil.example/a?b",
        });
        assert_eq!(blocked["http_request"], json!({"http_method": "POST", "url": url}));
        assert_eq!(blocked["http_response"], json!({"code": 403}));
        assert_eq!(blocked["traffic"], json!({"bytes_out": 1, "bytes_in": 2}));
        let open = of(r#""event":"request_open","method":"BREW","scheme":"http","host":"a.b","target":"/""#);
        assert_eq!((&open["type_uid"], &open["activity_name"]), (&json!(400_299), &json!("BREW")));
        assert_eq!((&open["action_id"], &open["status_id"]), (&json!(1), &json!(0)));
        assert_eq!(open["http_request"].get("http_method"), None);
        let address = of(
            r#""event":"request_open","method":"GET","scheme":"http","host":"[2001:db8::1]","target":"/""#,
        );
        let expected = json!({"ip": "2001:db8::1", "svc_name": "http", "port": 80});
        assert_eq!(address["dst_endpoint"], expected);
    }

    #[test]
    fn each_kind_of_entry_has_a_class() {
        for (json, uid) in [
            (r#""event":"dns","kind":"A","name":"a.b","answer":"refused""#, 400_306),
            (
                r#""event":"tunnel","scheme":"https","host":"a.b","target":"/","bytes_up":1,"bytes_down":2,"duration_ms":3"#,
                400_102,
            ),
            (r#""event":"stream_open","service":"db","port":5432"#, 400_101),
            (
                r#""event":"stream","decision":"error","service":"db","port":1,"reason":null,"error":"x","bytes_up":0,"bytes_down":0,"duration_ms":0"#,
                400_104,
            ),
            (r#""event":"tls_refused","server_name":null,"alert":"unknown_ca","reason":null"#, 400_105),
            (r#""event":"port_refused","protocol":"udp","port":8081"#, 400_105),
            (
                r#""event":"asked","question":1,"request":{"method":"GET","scheme":"https","host":"a.b","target":"/"}"#,
                400_203,
            ),
            (r#""event":"warning","text":"x""#, 99),
            (r#""event":"task_start""#, 99),
        ] {
            let event = of(json);
            assert_eq!(event["type_uid"], uid, "{json}");
            assert_eq!(event.get("activity_name").is_some(), uid == 99, "{json}");
        }
    }
}
