use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::*;

#[test]
fn a_name_is_put_into_names_and_identifiers() {
    let put = |name: &str, text: &str| Name::new(name).put_into(text);
    assert_eq!(put("nightly.report-2", "plugin-name.toml: plugin_name"), "nightly.report-2.toml: nightly_report_2");
    assert_eq!(put("1st", "plugin-name plugin_name"), "1st _1st");
    // Names that hold what templates have.
    assert_eq!(put("my_plugin_name", "plugin-name plugin_name"), "my_plugin_name my_plugin_name");
    assert_eq!(put("my-plugin-name", "plugin-name plugin_name"), "my-plugin-name my_plugin_name");
    assert_eq!(name("nightly-report").as_deref(), Ok("nightly-report"));
    for bad in ["", "../x", "A", "a b", ".a", "a/b"] {
        assert!(name(bad).is_err(), "{bad}");
    }
    let told = name("Hello").expect_err("it has a capital").to_string();
    assert!(told.starts_with("plugin name \"Hello\" is not a name: "), "{told}");
}

#[test]
fn a_module_of_go_is_named_alike_whatever_the_plugin_is() {
    let go_mod = Lang::Go.contents().template.iter().find(|file| file.path == "go.mod").expect("it is a module");
    let text = std::str::from_utf8(go_mod.content).expect("text");
    // Go takes no path whose parts are `con` or end in a dot, as names of plugins may.
    for taken in ["con", "x."] {
        assert_eq!(Name::new(taken).put_into(text), text);
    }
}

#[test]
fn a_project_has_its_name_everywhere_and_its_scripts_can_be_started() {
    for lang in Lang::value_variants() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("nightly");
        let contents = lang.contents();
        let written = project::write(&folder, &Name::new("nightly"), &contents).unwrap();
        assert_eq!(written.len(), contents.template.len() + contents.sdk.len() + contents.wit.len());
        for file in ["README.md", "nightly.toml", "wit/job.wit"] {
            assert!(written.iter().any(|path| path == file), "{lang:?} has no {file}: {written:?}");
        }
        let manifest = std::fs::read_to_string(folder.join("nightly.toml")).unwrap();
        assert!(manifest.contains("[[jobs]]"), "{lang:?}: {manifest}");
        for path in &written {
            let content = std::fs::read(folder.join(path)).unwrap();
            let text = String::from_utf8_lossy(&content);
            let is_ours = !path.starts_with("sdk/") && !path.starts_with("wit/");
            assert!(!is_ours || !text.contains("plugin-name") && !text.contains("plugin_name"), "{lang:?}: {path}");
            let may_start = std::fs::metadata(folder.join(path)).unwrap().permissions().mode() & 0o100 != 0;
            assert_eq!(may_start, content.starts_with(b"#!"), "{lang:?}: {path}");
        }
        assert!(!contents.link_wit || folder.join("sdk/wit/job.wit").is_file());
        assert!(matches!(
            project::write(&folder, &Name::new("nightly"), &contents),
            Err(CliError::NewThere { path }) if path == folder
        ));
    }
}

#[test]
fn what_is_told_to_do_next_is_what_the_template_s_readme_says() {
    for lang in Lang::value_variants() {
        let contents = lang.contents();
        let readme = contents.template.iter().find(|file| file.path == "README.md").expect("a README");
        let readme = std::str::from_utf8(readme.content).expect("text");
        let (build, test) = lang.commands();
        for command in build.split(" && ").chain([test]) {
            assert!(readme.contains(command), "{lang:?}: `{command}` is not in its README");
        }
    }
}

#[test]
fn the_handlers_that_the_readme_shows_are_those_of_the_templates() {
    let readme = include_str!("../../../../README.md");
    let shown = [
        ("Rust", Lang::Rust, "src/lib.rs"),
        ("JavaScript", Lang::Js, "src/index.js"),
        ("TypeScript", Lang::Ts, "src/index.ts"),
        ("Python", Lang::Python, "src/handler.py"),
        ("Go", Lang::Go, "main.go"),
        ("C", Lang::C, "plugin-name.c"),
    ];
    assert_eq!(shown.len(), Lang::value_variants().len());
    for (heading, lang, file) in shown {
        let (_, section) = readme.split_once(&format!("**{heading}**\n\n```")).expect("it has a heading");
        let (block, _) = section.split_once("```").expect("a block ends");
        // Behind the language's name.
        let (_, handler) = block.split_once('\n').expect("it has lines");
        let template = lang.contents().template.iter().find(|of| of.path == file).expect("the template has it");
        let template = std::str::from_utf8(template.content).expect("text");
        assert!(template.contains(handler), "{heading}: README.md shows what is not in {file}:\n{handler}");
    }
}

#[test]
fn every_file_that_git_tracks_there_is_in_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = [
        ("host/templates/rust", files::TEMPLATE_RUST),
        ("host/templates/js", files::TEMPLATE_JS),
        ("host/templates/ts", files::TEMPLATE_TS),
        ("host/templates/python", files::TEMPLATE_PYTHON),
        ("host/templates/go", files::TEMPLATE_GO),
        ("host/templates/c", files::TEMPLATE_C),
        ("guest-sdk/rust", files::SDK_RUST),
        ("guest-sdk/js", files::SDK_JS),
        ("guest-sdk/python", files::SDK_PYTHON),
        ("guest-sdk/go", files::SDK_GO),
        ("guest-sdk/c", files::SDK_C),
        ("wit", files::WIT),
    ];
    for (folder, embedded) in folders {
        let listed = Command::new("git").args(["ls-files", "-s", "--", folder]).current_dir(&root).output();
        let Some(listed) = listed.ok().filter(|output| output.status.success()) else {
            eprintln!("skipped: this is no git repository, so nobody knows what belongs to it");
            return;
        };
        let listed = String::from_utf8(listed.stdout).expect("names are text");
        let tracked: BTreeSet<&str> = listed
            .lines()
            .filter(|line| !line.starts_with("120000"))
            .filter_map(|line| line.split_once('\t')?.1.strip_prefix(folder)?.strip_prefix('/'))
            .collect();
        let ours: BTreeSet<&str> = embedded.iter().map(|file| file.path).collect();
        assert_eq!(ours, tracked, "{folder}: run scripts/list-templates");
    }
}
