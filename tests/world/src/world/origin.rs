//! The origin: plain HTTP on 80, TLS on 443, HTTP/1.1 and HTTP/2.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::routes::{self, State};

pub(super) async fn bind(address: IpAddr) -> std::io::Result<(TcpListener, TcpListener)> {
    Ok((TcpListener::bind((address, 80)).await?, TcpListener::bind((address, 443)).await?))
}

pub(super) async fn serve(
    (plain, tls): (TcpListener, TcpListener),
    config: Arc<ServerConfig>,
    state: Arc<State>,
) {
    tokio::join!(serve_plain(plain, Arc::clone(&state)), serve_tls(tls, config, state));
}

async fn serve_plain(listener: TcpListener, state: Arc<State>) {
    while let Ok(stream) = accept(&listener).await {
        tokio::spawn(converse(stream, Arc::clone(&state)));
    }
}

async fn serve_tls(listener: TcpListener, config: Arc<ServerConfig>, state: Arc<State>) {
    let acceptor = TlsAcceptor::from(config);
    while let Ok(stream) = accept(&listener).await {
        let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                converse(stream, state).await;
            }
        });
    }
}

/// The next client. The benchmark measures against this origin, so it sends small frames at once as
/// real ones do: a window update that waits for the acknowledgement of the one before stops an
/// upload for as long as its sender delays that, 40 ms on Linux.
async fn accept(listener: &TcpListener) -> std::io::Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    // A client that is gone already is no reason to end the listener.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, state: Arc<State>) {
    let service = service_fn(move |request| routes::answer(Arc::clone(&state), request));
    // A client that goes away, and a step of the script that breaks the connection, end it with an
    // error on purpose.
    let _ = auto::Builder::new(TokioExecutor::new())
        .serve_connection_with_upgrades(TokioIo::new(stream), service)
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn small_frames_wait_for_no_acknowledgement() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, accept(&listener));
        assert!(accepted.unwrap().nodelay().unwrap());
        drop(client);
    }
}
