//! Which toolchain made a core module that cannot be a plugin as it is, told by the marks that toolchains leave, and what its
//! user has to do.

use serde::{Deserialize, Serialize};

/// A toolchain known by its marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Toolchain {
    /// wasm-bindgen and wasm-pack: Rust for browsers.
    WasmBindgen,
    /// Emscripten, without `STANDALONE_WASM`.
    Emscripten,
    /// AssemblyScript, without a WASI shim.
    AssemblyScript,
    /// TinyGo for browsers, or for whoever calls its exports.
    TinyGo,
    /// Go for browsers, `GOOS=js`.
    GoJs,
    /// Go without the SDK's bindings, `GOOS=wasip1`.
    Go,
    /// Code of wit-bindgen whose component type is missing.
    WitBindgen,
    /// Rust for `wasm32-unknown-unknown`, or another toolchain that calls its product by Rust's name.
    Rust,
}

impl Toolchain {
    /// Its name, as its users say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Toolchain::WasmBindgen => "wasm-bindgen",
            Toolchain::Emscripten => "Emscripten",
            Toolchain::AssemblyScript => "AssemblyScript",
            Toolchain::TinyGo => "TinyGo",
            Toolchain::GoJs => "Go with GOOS=js",
            Toolchain::Go => "Go with GOOS=wasip1",
            Toolchain::WitBindgen => "wit-bindgen",
            Toolchain::Rust => "Rust",
        }
    }

    /// What its user has to do to get a plugin.
    pub fn advice(self) -> &'static str {
        match self {
            Toolchain::WasmBindgen => {
                "it was made by wasm-bindgen or wasm-pack, for a browser's JavaScript: leave `#[wasm_bindgen]` and crates that \
                 need it out (of getrandom, chrono and uuid their js features) and use `cargo build --release --target \
                 wasm32-wasip2`"
            }
            Toolchain::Emscripten => {
                "it was made by Emscripten, with imports that only its JavaScript offers: link with `emcc -sSTANDALONE_WASM \
                 -sPURE_WASI`, with a `main` and without threads, exceptions and EM_JS, or use clang with wasi-sdk"
            }
            Toolchain::AssemblyScript => {
                "it was made by AssemblyScript, for a JavaScript host: extend \
                 `./node_modules/@assemblyscript/wasi-shim/asconfig.json` in asconfig.json and build with `asc --exportStart \
                 _start`, which makes a WASI command"
            }
            Toolchain::TinyGo => {
                "it was made by TinyGo, for a browser or as a library: put the work into `func main` and use `tinygo build \
                 -target=wasip1`, which makes a WASI command, or `-target=wasip2`"
            }
            Toolchain::GoJs => {
                "it was made by Go for a browser: start from `leasehold new --lang go`, whose Makefile builds a plugin with the \
                 same compiler"
            }
            Toolchain::Go => {
                "it was made by Go as a program of WASI 0.1: start from `leasehold new --lang go`, whose Makefile builds a plugin \
                 with the same compiler, or use `tinygo build -target=wasip1`"
            }
            Toolchain::WitBindgen => {
                "it has the functions that wit-bindgen makes, but the custom section with the component's type is gone: keep \
                 custom sections (no `wasm-strip`, no `strip = true` before it is a component; link the generated \
                 `…_component_type.o` in C), or build for wasm32-wasip2"
            }
            Toolchain::Rust => {
                "it was made by Rust for a target without a world: use `cargo build --release --target wasm32-wasip2`, with a \
                 handler of the leasehold-guest crate or a `fn main`"
            }
        }
    }
}

/// What a core module says of its origin, gathered name by name.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    wasm_bindgen: bool,
    emscripten: bool,
    assembly_script: bool,
    tiny_go: bool,
    browser_go: bool,
    go: bool,
    wit_bindgen: bool,
    rust: bool,
}

impl Marks {
    /// A function it imports.
    pub(crate) fn import(&mut self, module: &str, name: &str) {
        self.wasm_bindgen |= module == "wbg" || module.starts_with("__wbindgen") || name.starts_with("__wbindgen");
        self.emscripten |= matches!(module, "env" | "a")
            && ["emscripten_", "_emscripten_", "__syscall_", "invoke_", "__cxa_"]
                .iter()
                .any(|own| name.starts_with(own));
        self.assembly_script |= module == "env" && matches!(name, "abort" | "seed" | "trace" | "console.log");
        self.browser_go |= matches!(module, "go" | "gojs");
        self.wit_bindgen |= is_interface(module);
    }

    /// What it exports.
    pub(crate) fn export(&mut self, name: &str) {
        self.wasm_bindgen |= name.starts_with("__wbindgen");
        self.emscripten |= name.starts_with("emscripten_") || name.starts_with("_emscripten_");
        self.assembly_script |= matches!(name, "__new" | "__pin" | "__rtti_base");
        self.tiny_go |= matches!(name, "go_scheduler" | "asyncify_get_state");
        self.wit_bindgen |= name.starts_with("cabi_") || name.split_once('#').is_some_and(|(of, _)| is_interface(of));
    }

    /// An entry of its producers section: `language`, `processed-by` or `sdk`, and who.
    pub(crate) fn producer(&mut self, field: &str, name: &str) {
        self.wasm_bindgen |= name == "wasm-bindgen";
        self.emscripten |= name.eq_ignore_ascii_case("emscripten");
        self.assembly_script |= name == "AssemblyScript";
        self.tiny_go |= name == "TinyGo";
        self.go |= name == "Go cmd/compile";
        self.wit_bindgen |= name.starts_with("wit-bindgen");
        self.rust |= (field, name) == ("language", "Rust");
    }

    /// The most telling of them.
    pub(crate) fn toolchain(&self) -> Option<Toolchain> {
        let Marks { wasm_bindgen, emscripten, assembly_script, tiny_go, browser_go, go, wit_bindgen, rust } = *self;
        let by_weight = [
            (wasm_bindgen, Toolchain::WasmBindgen),
            (emscripten, Toolchain::Emscripten),
            (tiny_go, Toolchain::TinyGo),
            (browser_go, Toolchain::GoJs),
            (wit_bindgen, Toolchain::WitBindgen),
            (go, Toolchain::Go),
            (assembly_script, Toolchain::AssemblyScript),
            (rust, Toolchain::Rust),
        ];
        by_weight.into_iter().find_map(|(seen, toolchain)| seen.then_some(toolchain))
    }
}

/// `leasehold:job/control@0.1.0` and the like.
fn is_interface(name: &str) -> bool {
    name.split_once(':').is_some_and(|(_, rest)| rest.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(imports: &[(&str, &str)], exports: &[&str]) -> Option<Toolchain> {
        let mut marks = Marks::default();
        imports.iter().for_each(|(module, name)| marks.import(module, name));
        exports.iter().for_each(|name| marks.export(name));
        marks.toolchain()
    }

    #[test]
    fn each_toolchain_is_known_by_its_marks() {
        assert_eq!(of(&[("wbg", "__wbg_log_1")], &["memory"]), Some(Toolchain::WasmBindgen));
        assert_eq!(of(&[("env", "emscripten_resize_heap")], &["_start"]), Some(Toolchain::Emscripten));
        assert_eq!(of(&[("env", "abort")], &["memory"]), Some(Toolchain::AssemblyScript));
        assert_eq!(of(&[("gojs", "runtime.ticks")], &["go_scheduler"]), Some(Toolchain::TinyGo));
        assert_eq!(of(&[("gojs", "runtime.wasmExit")], &["run", "resume"]), Some(Toolchain::GoJs));
        assert_eq!(of(&[], &["leasehold:job/handler@0.1.0#handle"]), Some(Toolchain::WitBindgen));
        assert_eq!(of(&[("env", "host_log")], &["add"]), None);
    }

    #[test]
    fn producers_tell_what_names_do_not() {
        let of = |field: &str, name: &str| {
            let mut marks = Marks::default();
            marks.producer(field, name);
            marks.toolchain()
        };
        assert_eq!(of("language", "Rust"), Some(Toolchain::Rust));
        assert_eq!(of("processed-by", "wasm-bindgen"), Some(Toolchain::WasmBindgen));
        assert_eq!(of("processed-by", "TinyGo"), Some(Toolchain::TinyGo));
        assert_eq!(of("processed-by", "Go cmd/compile"), Some(Toolchain::Go));
        assert_eq!(of("processed-by", "clang"), None);
    }
}
