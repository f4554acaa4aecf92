//! A network that fails in each of its ways.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_test_servers::{Direction, Proxy, Tarpit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

mod support;
use support::{Client, refuses};

#[tokio::test]
async fn a_healthy_network_passes_on_what_is_sent() {
    let (echo, proxy) = start().await;
    let mut client = Client::connect(proxy.port()).await;
    assert_eq!(client.ask("one").await, "one");
    assert_eq!(client.ask("two").await, "two");
    assert_eq!(echo.requests(), 2);
    drop(client);
    echo.wait_ended(1).await;
}

#[tokio::test]
async fn a_blackhole_passes_nothing_on_until_it_is_healed() {
    let (echo, proxy) = start().await;
    let mut client = Client::connect(proxy.port()).await;
    assert_eq!(client.ask("one").await, "one");
    proxy.blackhole();
    client.send("two").await;
    proxy.wait_held(Direction::ToServer).await;
    let mut late = Client::connect(proxy.port()).await;
    late.send("three").await;
    assert_eq!((echo.requests(), echo.connections()), (1, 1));
    proxy.heal().await;
    assert_eq!(client.answer().await, "two");
    assert_eq!(late.answer().await, "three");
}

#[tokio::test]
async fn a_held_answer_is_that_of_a_request_that_was_carried_out() {
    let (echo, proxy) = start().await;
    let mut client = Client::connect(proxy.port()).await;
    assert_eq!(client.ask("one").await, "one");
    proxy.hold(Direction::ToClient);
    client.send("two").await;
    proxy.wait_held(Direction::ToClient).await;
    assert_eq!(echo.requests(), 2);
    proxy.drop_connections();
    assert_eq!(client.answer().await, "", "the answer is lost with its connection");
    proxy.heal().await;
    assert_eq!(Client::connect(proxy.port()).await.ask("three").await, "three");
}

#[tokio::test]
async fn a_peer_that_dies_behind_a_blackhole_is_not_missed() {
    let (echo, proxy) = start().await;
    let mut client = Client::connect(proxy.port()).await;
    assert_eq!(client.ask("one").await, "one");
    proxy.blackhole();
    drop(echo);
    proxy.wait_held(Direction::ToClient).await;
    assert!(timeout(Duration::from_millis(100), client.answer()).await.is_err());
    proxy.heal().await;
    assert_eq!(client.answer().await, "");
}

#[tokio::test]
async fn a_refusing_network_cuts_everybody_off_and_takes_nobody() {
    let (_echo, proxy) = start().await;
    let mut client = Client::connect(proxy.port()).await;
    assert_eq!(client.ask("one").await, "one");
    proxy.refuse().await;
    assert_eq!(client.answer().await, "");
    assert!(refuses(proxy.port()).await);
    proxy.heal().await;
    assert_eq!(Client::connect(proxy.port()).await.ask("two").await, "two");
}

#[tokio::test]
async fn a_slow_network_delays_each_way() {
    let (_echo, proxy) = start().await;
    let mut client = Client::connect(proxy.port()).await;
    assert_eq!(client.ask("one").await, "one");
    let delay = Duration::from_millis(150);
    proxy.delay(delay);
    // Begun before the question, so that it cannot be over before the answer comes at the earliest time that is right.
    let earliest = tokio::time::sleep(2 * delay - Duration::from_millis(1));
    tokio::pin!(earliest);
    client.send("two").await;
    tokio::select! {
        biased;
        () = &mut earliest => {}
        answer = client.answer() => panic!("{answer} came too early"),
    }
    assert_eq!(client.answer().await, "two");
}

#[tokio::test]
async fn a_server_that_is_down_ends_the_connection_of_a_client() {
    let (echo, proxy) = start().await;
    drop(echo);
    assert_eq!(Client::connect(proxy.port()).await.answer().await, "");
}

#[tokio::test]
async fn the_proxy_has_an_address_like_its_server() {
    let proxy = Proxy::start(15).await.unwrap();
    let expected = format!("redis://:15@127.0.0.1:{}/", proxy.port());
    assert_eq!(proxy.url("redis://:15@127.0.0.1:15/"), expected);
}

#[tokio::test]
async fn a_tarpit_takes_connections_and_never_answers() {
    let tarpit = Tarpit::start().await.unwrap();
    let mut client = Client::connect(tarpit.port()).await;
    assert!(timeout(Duration::from_millis(100), client.ask("one")).await.is_err());
    drop(tarpit);
    assert_eq!(client.answer().await, "");
}

/// A server that says what it is told, and a network in front of it.
async fn start() -> (Echo, Proxy) {
    let echo = Echo::start().await;
    let proxy = Proxy::start(echo.port).await.unwrap();
    (echo, proxy)
}

struct Echo {
    port: u16,
    counts: Arc<Counts>,
    serving: tokio::task::JoinSet<()>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
    ended: watch::Sender<usize>,
}

impl Echo {
    async fn start() -> Echo {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (port, counts) = (listener.local_addr().unwrap().port(), Arc::new(Counts::default()));
        let mut serving = tokio::task::JoinSet::new();
        serving.spawn(Echo::serve(listener, counts.clone()));
        Echo { port, counts, serving }
    }

    async fn serve(listener: TcpListener, counts: Arc<Counts>) {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            counts.connections.fetch_add(1, Ordering::SeqCst);
            let counts = counts.clone();
            connections.spawn(async move {
                let mut buffer = [0; 1024];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    counts.requests.fetch_add(1, Ordering::SeqCst);
                    if stream.write_all(&buffer[..count]).await.is_err() {
                        break;
                    }
                }
                counts.ended.send_modify(|ended| *ended += 1);
            });
        }
    }

    fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }

    async fn wait_ended(&self, count: usize) {
        self.counts.ended.subscribe().wait_for(|&ended| ended == count).await.unwrap();
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.serving.abort_all();
    }
}
