//! A secret goes into one header towards one https origin, and nowhere else.

mod support;

use std::sync::Arc;

use leasehold_sandbox::{Effects, Sandbox, SandboxSettings, Secret, SecretText, Settings};
use support::outward::*;
use support::*;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

/// An https server for `127.0.0.1`, and the certificate that vouches for it.
struct TlsServer {
    port: u16,
    seen: Arc<watch::Sender<Seen>>,
    certificate: Vec<u8>,
}

impl TlsServer {
    async fn start() -> TlsServer {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("key and certificate fit");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let port = listener.local_addr().expect("it is bound").port();
        let seen = Arc::new(watch::channel(Seen::default()).0);
        let ours = seen.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                ours.send_modify(|seen| seen.connections += 1);
                // One that does not trust the certificate goes away here.
                let Ok(tls) = acceptor.accept(tcp).await else { continue };
                let (_, resumed) = watch::channel(true);
                tokio::spawn(serve(tls, Manner::Says(OK.into()), ours.clone(), resumed));
            }
        });
        TlsServer { port, seen, certificate: made.cert.der().to_vec() }
    }

    fn origin(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    fn last(&self) -> String {
        self.seen.borrow().requests.last().expect("a request").to_lowercase()
    }
}

#[tokio::test]
async fn a_secret_stands_in_its_header_towards_its_origin_and_its_placeholder_everywhere_else() {
    let (server, other) = (TlsServer::start().await, TlsServer::start().await);
    let plain = Server::start(Manner::Says(OK.into())).await;
    let more_roots = vec![server.certificate.clone(), other.certificate.clone()];
    let sandbox = Sandbox::new(SandboxSettings { more_roots, ..settings() }).expect("a sandbox");
    let settings = with_secret("hunter2", &server);
    let effects = Effects { settings, ..granting(&[&server.origin(), &other.origin(), &plain.url()]) };
    let read = start_effects(&sandbox, reading_setting("TOKEN"), effects.clone()).await.await;
    let placeholder = String::from_utf8(output(&read).to_vec()).expect("text");
    assert!(!placeholder.contains("hunter2") && placeholder.starts_with("leasehold-secret-"), "{placeholder}");

    let value = format!("Bearer {placeholder}");
    let headers = vec![("Authorization".to_owned(), value.clone()), ("X-Other".to_owned(), value.clone())];
    let ask = |origin: String| Ask {
        method: "POST",
        headers: headers.clone(),
        body: Some(placeholder.clone().into_bytes()),
        ..get(format!("{origin}/?{placeholder}"))
    };
    for origin in [server.origin(), other.origin(), plain.url()] {
        let said = start_effects(&sandbox, asking(&ask(origin)), effects.clone()).await.await;
        assert_eq!(output(&said), b"hello");
    }
    let revealed = server.last();
    assert!(revealed.contains("authorization: bearer hunter2\r\n"), "{revealed}");
    assert_eq!(revealed.matches("hunter2").count(), 1, "{revealed}");
    assert_eq!(revealed.matches(&placeholder).count(), 3, "url, other header and body: {revealed}");
    for elsewhere in [other.last(), plain.seen().requests.remove(0).to_lowercase()] {
        assert!(!elsewhere.contains("hunter2"), "{elsewhere}");
        assert_eq!(elsewhere.matches(&placeholder).count(), 4, "{elsewhere}");
    }
}

fn with_secret(value: &str, server: &TlsServer) -> Settings {
    let secret = Secret {
        value: SecretText::new(value.to_owned()),
        origin: server.origin().parse().expect("an origin"),
        header: "authorization".parse().expect("a header"),
    };
    Settings {
        secrets: Arc::new([("TOKEN".to_owned(), secret)].into()),
        placeholder_key: [5; 32],
        ..Settings::default()
    }
}

#[tokio::test]
async fn headers_are_bounded_as_they_are_sent_however_short_their_placeholders() {
    let server = TlsServer::start().await;
    let more_roots = vec![server.certificate.clone()];
    let sandbox = Sandbox::new(SandboxSettings { more_roots, ..settings() }).expect("a sandbox");
    let settings = with_secret(&"s".repeat(16 << 10), &server);
    let effects = Effects { settings, ..granting(&[&server.origin()]) };
    let read = start_effects(&sandbox, reading_setting("TOKEN"), effects.clone()).await.await;
    let placeholder = String::from_utf8(output(&read).to_vec()).expect("text");
    let header = |times: usize| ("authorization".to_owned(), placeholder.repeat(times));
    for (headers, expected) in
        [(vec![header(3)], "hello"), (vec![header(4)], "E6"), (vec![header(1); 4], "E6"), (vec![header(1_000)], "E6")]
    {
        let ask = Ask { headers, ..get(server.origin()) };
        let ended = start_effects(&sandbox, asking(&ask), effects.clone()).await.await;
        assert_eq!(String::from_utf8_lossy(output(&ended)), expected);
    }
    assert_eq!(server.seen.borrow().connections, 1);
}

#[tokio::test]
async fn a_server_whose_certificate_nobody_vouches_for_is_unreachable_and_hears_nothing() {
    let server = TlsServer::start().await;
    let sandbox = sandbox();
    let execution = start_effects(&sandbox, asking(&get(server.origin())), granting(&[&server.origin()])).await;
    assert_eq!(output(&execution.await), b"E4");
    let seen = server.seen.borrow().clone();
    assert_eq!((seen.connections, seen.requests.len()), (1, 0));
}
