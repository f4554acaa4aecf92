//! Requests of a handler to an https server whose certificate an authority of the operator's own has signed.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use leasehold_tests::{HostProcess, Workplace};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

const DEFAULTS: &str = "[defaults]\nlease = \"3s\"\nheartbeat = \"500ms\"\nmin_interval = \"1s\"\n";

/// An authority as PEM, and a key with a certificate for `127.0.0.1` that it has signed.
fn authority() -> (String, PrivateKeyDer<'static>, CertificateDer<'static>) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own_key = KeyPair::generate().expect("a key");
    let own = params.self_signed(&own_key).expect("a certificate").pem();
    let issuer = Issuer::new(params, own_key);
    let key = KeyPair::generate().expect("a key");
    let server = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
    let certificate = server.signed_by(&key, &issuer).expect("a certificate").der().clone();
    (own, PrivateKeyDer::try_from(key.serialize_der()).expect("a key"), certificate)
}

/// An https server that answers every request and keeps it.
struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(key: PrivateKeyDer<'static>, certificate: CertificateDer<'static>) -> Server {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("key and certificate fit");
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let port = listener.local_addr().expect("it is bound").port();
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let ours = heard.clone();
        std::thread::spawn(move || {
            for tcp in listener.incoming().map_while(Result::ok) {
                let session = ServerConnection::new(config.clone()).expect("a session");
                let mut stream = StreamOwned::new(session, tcp);
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
                    head.push(byte[0]);
                }
                // One that does not trust the certificate has gone away.
                if head.ends_with(b"\r\n\r\n") {
                    let head = String::from_utf8_lossy(&head).to_lowercase();
                    ours.lock().expect("no thread panics while it holds the lock").push(head);
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                    stream.write_all(answer).and_then(|()| stream.flush()).expect("the host takes the answer");
                }
            }
        });
        Server { port, heard }
    }

    fn origin(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("no thread panics while it holds the lock").clone()
    }
}

/// A tenant whose job sends its secret to the server.
fn granted(origin: &str) -> Workplace {
    let w = Workplace::new(&format!(
        "{DEFAULTS}[tenants.default.http]\nallow = [\"{origin}\"]\n[tenants.default.secrets]\n\
         TOKEN = {{ file = \"token\", origin = \"{origin}\", header = \"authorization\" }}\n"
    ));
    w.write("token", "hunter2\n");
    w.install("unruly", "job.wasm");
    let wish = format!(
        "{{ do = \"send\", url = \"{origin}/\", headers = [[\"authorization\", \"{{TOKEN}}\"]], times = 1, ms = 0 }}"
    );
    let rest = format!("payload = {wish}\nhttp = [\"{origin}\"]\nconfig = [\"TOKEN\"]");
    w.write("plugins/job.toml", format!("[[jobs]]\nname = \"job\"\nevery = \"2s\"\n{rest}\n"));
    w
}

fn said(w: &Workplace, mut host: HostProcess) -> String {
    let ended = host.wait_for("success", "default/job");
    let run = w.show("job", ended["run"].as_str().expect("a run has a slot"));
    let said: &Value = &run["outcome"]["output"]["said"];
    said.as_str().unwrap_or_else(|| panic!("it said nothing: {run}")).to_owned()
}

#[test]
fn an_authority_that_the_host_is_told_of_is_trusted_and_gets_the_secret_and_another_is_not() {
    let (ca, key, certificate) = authority();
    let server = Server::start(key, certificate);
    let w = granted(&server.origin());
    w.write("ca.pem", ca);
    let other = granted(&server.origin());
    other.write("ca.pem", authority().0);

    let denied = said(&other, other.serve_with("SSL_CERT_FILE", "ca.pem"));
    assert!(denied.contains("unreachable") && denied.contains("certificate"), "{denied}");
    assert!(server.heard().is_empty(), "nothing was sent: {:?}", server.heard());

    assert_eq!(said(&w, w.serve_with("SSL_CERT_FILE", "ca.pem")), "200 ok");
    let heard = server.heard();
    assert!(heard[0].contains("\r\nauthorization: hunter2\r\n"), "{heard:?}");
}
