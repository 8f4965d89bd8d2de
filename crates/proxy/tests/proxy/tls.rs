//! The certificates that clients see, and clients that do not trust them.

use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use sandbox_proxy_protocol::Event;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::{Proxy, Setup, Upstream, client_config};

async fn start() -> (Proxy, Upstream) {
    let (setup, upstream) = Setup::fresh(&["a.example"], &["h2"]).await;
    (setup.start().await, upstream)
}

#[tokio::test]
async fn each_name_has_its_own_certificate_which_is_reused() {
    let (proxy, _upstream) = start().await;
    let mut seen = Vec::new();
    for name in ["a.example", "b.example", "A.Example", "under_score.example", "single"] {
        // The client verifies name, chain, validity and usage.
        let stream = proxy.tls(name, &["h2"]).await.unwrap();
        let chain = stream.get_ref().1.peer_certificates().unwrap().to_vec();
        assert_eq!(chain.len(), 2);
        seen.push(chain[0].clone());
    }
    assert_eq!(seen[0], seen[2]);
    assert_ne!(seen[0], seen[1]);
    proxy.stop().await;
}

#[tokio::test]
async fn protocol_is_negotiated_and_unknown_ones_are_refused() {
    let (proxy, _upstream) = start().await;
    for (alpn, chosen) in
        [(&["http/1.1"][..], Some("http/1.1")), (&["http/1.1", "h2"], Some("h2")), (&[], None)]
    {
        let stream = proxy.tls("a.example", alpn).await.unwrap();
        assert_eq!(
            stream
                .get_ref()
                .1
                .alpn_protocol()
                .map(|alpn| String::from_utf8_lossy(alpn).into_owned())
                .as_deref(),
            chosen
        );
    }
    assert!(proxy.tls("a.example", &["spdy/3"]).await.is_err());
    let alert = proxy
        .record(|event| if let Event::TlsRefused { alert, .. } = event { Some(alert) } else { None })
        .await;
    assert_eq!(alert, "no_application_protocol");
    proxy.stop().await;
}

#[tokio::test]
async fn distrust_of_the_ca_is_recorded_each_time_and_explained_once() {
    let (proxy, _upstream) = start().await;
    for _ in 0..2 {
        let mut roots = RootCertStore::empty();
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        let connector = TlsConnector::from(client_config(roots, &["h2"]));
        let name = ServerName::try_from("a.example").unwrap();
        assert!(connector.connect(name, TcpStream::connect(proxy.https()).await.unwrap()).await.is_err());
    }
    let alert = |event| match event {
        Event::TlsRefused { alert, server_name, .. } => Some(format!("{} {alert}", server_name.unwrap())),
        Event::Warning { text } => Some(text),
        _ => None,
    };
    assert_eq!(proxy.record(alert).await, "a.example unknown_ca");
    let warning = proxy.record(alert).await;
    assert!(warning.contains("SSL_CERT_FILE"), "{warning}");
    assert_eq!(proxy.record(alert).await, "a.example unknown_ca");
    proxy.stop().await;
}

#[tokio::test]
async fn stream_that_is_not_tls_is_refused() {
    let (proxy, _upstream) = start().await;
    for bytes in [b"SSH-2.0-OpenSSH_9.2\r\n".as_slice(), b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"] {
        let mut stream = TcpStream::connect(proxy.https()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.first().is_none_or(|kind| *kind == 0x15), "{rest:?}");
        let name =
            proxy
                .record(|event| {
                    if let Event::TlsRefused { server_name, .. } = event { Some(server_name) } else { None }
                })
                .await;
        assert_eq!(name, None);
    }
    proxy.stop().await;
}
