//! Files that other toolchains have made are refused in the words of their users; what these are told makes a plugin.
//!
//! `scripts/build-plugins --lang js` and `--lang go` build them from tests/foreign. One that is not there is skipped, with
//! a line; with LEASEHOLD_REQUIRE_LANGUAGES=1 it fails instead.

use leasehold_tests::{Workplace, built_plugins};

/// A file, how its toolchain is named to its user, and what that user is told to do.
const FOREIGN: [(&str, &str, &str); 6] = [
    ("assemblyscript", "it was made by AssemblyScript", "@assemblyscript/wasi-shim/asconfig.json"),
    ("emscripten", "it was made by Emscripten", "`emcc -sSTANDALONE_WASM -sPURE_WASI`"),
    ("go", "it was made by Go as a program of WASI 0.1", "`leasehold new --lang go`"),
    ("go-js", "it was made by Go for a browser", "`leasehold new --lang go`"),
    ("tinygo", "it was made by TinyGo", "`tinygo build -target=wasip1`"),
    ("wasm-bindgen", "it was made by wasm-bindgen or wasm-pack", "`cargo build --release --target wasm32-wasip2`"),
];

/// A program that greets whom standard input names, built in the way that its text above tells. What others are told of
/// makes the plugins of tests/tests/languages.rs, or takes a compiler that cannot be had from a package registry.
const AS_TOLD: &str = "assemblyscript-wasi";

#[test]
fn a_file_of_another_toolchain_is_refused_and_its_user_is_told_in_its_words_what_to_do() {
    for (name, maker, advice) in FOREIGN.into_iter().filter(|(name, ..)| is_built(name)) {
        let w = workplace(name);
        let answer = w.leasehold(&["inspect", "x.wasm", "--json"]);
        assert_eq!(answer.code, Some(1), "{name}: {answer:?}");
        let found = answer.lines().remove(0);
        assert_eq!((&found["kind"], &found["plugin"]), (&"core module".into(), &false.into()), "{name}: {found}");
        let problem = found["problem"].as_str().unwrap_or_default();
        assert!(problem.starts_with("core-module: ") && problem.contains(maker), "{name}: {problem}");
        assert!(problem.contains(advice), "{name}: {problem}");
        // Whoever runs it is told the same.
        let run = w.leasehold(&["exec", "x.wasm"]);
        assert!(run.code == Some(1) && run.stderr.contains(advice), "{name}: {run:?}");
    }
}

#[test]
fn what_users_of_assemblyscript_are_told_to_do_makes_a_plugin() {
    if !is_built(AS_TOLD) {
        return;
    }
    let w = workplace(AS_TOLD);
    w.write("name", "späß 🦀");
    let answer = w.leasehold(&["exec", "x.wasm", "--payload", "@name"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(0), "Hello, späß 🦀!"), "{}", answer.stderr);
}

fn workplace(name: &str) -> Workplace {
    let w = Workplace::new("");
    w.write("x.wasm", w.plugin(&format!("foreign-{name}")));
    w
}

fn is_built(name: &str) -> bool {
    let found = built_plugins("foreign-").iter().any(|built| built == name);
    let demanded = std::env::var("LEASEHOLD_REQUIRE_LANGUAGES").is_ok_and(|value| value == "1");
    let missing = format!("tests/plugins/foreign-{name}.wasm is not built: scripts/build-plugins --lang js go");
    assert!(found || !demanded, "{missing}");
    if !found {
        eprintln!("skipped {name}: {missing}");
    }
    found
}
