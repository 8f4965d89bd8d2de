//! All addresses of one name: both families at once, aliases followed from answer to answer.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::exchange::{ExchangeError, ask};
use super::message::Name;
use super::response::{Family, Response};

/// The maximum duration of a lookup.
const DEADLINE: Duration = Duration::from_secs(4);
/// How long to wait for the slower family once the faster one has addresses.
const GRACE: Duration = Duration::from_millis(300);
/// The maximum number of aliases that are followed, over all answers.
const HOPS: usize = 8;

/// The reason why a name has no address. No message reveals where the name server is: a client may
/// see it.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ResolveError {
    /// There is no such name, or it has no address.
    #[error("Name or service not known")]
    NotFound,
    /// No answer arrived.
    #[error("name server timed out")]
    TimedOut,
    /// The name server is not reachable.
    #[error("failed to reach the name server")]
    Unreachable(#[source] Arc<io::Error>),
    /// It answered with an error; the response code.
    #[error("name server answered {}", code_name(*.0))]
    Failed(u16),
    /// It sent an unreadable answer.
    #[error("name server sent an unreadable answer")]
    Malformed,
    /// The name is an alias of an alias, and so on, or of itself.
    #[error("more than {HOPS} aliases of a name")]
    TooManyAliases,
    /// The lookup ended without an answer, which is an error in the proxy.
    #[error("lookup was abandoned")]
    Abandoned,
}

/// The addresses of a name and how long they are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// IPv4 first; never empty.
    pub(super) addresses: Vec<IpAddr>,
    /// The shortest TTL of all records that the server sent for the name.
    pub(super) ttl: Duration,
}

/// Asks `server` for all addresses of `name`, within 4 s.
pub(super) async fn look_up(server: SocketAddr, name: &Name) -> Result<Found, ResolveError> {
    let both = async {
        let v4 = pin!(of_family(server, name, Family::V4));
        let v6 = pin!(of_family(server, name, Family::V6));
        match select(v4, v6).await {
            Either::Left((v4, v6)) => {
                let v6 = second(&v4, v6).await;
                merge(v4, v6)
            }
            Either::Right((v6, v4)) => merge(second(&v6, v4).await, v6),
        }
    };
    tokio::time::timeout(DEADLINE, both).await.unwrap_or(Err(ResolveError::TimedOut))
}

/// The slower family's result; [`ResolveError::NotFound`] if it takes long and the faster one
/// already has addresses.
async fn second(
    first: &Result<Found, ResolveError>,
    rest: impl Future<Output = Result<Found, ResolveError>>,
) -> Result<Found, ResolveError> {
    if first.is_err() {
        return rest.await;
    }
    tokio::time::timeout(GRACE, rest).await.unwrap_or(Err(ResolveError::NotFound))
}

fn merge(v4: Result<Found, ResolveError>, v6: Result<Found, ResolveError>) -> Result<Found, ResolveError> {
    match (v4, v6) {
        (Ok(v4), Ok(v6)) => {
            let addresses = v4.addresses.into_iter().chain(v6.addresses).collect();
            Ok(Found { addresses, ttl: v4.ttl.min(v6.ttl) })
        }
        (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
        // `NotFound` is less important if the other family could not be queried.
        (Err(ResolveError::NotFound), Err(error)) | (Err(error), Err(_)) => Err(error),
    }
}

async fn of_family(server: SocketAddr, name: &Name, family: Family) -> Result<Found, ResolveError> {
    let mut name = name.clone();
    let mut shortest = u32::MAX;
    let mut hops_left = HOPS;
    loop {
        let response = ask(server, &name, family, hops_left).await.map_err(|error| match error {
            ExchangeError::Io(source) => ResolveError::Unreachable(Arc::new(source)),
            ExchangeError::Malformed => ResolveError::Malformed,
        })?;
        match response {
            Response::Addresses { addresses, ttl } => {
                let ttl = Duration::from_secs(shortest.min(ttl).into());
                return Ok(Found { addresses, ttl });
            }
            Response::Alias { target, ttl, hops } => {
                hops_left = hops_left.checked_sub(hops).ok_or(ResolveError::TooManyAliases)?;
                shortest = shortest.min(ttl);
                name = target;
            }
            Response::NoData | Response::NoSuchName => return Err(ResolveError::NotFound),
            Response::Failed(code) => return Err(ResolveError::Failed(code)),
            Response::Truncated => return Err(ResolveError::Malformed),
        }
    }
}

fn code_name(code: u16) -> String {
    match code {
        1 => "FORMERR".to_owned(),
        2 => "SERVFAIL".to_owned(),
        4 => "NOTIMP".to_owned(),
        5 => "REFUSED".to_owned(),
        other => format!("code {other}"),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::fake_server::{Asked, FakeServer, Fields, a, aaaa, cname};
    use super::*;

    const V4: [u8; 4] = [192, 0, 2, 7];
    const V6: &str = "2001:db8::7";

    async fn addresses(answer: impl Fn(&Asked) -> Vec<Vec<u8>> + Send + 'static) -> Result<String, String> {
        let server = FakeServer::start(answer).await;
        let found = look_up(server.address(), &Name::from_host("a.example").unwrap()).await;
        let text =
            |found: Found| found.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        found.map(text).map_err(|error| error.to_string())
    }

    /// Answers of servers for a.example, and their results.
    #[tokio::test]
    #[expect(clippy::too_many_lines, reason = "a flat table")]
    async fn every_kind_of_answer_has_its_result() {
        type Case = (&'static str, fn(&Asked) -> Vec<Vec<u8>>, Result<&'static str, &'static str>);
        let not_found = Err("Name or service not known");
        let unreadable = Err("name server sent an unreadable answer");
        let cases: [Case; 19] = [
            (
                "both",
                |q| vec![q.by_family(&[a("a.example", 60, V4)], &[aaaa("a.example", 60, V6)])],
                Ok("192.0.2.7 2001:db8::7"),
            ),
            ("v4 only", |q| vec![q.by_family(&[a("a.example", 60, V4)], &[])], Ok("192.0.2.7")),
            ("v6 only", |q| vec![q.by_family(&[], &[aaaa("A.EXAMPLE", 60, V6)])], Ok("2001:db8::7")),
            (
                "twice the same",
                |q| vec![q.by_family(&[a("a.example", 60, V4), a("a.example", 60, V4)], &[])],
                Ok("192.0.2.7"),
            ),
            (
                "chain",
                |q| {
                    vec![q.by_family(
                        &[cname("b.example", "c.test"), a("c.test", 60, V4), cname("a.example", "b.example")],
                        &[],
                    )]
                },
                Ok("192.0.2.7"),
            ),
            (
                "cut chain",
                |q| {
                    vec![match (q.name(), q.is_v4()) {
                        ("a.example", _) => {
                            q.answer(&[cname("a.example", "b.example"), cname("b.example", "c.test")])
                        }
                        ("c.test", true) => q.answer(&[a("c.test", 60, V4)]),
                        _ => q.answer(&[]),
                    }]
                },
                Ok("192.0.2.7"),
            ),
            (
                "loop",
                |q| vec![q.answer(&[cname("a.example", "b.example"), cname("b.example", "a.example")])],
                Err("more than 8 aliases of a name"),
            ),
            (
                "loop over answers",
                |q| {
                    vec![match q.name() {
                        "a.example" => q.answer(&[cname("a.example", "b.example")]),
                        _ => q.answer(&[cname("b.example", "a.example")]),
                    }]
                },
                Err("more than 8 aliases of a name"),
            ),
            ("another's address", |q| vec![q.by_family(&[a("evil.example", 60, V4)], &[])], not_found),
            (
                "another's next to ours",
                |q| vec![q.by_family(&[a("evil.example", 60, [6, 6, 6, 6]), a("a.example", 60, V4)], &[])],
                Ok("192.0.2.7"),
            ),
            ("alias of nothing", |q| vec![q.answer(&[cname("evil.example", "b.example")])], not_found),
            ("no such name", |q| vec![q.code(3)], not_found),
            ("servfail", |q| vec![q.code(2)], Err("name server answered SERVFAIL")),
            (
                "servfail for one",
                |q| vec![if q.is_v4() { q.answer(&[a("a.example", 60, V4)]) } else { q.code(2) }],
                Ok("192.0.2.7"),
            ),
            (
                "truncated",
                |q| {
                    vec![if q.is_tcp() { q.by_family(&[a("a.example", 60, V4)], &[]) } else { q.truncated() }]
                },
                Ok("192.0.2.7"),
            ),
            ("truncated forever", |q| vec![q.truncated()], unreadable),
            ("pointer loop", |q| vec![q.raw(1, b"\xc0\x1b\0\x01\0\x01\0\0\0\0\0\0")], unreadable),
            (
                "short address",
                |q| {
                    vec![q.answer(&[Fields::new(
                        "a.example",
                        if q.is_v4() { 1 } else { 28 },
                        60,
                        &[1, 2, 3],
                    )])]
                },
                unreadable,
            ),
            (
                "alias that is not a host",
                |q| vec![q.answer(&[Fields::new("a.example", 5, 60, b"\x03a b\0")])],
                unreadable,
            ),
        ];
        for (case, answer, expected) in cases {
            let found = addresses(answer).await;
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{case}");
        }
    }

    #[tokio::test]
    async fn forged_answers_are_ignored() {
        type Forgery = fn(&mut Vec<u8>);
        let forgeries: [(&str, Forgery); 6] = [
            ("another id", |message| message[1] ^= 1),
            ("another name", |message| message[13] = b'x'),
            ("another type", |message| message[24] = 99),
            ("a query", |message| message[2] &= 0x7f),
            ("two questions", |message| message[5] = 2),
            ("cut short", |message| message.truncate(11)),
        ];
        for (case, forge) in forgeries {
            let found = addresses(move |asked| {
                let mut forged = asked.by_family(
                    &[a("a.example", 60, [6, 6, 6, 6])],
                    &[aaaa("a.example", 60, "2001:db8::666")],
                );
                forge(&mut forged);
                vec![forged, asked.by_family(&[a("a.example", 60, V4)], &[])]
            })
            .await;
            assert_eq!(found.as_deref(), Ok("192.0.2.7"), "{case}");
        }
    }

    #[tokio::test]
    async fn shortest_ttl_counts() {
        let server = FakeServer::start(|asked| {
            vec![asked.by_family(
                &[Fields::named("a.example", 5, 30, "b.example"), a("b.example", 90, V4)],
                &[aaaa("a.example", 45, V6)],
            )]
        })
        .await;
        let found = look_up(server.address(), &Name::from_host("a.example").unwrap()).await.unwrap();
        assert_eq!(found.ttl, Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn silent_server_times_out_after_four_seconds() {
        let began = Instant::now();
        assert_eq!(addresses(|_| Vec::new()).await, Err("name server timed out".to_owned()));
        assert_eq!(began.elapsed().as_secs(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn lost_query_is_sent_again() {
        let began = Instant::now();
        let asked_before = std::cell::Cell::new(0);
        let found = addresses(move |asked| {
            asked_before.set(asked_before.get() + 1);
            if asked_before.get() <= 2 {
                Vec::new()
            } else {
                vec![asked.by_family(&[a("a.example", 60, V4)], &[])]
            }
        });
        assert_eq!(found.await.as_deref(), Ok("192.0.2.7"));
        assert_eq!(began.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn silent_family_delays_the_other_only_briefly() {
        let began = Instant::now();
        let found =
            addresses(
                |asked| {
                    if asked.is_v4() { vec![asked.answer(&[a("a.example", 60, V4)])] } else { Vec::new() }
                },
            );
        assert_eq!(found.await.as_deref(), Ok("192.0.2.7"));
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }

    /// A timeout, which comes later, is another error.
    #[tokio::test]
    async fn closed_port_is_reported_as_unreachable() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = socket.local_addr().unwrap();
        drop(socket);
        let found = look_up(server, &Name::from_host("a.example").unwrap()).await;
        assert!(
            matches!(&found, Err(ResolveError::Unreachable(source)) if source.kind() == io::ErrorKind::ConnectionRefused)
        );
    }
}
