//! What a guest does costs its run, never the host.

use leasehold_tests::Workplace;

/// One job a wish, each due once at the start of the test.
fn unruly(wishes: &[(&str, &str)]) -> Workplace {
    let defaults = "lease = \"3s\"\nheartbeat = \"500ms\"\nmin_interval = \"1s\"\ntimeout = \"2s\"\nmemory = \"64MiB\"";
    let w = Workplace::new(&format!("[defaults]\n{defaults}\n"));
    w.install("unruly", "unruly.wasm");
    let job = |(name, wish): &(&str, &str)| {
        format!("[[jobs]]\nname = \"{name}\"\nevery = \"4s\"\npayload = {{ do = {wish} }}\n")
    };
    w.write("plugins/unruly.toml", wishes.iter().map(job).collect::<String>());
    w
}

#[test]
fn every_way_to_fail_has_its_own_word_and_no_heartbeat_is_missed() {
    let wishes = [
        ("spin", "\"spin\"", "timeout"),
        ("grow", "\"grow\"", "memory"),
        ("panic", "\"panic\"", "trap"),
        ("exit", "\"exit\"", "exit"),
        ("fail", "\"fail\", code = \"upstream-down\"", "upstream-down"),
    ];
    let mut jobs: Vec<(&str, &str)> = wishes.iter().map(|(name, wish, _)| (*name, *wish)).collect();
    jobs.push(("flood", "\"flood\""));
    let w = unruly(&jobs);
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", "[[jobs]]\nname = \"hello\"\nevery = \"1s\"\npayload = { name = \"world\" }\n");
    let mut host = w.serve();
    for (name, _, word) in wishes {
        let failed = host.wait_for("failed", &format!("default/{name}"));
        let detail = failed["detail"].as_str().expect("a failure says why");
        assert!(detail.starts_with(&format!("{word}: ")), "{name}: {detail}");
    }
    // It prints until its time is up; the log is cut, the run is well.
    host.wait_for("success", "default/flood");
    host.wait_for("success", "default/hello");
    let missed =
        |event: &&serde_json::Value| matches!(event["event"].as_str(), Some("uncertain" | "lost" | "takeover"));
    assert_eq!(host.events().iter().filter(missed).count(), 0);
    host.terminate();
    assert!(host.ended().0.success());
    let panicked = w.leasehold(&["show", "panic", "latest"]);
    assert!(panicked.stdout.contains("as I was told"), "the panic's message is kept: {panicked:?}");
}
