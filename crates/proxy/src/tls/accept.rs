//! The client's side of TLS: the server name that it asks for, and the handshake.

use std::io;
use std::sync::Arc;

use allowlist::{HostName, Reason};
use rustls::ServerConfig;
use rustls::server::{Acceptor, ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use sandbox_proxy_protocol::BlockReason;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::LeafIssuer;
use super::alert::{alert_of, is_distrust, name, provider, tls_error};

/// A client that has completed its handshake.
pub(crate) struct Accepted<S> {
    /// The connection.
    pub(crate) stream: TlsStream<S>,
    /// The server name that the client asked for.
    pub(crate) server_name: HostName,
    /// Whether the connection uses HTTP/2.
    pub(crate) http2: bool,
}

/// A failed handshake.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The server name that the client asked for, if it could be read.
    pub(crate) server_name: Option<String>,
    /// The alert or other event that ended it.
    pub(crate) alert: String,
    /// The reason, if we refused it.
    pub(crate) reason: Option<BlockReason>,
    /// Whether the client does not trust our authority.
    pub(crate) distrust: bool,
}

/// The outcome of a handshake.
pub(crate) enum Handshake<S> {
    /// The client may send requests.
    Accepted(Box<Accepted<S>>),
    /// The client was refused, or refused us.
    Refused(Refusal),
    /// The client left before it named a server: not worth a record.
    Gone,
}

/// The TLS configuration for clients.
///
/// # Errors
///
/// If the provider lacks the protocol versions, which is an error of the build.
pub(crate) fn server_config(issuer: LeafIssuer) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ExactName(issuer)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Resumption would save a client a signature and cost us memory for each session; tickets are
    // off by default.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

impl<S: AsyncRead + AsyncWrite + Unpin> Handshake<S> {
    /// Performs the whole handshake. The caller sets the deadline.
    pub(crate) async fn with(stream: S, config: Arc<ServerConfig>) -> Self {
        let start = match LazyConfigAcceptor::new(Acceptor::default(), stream).await {
            Ok(start) => start,
            Err(error) => return Self::failed(None, &error),
        };
        let asked = start.client_hello().server_name().map(str::to_owned);
        match start.into_stream(config).await {
            Ok(stream) => Self::finished(stream, asked),
            Err(error) => Self::failed(asked, &error),
        }
    }

    fn finished(stream: TlsStream<S>, asked: Option<String>) -> Self {
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        match asked.as_deref().and_then(readable_name) {
            Some(server_name) => Self::Accepted(Box::new(Accepted { stream, server_name, http2 })),
            // The resolver has already refused it; this arm is a second check.
            None => Self::Refused(Refusal::no_sni(asked, "access_denied".to_owned())),
        }
    }

    fn failed(asked: Option<String>, error: &io::Error) -> Self {
        let Some(tls) = tls_error(error) else {
            return match asked {
                // Some clients that do not trust us just close the connection.
                Some(_) => Self::Refused(Refusal {
                    server_name: asked,
                    alert: "closed by the client".to_owned(),
                    reason: None,
                    distrust: false,
                }),
                None => Self::Gone,
            };
        };
        let alert = alert_of(tls);
        if let rustls::Error::AlertReceived(received) = tls {
            let distrust = is_distrust(*received);
            return Self::Refused(Refusal {
                server_name: asked,
                alert: name(*received),
                reason: None,
                distrust,
            });
        }
        let unnamed = match tls {
            // A server name that is not a DNS name is refused while the hello is read, before there
            // is a name to report.
            rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidServerName) => true,
            rustls::Error::General(_) => asked.as_deref().and_then(readable_name).is_none(),
            _ => false,
        };
        Self::Refused(if unnamed {
            Refusal::no_sni(asked, alert)
        } else {
            Refusal { server_name: asked, alert, reason: None, distrust: false }
        })
    }
}

impl Refusal {
    fn no_sni(server_name: Option<String>, alert: String) -> Self {
        Self { server_name, alert, reason: Some(Reason::NoSni.into()), distrust: false }
    }

    /// A client that ended an established connection with `alert`; `None` unless the alert means
    /// that it does not trust us.
    pub(crate) fn late(server_name: &HostName, alert: rustls::AlertDescription) -> Option<Self> {
        let server_name = Some(server_name.as_str().to_owned());
        is_distrust(alert).then(|| Self { server_name, alert: name(alert), reason: None, distrust: true })
    }
}

/// Answers each hello with a certificate for exactly the name in it.
#[derive(Debug)]
struct ExactName(LeafIssuer);

impl ResolvesServerCert for ExactName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.certificate(&readable_name(hello.server_name()?)?)
    }
}

fn readable_name(server_name: &str) -> Option<HostName> {
    HostName::from_wire(server_name.as_bytes()).ok()
}
