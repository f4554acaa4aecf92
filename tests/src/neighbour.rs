//! A neighbour whose lease is kept beside whatever a hostile tenant does.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_test_servers::{IN_TIME, Watchdog};
use serde_json::Value;

use crate::{HostProcess, Workplace};

/// Leases that a test can wait for, and slots that are claimed when they are due.
pub const SHORT_LEASES: &str = "lease = \"1s\"\nheartbeat = \"150ms\"\nmin_interval = \"1s\"\njitter = \"0s\"";

/// The interval of the neighbour's heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(150);

/// What each hostile run may have, and what the host may grow by beside that.
const GUEST_MIB: u64 = 8;
const SLACK_MIB: u64 = 10;

/// What a hostile tenant does.
#[derive(Debug, Clone)]
pub struct Deed {
    /// Its job's name.
    pub name: String,
    /// Its plugin.
    pub plugin: Vec<u8>,
    /// Its payload, as TOML. None where no job names the plugin: then there is nothing but its file.
    pub payload: Option<String>,
    /// What becomes of it: how the detail of its failure begins, `success`, how what it says in the end begins behind `said: `,
    /// or the word by which its plugin is refused.
    pub word: &'static str,
    /// Where it may send requests.
    pub origins: Vec<Granted>,
}

/// An origin that operator and manifest allow.
#[derive(Debug, Clone)]
pub struct Granted {
    /// The origin.
    pub origin: String,
    /// The ranges of addresses that its name may lead to beside public ones.
    pub addresses: Vec<String>,
}

impl From<String> for Granted {
    fn from(origin: String) -> Granted {
        Granted { origin, addresses: Vec::new() }
    }
}

/// A host beside whose tenant `calm` deeds are done.
pub struct Scene<'a> {
    /// Its keys of `[host]` for compilers.
    pub compiler: &'a str,
    /// Starts it, with the variable [`LOG`] in its environment.
    pub serve: &'a dyn Fn(&Workplace) -> HostProcess,
}

/// With it in its environment, a host tells how far apart heartbeats were: a variable and its value.
pub const LOG: (&str, &str) = ("LEASEHOLD_LOG", "info,leasehold::heartbeat=debug");

impl Default for Scene<'_> {
    /// A compiler has less than bombs use up, and more than the neighbour's plugin.
    fn default() -> Self {
        Scene { compiler: "compile_cpu = \"2s\"\ncompile_memory = \"300MiB\"", serve: &|w| w.serve_with(LOG.0, LOG.1) }
    }
}

/// A neighbour's run began and ended well beside these, as attempt 1; no two of its heartbeats were sent further apart than
/// twice their interval (H7); the host's memory stayed flat; and each came to its own end. A machine that keeps this process
/// waiting says nothing of the host: then it is tried again.
///
/// # Panics
///
/// One of these is not so.
pub fn leave_their_neighbour_alone(deeds: &[Deed]) {
    leave_their_neighbour_alone_on(&Scene::default(), deeds);
}

/// The same on this host.
///
/// # Panics
///
/// As the other.
pub fn leave_their_neighbour_alone_on(scene: &Scene<'_>, deeds: &[Deed]) {
    for _ in 0..3 {
        match gap_beside(scene, deeds) {
            (gap, _) if gap < 2 * HEARTBEAT => return,
            (gap, late) if late > IN_TIME => {
                eprintln!("tried again: a gap of {gap:?}, but this process itself was kept waiting for {late:?}");
            }
            (gap, _) => panic!("two heartbeats were {gap:?} apart, their interval is {HEARTBEAT:?}"),
        }
    }
    panic!("this machine is too busy to judge heartbeats: three times, both they and this process were kept waiting");
}

/// Runs the neighbour once. The longest gap between its heartbeats, and how late this process was meanwhile.
fn gap_beside(scene: &Scene<'_>, deeds: &[Deed]) -> (Duration, Duration) {
    let w = workplace(scene.compiler, deeds);
    let mut host = (scene.serve)(&w);
    let calm = host.wait_for("claimed", "calm/calm");
    let watchdog = Watchdog::start();
    host.reset_peak_memory();
    let (before, _) = host.memory();
    for deed in deeds.iter().filter(|deed| deed.payload.is_none()) {
        w.drop_in(&format!("noisy/{}.wasm", deed.name), &deed.plugin);
    }
    host.wait_until("the end of the neighbour's run", |event| {
        event["job"] == "calm/calm"
            && event["run"] == calm["run"]
            && !matches!(event["event"].as_str(), Some("claimed"))
    });
    // It began beside guests that may hold nothing yet: all of theirs is new, and what is on its way from them.
    let (_, peak) = host.memory();
    let most = (deeds.len() as u64 * GUEST_MIB + SLACK_MIB) << 20;
    assert!(peak.saturating_sub(before) <= most, "the host grew from {before} to {peak} bytes");
    let late = watchdog.latest();
    for deed in deeds {
        came_to_its_end(&w, &mut host, deed);
    }
    let slot = calm["run"].as_str().expect("a run has a slot");
    let run = w.show("calm/calm", slot);
    let missed = |event: &Value| matches!(event["event"].as_str(), Some("uncertain" | "lost" | "takeover"));
    let missed = host.events().iter().any(missed);
    host.terminate();
    let (gap, heartbeats) = gap_of(&host.ended().1, slot);
    if missed && late > IN_TIME {
        // Sent in time or not: on a machine like that, the store may have answered late as well.
        return (gap.max(2 * HEARTBEAT), late);
    }
    if gap < 2 * HEARTBEAT {
        assert!(!missed, "heartbeats were sent in time, and yet a lease was in doubt");
        let attempts = run["attempts"].as_array().map(Vec::len);
        assert_eq!((&run["status"], attempts), (&Value::from("success"), Some(1)), "{run}");
        assert!(heartbeats >= 20, "five seconds of them: {heartbeats}");
    }
    eprintln!("{heartbeats} heartbeats, the longest gap {gap:?}; this process was {late:?} late at the most");
    (gap, late)
}

fn workplace(compiler: &str, deeds: &[Deed]) -> Workplace {
    // The neighbour's run is longer than anything that the others may do.
    let limits = format!(
        "timeout = \"3s\"\nmemory = \"{GUEST_MIB}MiB\"\n[tenants.calm]\ntimeout = \"1m\"\n[tenants.noisy]\n\
         jobs_max = 100\nconcurrency = 64\n"
    );
    let granted = |Granted { origin, addresses }: &Granted| match addresses.is_empty() {
        true => format!("{origin:?}"),
        // In TOML, a list of texts is written as in Rust.
        false => format!("{{ origin = {origin:?}, addresses = {addresses:?} }}"),
    };
    // Each is listed once, however many want it.
    let grants: BTreeSet<String> = deeds.iter().flat_map(|deed| deed.origins.iter().map(granted)).collect();
    let grants: Vec<String> = grants.into_iter().collect();
    let grants = format!("[tenants.noisy.http]\nallow = [{}]\n", grants.join(", "));
    let host = format!("[host]\nconcurrency = 256\n{compiler}\n");
    let w = Workplace::new(&format!("{host}[defaults]\n{SHORT_LEASES}\n{limits}{grants}"));
    w.install("unruly", "calm/unruly.wasm");
    // As long as its heartbeats are sent, it is attempt 1 that ends well.
    let calm = "[[jobs]]\nname = \"calm\"\nevery = \"9s\"\npayload = { do = \"wait\", ms = 6000 }\n";
    w.write("plugins/calm/unruly.toml", calm);
    for Deed { name, plugin, payload, origins, .. } in deeds {
        let Some(payload) = payload else { continue };
        let origins: Vec<&String> = origins.iter().map(|granted| &granted.origin).collect();
        w.drop_in(&format!("noisy/{name}.wasm"), plugin);
        let job = format!("[[jobs]]\nname = \"{name}\"\nevery = \"4s\"\npayload = {payload}\nhttp = {origins:?}\n");
        w.write(&format!("plugins/noisy/{name}.toml"), job);
    }
    w
}

/// Waits for the end of a deed, which may have come long ago.
fn came_to_its_end(w: &Workplace, host: &mut HostProcess, deed: &Deed) {
    let Deed { name, word, .. } = deed;
    if deed.payload.is_none() {
        return host.wait_for_log(&format!("{name}.wasm: {word}"));
    }
    let job = format!("noisy/{name}");
    let ended = host.wait_until(&format!("the end of {job}"), |event| {
        event["job"] == job.as_str() && matches!(event["event"].as_str(), Some("failed" | "success"))
    });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let told = match (ended["event"] == "success", word.starts_with("said: ")) {
        (false, _) => text(&ended["detail"]),
        (true, false) => "success".to_owned(),
        (true, true) => format!("said: {}", text(&w.show(&job, &text(&ended["run"]))["outcome"]["output"]["said"])),
    };
    assert!(told.starts_with(word), "{job} is to be {word}: {told}: {ended}");
}

/// What the host's heartbeat thread says of the neighbour's run: the longest gap, and how many heartbeats there were.
fn gap_of(told: &str, slot: &str) -> (Duration, u64) {
    let of_run =
        |line: &&str| line.contains("longest_gap_ms=") && line.contains("job=calm/calm") && line.contains(slot);
    let line = told.lines().find(of_run).unwrap_or_else(|| panic!("the host says nothing of heartbeats: {told}"));
    let number = |key: &str| {
        let (_, behind) = line.split_once(key).expect("it is in the line");
        let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().expect("a number")
    };
    (Duration::from_millis(number("longest_gap_ms=")), number("heartbeats="))
}
