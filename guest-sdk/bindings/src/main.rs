//! Makes the bindings of Go and C that are checked in: `bindings WIT FOLDER` writes `FOLDER/c` and `FOLDER/go`.
//!
//! They are checked in because their generator is no part of those languages' toolchains; scripts/bindings compares.

use std::error::Error;
use std::fs;
use std::path::Path;

use wit_bindgen_core::Files;
use wit_component::StringEncoding;
use wit_parser::Resolve;

/// Where the Go SDK keeps what is made here, and the runtime that it needs, as Go packages.
const GO_PACKAGE: &str = "leasehold/internal/bindings";
const GO_RUNTIME: (&str, &str) = ("go.bytecodealliance.org/pkg/wit/", "leasehold/internal/wit/");

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, contract, to] = arguments.as_slice() else { return Err("usage: bindings WIT FOLDER".into()) };
    let to = Path::new(to);
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(contract)?;
    let world = resolve.select_world(&[package], Some("job"))?;

    let mut files = Files::default();
    wit_bindgen_c::Opts::default().build().generate(&mut resolve.clone(), world, &mut files)?;
    write(&files, &to.join("c/bindings"))?;

    let mut files = Files::default();
    let mut go = wit_bindgen_go::Opts::default();
    go.pkg_name = Some(GO_PACKAGE.to_owned());
    // With Go's own gofmt, behind this.
    go.format = wit_bindgen_go::Format::False;
    go.quiet = true;
    go.build().generate(&mut resolve.clone(), world, &mut files)?;
    write(&files, &to.join("go/internal/bindings"))?;

    let world = wit_component::metadata::encode(&resolve, world, StringEncoding::UTF8, None, false)?;
    fs::create_dir_all(to.join("go/cmd/embed"))?;
    fs::write(to.join("go/cmd/embed/component-type.bin"), world)?;
    Ok(())
}

fn write(files: &Files, to: &Path) -> Result<(), Box<dyn Error>> {
    for (name, content) in files.iter() {
        let path = to.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        match std::str::from_utf8(content) {
            Ok(text) => fs::write(path, text.replace(GO_RUNTIME.0, GO_RUNTIME.1))?,
            Err(_) => fs::write(path, content)?,
        }
    }
    Ok(())
}
