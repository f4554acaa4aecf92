//! The bindings of Go and C that are checked in are those of the contract in `wit/`.

use std::fs;
use std::path::Path;

use wit_component::{StringEncoding, metadata};
use wit_parser::Resolve;

/// Where the world is embedded: what both languages' compilers put into a plugin.
const EMBEDDED: [&str; 2] = ["guest-sdk/go/cmd/embed/component-type.bin", "guest-sdk/c/bindings/job_component_type.o"];

#[test]
fn the_checked_in_bindings_of_go_and_c_are_those_of_the_contract() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository");
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(root.join("wit")).expect("the contract can be read");
    let world = resolve.select_world(&[package], Some("job")).expect("it has the world");
    let mut encoded = metadata::encode(&resolve, world, StringEncoding::UTF8, None).expect("it can be encoded");
    // Which versions of which tools made it stands at the end: a section's kind, its length, and its name.
    let made_by = b"\x09producers";
    let end = encoded.windows(made_by.len()).position(|bytes| bytes == made_by).expect("it says who made it");
    encoded.truncate(end - 2);
    for file in EMBEDDED {
        let content = fs::read(root.join(file)).expect("it is checked in");
        let found = content.windows(encoded.len()).any(|bytes| bytes == encoded);
        assert!(found, "{file} is of another version of wit/: run scripts/bindings");
    }
}
