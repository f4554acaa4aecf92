//! `http.send` against servers that behave in every bad way, and guests that try every way around.

mod support;

use std::net::Ipv4Addr;
use std::sync::Arc;

use leasehold_sandbox::{Effects, FailureKind, GuestEnd, HttpGrants, Invocation, Limits, Sandbox, SandboxSettings};
use support::outward::*;
use support::watch::Watch;
use support::*;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

async fn said(sandbox: &Sandbox, ask: &Ask, effects: Effects) -> String {
    let ended = start_effects(sandbox, asking(ask), effects).await.await;
    let said = output(&ended);
    if let (true, Some((error, bound))) = (ask.bound, said.split_at_checked(2)) {
        let bound = bound.try_into().map(u64::from_le_bytes).expect("a number of 64 bits");
        return format!("{} {bound}", String::from_utf8_lossy(error));
    }
    String::from_utf8_lossy(said).into_owned()
}

async fn status(sandbox: &Sandbox, ask: Ask, effects: Effects) -> u16 {
    let ended = start_effects(sandbox, asking(&Ask { status: true, ..ask }), effects).await.await;
    let found: [u8; 2] = output(&ended).try_into().expect("a status has two bytes");
    assert_ne!(found[0], b'E', "{}", String::from_utf8_lossy(&found));
    u16::from_le_bytes(found)
}

#[tokio::test]
async fn a_request_arrives_whole_with_the_host_s_headers_and_none_that_are_forged() {
    let server = Server::start(Manner::Says(OK.into())).await;
    let headers = [
        ("X-Leasehold-Fence", "999"),
        ("x_leasehold_run", "forged"),
        ("Host", "evil.example"),
        ("Content-Length", "3"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "keep-alive"),
        ("Proxy-Authorization", "Basic x"),
        ("Expect", "100-continue"),
        ("X-Own", "kept"),
    ];
    let ask = Ask {
        method: "POST",
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        body: Some(b"{\"a\":1}".to_vec()),
        ..get(server.url() + "/path?q=%20#fragment")
    };
    let ended = start_effects(&sandbox(), asking(&ask), granting(&[&server.url()])).await.await;
    assert_eq!(output(&ended), b"hello");
    let request = server.seen().requests.remove(0).to_lowercase();
    let (head, body) = request.split_once("\r\n\r\n").expect("a head");
    assert_eq!(body, "{\"a\":1}");
    let mut lines: Vec<&str> = head.lines().skip(1).collect();
    lines.sort_unstable();
    let host = format!("host: 127.0.0.1:{}", server.port);
    let expected = [
        "connection: close",
        "content-length: 7",
        &host,
        "x-leasehold-attempt: 1",
        "x-leasehold-fence: 7",
        "x-leasehold-run: ns/acme/report/1",
        "x-own: kept",
    ];
    assert_eq!(lines, expected);
    assert!(head.starts_with("post /path?q=%20 http/1.1"), "{head}");
    assert_eq!(ended.usage.http_sent, request.len() as u64);
    assert_eq!(ended.usage.http_received, OK.len() as u64);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let inside = Server::start(Manner::Says(OK.into())).await;
    let answer = format!("HTTP/1.1 302 Found\r\nlocation: {}/\r\ncontent-length: 0\r\n\r\n", inside.url());
    let server = Server::start(Manner::Says(answer.into())).await;
    let effects = granting(&[&server.url(), &inside.url()]);
    assert_eq!(status(&sandbox(), get(server.url()), effects).await, 302);
    assert_eq!(inside.seen().connections, 0);
}

#[tokio::test]
async fn what_is_not_granted_is_denied_and_nobody_hears_of_it() {
    let server = Server::start(Manner::Says(OK.into())).await;
    let sandbox = sandbox();
    let other = format!("http://127.0.0.1:{}", server.port ^ 1);
    let port = server.port;
    for url in [
        format!("http://127.0.0.1:{port}"),
        format!("http://2130706433:{port}"),
        format!("http://0x7f.1:{port}/"),
        format!("http://0177.0.0.1:{port}"),
        format!("http://127.1:{port}"),
        format!("http://127.0.0.1.:{port}"),
        format!("http://localhost:{port}"),
        format!("http://[::ffff:127.0.0.1]:{port}"),
        format!("http://[::1]:{port}"),
        format!("https://127.0.0.1:{port}"),
    ] {
        assert_eq!(said(&sandbox, &get(&url), granting(&[&other])).await, "E2", "{url}");
    }
    for url in [
        format!("http://user:password@127.0.0.1:{port}"),
        format!("http://localhost.:{port}"),
        format!("http://[fe80::1%25lo]:{port}"),
        format!("http://127.0.0.1 :{port}"),
        "file:///etc/passwd".to_owned(),
        "gopher://127.0.0.1".to_owned(),
        String::new(),
    ] {
        assert_eq!(said(&sandbox, &get(&url), granting(&[&server.url()])).await, "E3", "{url}");
    }
    assert_eq!(server.seen().connections, 0);
}

#[tokio::test]
async fn every_form_of_a_granted_address_is_that_address() {
    let server = Server::start(Manner::Says(OK.into())).await;
    let sandbox = sandbox();
    for form in ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1.", "1%327.0.0.1"] {
        let url = format!("http://{form}:{}", server.port);
        assert_eq!(said(&sandbox, &get(&url), granting(&[&server.url()])).await, "hello", "{url}");
    }
}

#[tokio::test]
async fn a_name_that_leads_inside_is_denied_whatever_the_address_looks_like() {
    for address in [
        "127.0.0.1",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.100.100.200",
        "192.0.0.192",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001::1",
        "fd00:ec2::254",
        "fe80::1",
        "ff02::1",
    ] {
        let names = Names::new(&[&[address]]);
        let said = said(&names.sandbox(), &get("http://api.example.com"), granting(&["http://api.example.com"])).await;
        assert_eq!(said, "E2", "{address}");
    }
}

fn named(port: u16, address: &str) -> (String, Effects) {
    let url = format!("http://name.example:{port}");
    let mut http = HttpGrants::default();
    http.allow(url.parse().expect("an origin"), &[address.parse().expect("a range")]);
    (url, Effects { http: Arc::new(http), ..Effects::default() })
}

#[tokio::test]
async fn a_name_is_asked_for_once_and_the_address_that_was_checked_is_the_one_that_is_used() {
    let granted = Server::start(Manner::Says(OK.into())).await;
    let inside = Server::start_at(Ipv4Addr::new(127, 0, 0, 2), granted.port, Manner::Says(OK.into())).await;
    let names = Names::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let sandbox = names.sandbox();
    let (url, effects) = named(granted.port, "127.0.0.1/32");
    assert_eq!(said(&sandbox, &get(&url), effects.clone()).await, "hello");
    assert_eq!((names.asked(), granted.seen().connections), (1, 1));
    assert_eq!(said(&sandbox, &get(&url), effects).await, "E2");
    assert_eq!((names.asked(), inside.seen().connections), (2, 0));
}

#[tokio::test]
async fn of_several_addresses_only_those_that_may_be_used_are() {
    let granted = Server::start(Manner::Says(OK.into())).await;
    let inside = Server::start_at(Ipv4Addr::new(127, 0, 0, 2), granted.port, Manner::Says(OK.into())).await;
    let names = Names::new(&[&["127.0.0.2", "169.254.169.254", "127.0.0.1"]]);
    let (url, effects) = named(granted.port, "127.0.0.1/32");
    assert_eq!(said(&names.sandbox(), &get(&url), effects).await, "hello");
    assert_eq!(inside.seen().connections, 0);
}

#[tokio::test]
async fn names_that_are_never_answered_cost_their_tenant_its_lookups_and_nobody_else_s() {
    let server = Server::start(Manner::Says(OK.into())).await;
    let names = Names::new(&[&["127.0.0.1"]]);
    let sandbox = names.sandbox();
    let stuck = Ask { timeout_ms: Some(0), times: 100, ..get("http://stuck.example") };
    let greedy = load(&sandbox, asking(&stuck)).await;
    let by = |tenant: &str, effects| {
        let mut invocation = Invocation { effects, ..invocation(Limits::default()) };
        invocation.run.tenant = tenant.to_owned();
        invocation
    };
    for tenant in ["greedy", "as-greedy"] {
        assert_eq!(output(&sandbox.start(&greedy, by(tenant, granting(&[&stuck.url]))).await), b"E5");
    }
    assert_eq!(names.asked(), 8, "four each");
    let (url, effects) = named(server.port, "127.0.0.1/32");
    let modest = load(&sandbox, asking(&get(&url))).await;
    assert_eq!(output(&sandbox.start(&modest, by("modest", effects)).await), b"hello");
}

#[tokio::test]
async fn a_server_that_never_answers_is_a_timeout_and_its_connection_is_reset() {
    let server = Server::start(Manner::Silent).await;
    let ask = Ask { timeout_ms: Some(100), ..get(server.url()) };
    assert_eq!(said(&sandbox(), &ask, granting(&[&server.url()])).await, "E5");
    server.until(|seen| seen.resets == 1).await;
}

#[tokio::test]
async fn a_body_that_trickles_is_bounded_by_the_timeout() {
    let server = Server::start(Manner::Trickles("HTTP/1.1 200 OK\r\n\r\n")).await;
    let ask = Ask { timeout_ms: Some(200), ..get(server.url()) };
    assert_eq!(said(&sandbox(), &ask, granting(&[&server.url()])).await, "E5");
    server.until(|seen| seen.ended == 1).await;
}

#[tokio::test]
async fn an_endless_body_is_too_large_and_so_is_one_that_says_so() {
    let endless = Server::start(Manner::Endless("HTTP/1.1 200 OK\r\n\r\n", vec![b'x'; 1 << 16])).await;
    let chunk = [b"10000\r\n".to_vec(), vec![b'x'; 0x10000], b"\r\n".to_vec()].concat();
    let chunked = Server::start(Manner::Endless("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", chunk)).await;
    let mut servers = vec![endless, chunked];
    for length in ["16777217", "18446744073709551615", "99999999999999999999"] {
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        servers.push(Server::start(Manner::Says(answer.into())).await);
    }
    let sandbox = sandbox();
    let watch = Watch::start();
    for server in servers {
        let ask = Ask { bound: true, ..get(server.url()) };
        assert_eq!(said(&sandbox, &ask, granting(&[&server.url()])).await, "E6 16777216");
    }
    // A response, and the guest that it is for.
    watch.assert_flat((16 << 20) + (40 << 16));
}

#[tokio::test]
async fn the_largest_body_allowed_arrives() {
    let answer = [b"HTTP/1.1 200 OK\r\ncontent-length: 16777216\r\n\r\n".to_vec(), vec![b'x'; 16 << 20]].concat();
    let server = Server::start(Manner::Says(answer)).await;
    let sandbox = sandbox();
    assert_eq!(status(&sandbox, get(server.url()), granting(&[&server.url()])).await, 200);
}

#[tokio::test]
async fn a_response_is_charged_to_tenant_and_host_while_the_host_holds_it() {
    let sandbox = sandbox();
    let waiting = Server::start(Manner::Silent).await;
    let execution = start_effects(&sandbox, asking(&get(waiting.url())), granting(&[&waiting.url()])).await;
    waiting.until(|seen| seen.requests.len() == 1).await;
    let guest_alone = sandbox.memory().used();
    execution.signal().force();
    execution.await;
    assert_eq!(sandbox.memory().used(), 0);

    let pausing = Server::start(Manner::Pauses("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello", "world")).await;
    let execution = start_effects(&sandbox, asking(&get(pausing.url())), granting(&[&pausing.url()])).await;
    let half = async {
        while sandbox.memory().used() != guest_alone + 5 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(millis(30_000), half).await.expect("half of the response is charged");
    pausing.resume();
    assert_eq!(output(&execution.await), b"helloworld");
    assert_eq!(sandbox.memory().used(), 0);
}

#[tokio::test]
async fn a_response_stays_charged_while_the_guest_s_own_allocator_keeps_the_host_waiting() {
    const BODY: usize = 3 << 20;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY}\r\n\r\n").into_bytes();
    let server = Server::start(Manner::Says([head, vec![b'x'; BODY]].concat())).await;
    let sandbox = sandbox();
    // The page says that it is there.
    let spins = format!("(drop (memory.grow (i32.const 1))) {SPIN}");
    let execution =
        start_effects(&sandbox, asking_with_realloc(&get(server.url()), &spins), granting(&[&server.url()])).await;
    // Its tables beside it are smaller than that page.
    let guest = (40 + 600 + 1) << 16;
    let both_are_held = async {
        while sandbox.memory().used() < guest + BODY {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(millis(30_000), both_are_held).await.expect("the response is held while the guest spins");
    execution.signal().force();
    assert_eq!(failure(&execution.await).kind, FailureKind::Interrupted);
    assert_eq!(sandbox.memory().used(), 0);
}

#[tokio::test]
async fn a_response_that_attempt_tenant_or_host_has_no_memory_for_is_an_error_of_its_request() {
    let answer = [b"HTTP/1.1 200 OK\r\ncontent-length: 16777216\r\n\r\n".to_vec(), vec![b'x'; 16 << 20]].concat();
    // The guest itself holds 40 MiB and a little.
    const SCARCE: usize = 48 << 20;
    let all = usize::MAX;
    for (of_attempt, of_tenant, of_host, expected) in
        [(SCARCE, all, all, "E7"), (all, SCARCE, all, "E7"), (all, all, SCARCE, "E7"), (all, all, all, "xx")]
    {
        let server = Server::start(Manner::Says(answer.clone())).await;
        let sandbox = Sandbox::new(SandboxSettings { memory: of_host, ..settings() }).expect("a sandbox");
        let plugin = load(&sandbox, asking(&get(server.url()))).await;
        let limits = Limits { memory: of_attempt, output: 32 << 20, ..Limits::default() };
        let effects = granting(&[&server.url()]);
        let invocation = Invocation { effects, tenant_memory: Some(of_tenant), ..invocation(limits) };
        let ended = sandbox.start(&plugin, invocation).await;
        assert!(output(&ended).starts_with(expected.as_bytes()), "{of_attempt} {of_tenant} {of_host}");
        assert_eq!(sandbox.memory().used(), 0);
    }
}

#[tokio::test]
async fn headers_without_end_are_too_large() {
    let sandbox = sandbox();
    for server in [
        Server::start(Manner::Endless("HTTP/1.1 200 OK\r\n", b"a: b\r\n".to_vec())).await,
        Server::start(Manner::Endless("HTTP/1.1 200 OK\r\nx: ", vec![b'x'; 1 << 12])).await,
        Server::start(Manner::Endless("", b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())).await,
    ] {
        let ask = Ask { timeout_ms: Some(1_000), ..get(server.url()) };
        let said = said(&sandbox, &ask, granting(&[&server.url()])).await;
        assert!(said == "E6" || said == "E5", "{said}");
        server.until(|seen| seen.ended == 1).await;
    }
}

#[tokio::test]
async fn a_header_that_is_not_utf_8_is_left_out_and_the_others_arrive_as_they_are() {
    let answer =
        b"HTTP/1.1 200 OK\r\nx-latin: caf\xe9\r\nx-utf: caf\xc3\xa9\r\nx-last: there\r\ncontent-length: 4\r\n\r\nbody";
    let server = Server::start(Manner::Says(answer.to_vec())).await;
    let ask = Ask { headers_too: true, ..get(server.url()) };
    let ended = start_effects(&sandbox(), asking(&ask), granting(&[&server.url()])).await.await;
    let memory = output(&ended);
    let has = |text: &[u8]| memory.windows(text.len()).any(|found| found == text);
    for arrived in [&b"x-utf"[..], "caf\u{e9}".as_bytes(), b"x-last", b"there", b"body"] {
        assert!(has(arrived), "{}: {}", arrived.escape_ascii(), memory.escape_ascii());
    }
    for left_out in [&b"x-latin"[..], b"caf\xe9", "\u{fffd}".as_bytes()] {
        assert!(!has(left_out), "{}: {}", left_out.escape_ascii(), memory.escape_ascii());
    }
}

#[tokio::test]
async fn what_is_no_http_is_no_answer() {
    let sandbox = sandbox();
    for answer in ["SSH-2.0-x\r\n", "", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe", "HTTP/9.9 200 OK\r\n\r\n"] {
        let server = Server::start(Manner::Says(answer.into())).await;
        assert_eq!(said(&sandbox, &get(server.url()), granting(&[&server.url()])).await, "E7", "{answer:?}");
    }
    // Nobody listens there.
    let gone = "http://127.0.0.1:1";
    assert_eq!(said(&sandbox, &get(gone), granting(&[gone])).await, "E4");
}

#[tokio::test]
async fn a_guest_s_own_excess_is_refused_before_anything_is_sent() {
    let server = Server::start(Manner::Says(OK.into())).await;
    let sandbox = sandbox();
    let ask = get(server.url());
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    for (ask, expected) in [
        (Ask { method: "POST", body: Some(vec![b'x'; (1 << 20) + 1]), ..ask.clone() }, "E6"),
        (Ask { headers: vec![header("x", "y"); 101], ..ask.clone() }, "E3"),
        (Ask { headers: vec![header("x", &"y".repeat(70_000))], ..ask.clone() }, "E6"),
        (Ask { headers: vec![header("x", "a\r\ny: b")], ..ask.clone() }, "E3"),
        (Ask { headers: vec![header("x y", "a")], ..ask.clone() }, "E3"),
        (Ask { method: "CONNECT", ..ask.clone() }, "E3"),
        (Ask { method: "TRACE", ..ask.clone() }, "E3"),
        (Ask { method: "GET / HTTP/1.1\r\nx: y\r\n\r\n", ..ask.clone() }, "E3"),
    ] {
        assert_eq!(said(&sandbox, &ask, granting(&[&server.url()])).await, expected, "{}", ask.method);
    }
    assert_eq!(server.seen().connections, 0);
    let largest = Ask { method: "POST", body: Some(vec![b'x'; 1 << 20]), ..ask };
    assert_eq!(said(&sandbox, &largest, granting(&[&server.url()])).await, "hello");
}

#[tokio::test]
async fn a_request_is_given_up_at_any_moment_and_leaves_nothing_behind() {
    let sandbox = sandbox();
    let endless = Manner::Endless("HTTP/1.1 200 OK\r\n\r\n", vec![b'x'; 1 << 12]);
    let mut cases = Vec::new();
    for manner in [Manner::Silent, endless, Manner::Says(OK.into())] {
        let server = Server::start(manner).await;
        let plugin = load(&sandbox, asking(&Ask { times: 20, ..get(server.url()) })).await;
        cases.push((granting(&[&server.url()]), plugin, server));
    }
    let mut watch = None;
    let mut chance = 1 + std::process::id();
    eprintln!("seed {chance}");
    for (n, (effects, plugin, _)) in cases.iter().cycle().take(1_200).enumerate() {
        if n == 300 {
            // By now the allocator has what it keeps for each thread: more would be what requests leave behind.
            watch = Some(Watch::start());
        }
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let execution = sandbox.start(plugin, Invocation { effects: effects.clone(), ..invocation(Limits::default()) });
        // Up to eight milliseconds.
        tokio::time::sleep(std::time::Duration::from_micros(u64::from(chance >> 19))).await;
        execution.signal().force();
        let ended = execution.await;
        let is_right = match &ended.end {
            GuestEnd::Output(_) => true,
            GuestEnd::Failure(failure) => matches!(failure.kind, FailureKind::Interrupted | FailureKind::Trap),
            GuestEnd::Error(_) => false,
        };
        assert!(is_right, "{:?}", ended.end);
    }
    watch.expect("there were more").assert_flat((40 + 16) << 20);
    let all_is_given_back = async {
        while sandbox.memory().used() > 0 {
            tokio::task::yield_now().await;
        }
        for (_, _, server) in &cases {
            assert!(server.seen().connections > 0);
            server.until(|seen| seen.ended == seen.connections).await;
        }
    };
    tokio::time::timeout(millis(30_000), all_is_given_back).await.expect("nothing is left behind");
}

#[tokio::test]
async fn a_request_ends_with_its_attempt() {
    let server = Server::start(Manner::Silent).await;
    let sandbox = sandbox();
    let plugin = load(&sandbox, asking(&get(server.url()))).await;
    let limits = leasehold_sandbox::Limits { timeout: millis(300), ..Default::default() };
    let effects = granting(&[&server.url()]);
    let ended = sandbox.start(&plugin, leasehold_sandbox::Invocation { effects, ..invocation(limits) }).await;
    // Its own timeout and the attempt's come together: either is told.
    if let GuestEnd::Output(said) = &ended.end {
        assert_eq!(said, b"E5");
    }
    server.until(|seen| seen.resets == 1).await;
}
