//! What the operator is told when a guest asks again and again for what it may not have.

mod support;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use support::outward::*;
use support::*;

/// The host's own log.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<u8>>>);

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics while it holds the lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// The only test of this file: the log belongs to the process.
#[tokio::test]
async fn an_attempt_that_asks_for_an_inner_address_for_ever_is_told_of_once_for_each_origin() {
    let (told, names) = (Told::default(), Names::new(&[&["10.0.0.1"]]));
    let ours = told.clone();
    tracing_subscriber::fmt().with_writer(move || ours.clone()).init();
    let sandbox = names.sandbox();
    for (attempts, origin) in [(1, "http://one.example"), (2, "http://one.example"), (3, "http://two.example")] {
        let ask = Ask { times: 50, ..get(origin) };
        let ended = start_effects(&sandbox, asking(&ask), granting(&[origin])).await.await;
        assert_eq!(output(&ended), b"E2");
        let told = String::from_utf8(told.0.lock().expect("no test panics").clone()).expect("text");
        assert_eq!(told.matches("a request was denied").count(), attempts, "{told}");
    }
    assert_eq!(names.asked(), 150);
}
