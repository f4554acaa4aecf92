//! What `leasehold exec` compiles is kept for its user alone, and nothing runs that somebody else could have put there.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use leasehold_tests::Workplace;

/// The least that is a plugin: a WASI command that does nothing.
const NOTHING: &str = r#"(module (memory (export "memory") 1) (func (export "_start")))"#;

/// Whoever is not the user that tests run as.
const NOBODY: u32 = 65_534;

/// Makes a folder, or a file in it, unsafe.
type Harm = fn(&Path);

#[test]
fn what_exec_compiles_is_found_again_and_only_its_user_can_read_it() {
    let w = workplace();
    assert_eq!(exec(&w), "");
    let code = only_code(&w);
    assert_eq!([mode(&folder(&w)), mode(&code)], [0o700, 0o600]);
    let made = fs::metadata(&code).expect("it is there").ino();
    assert_eq!(exec(&w), "");
    // Code that is made anew is another file under that name.
    assert_eq!(fs::metadata(only_code(&w)).expect("it is there").ino(), made);
}

#[test]
fn a_folder_that_others_could_write_to_takes_no_compiled_code_and_exec_says_why() {
    let cases: [(&str, Harm); 3] = [
        ("its mode is 0770, which lets others in", |folder| set_mode(folder, 0o770)),
        ("it is not a directory", move_behind_a_link),
        ("it belongs to user 65534", give_away),
    ];
    for (problem, harm) in can_be_done(cases) {
        let w = workplace();
        fs::create_dir_all(folder(&w)).expect("folders can be made");
        set_mode(&folder(&w), 0o700);
        harm(&folder(&w));
        let told = exec(&w);
        assert!(told.contains("compiled anew each time") && told.contains(problem), "{problem}: {told}");
        assert_eq!(fs::read_dir(folder(&w)).expect("it is there").count(), 0, "{problem}");
    }
}

#[test]
fn compiled_code_that_others_could_have_put_there_is_made_anew() {
    let cases: [(&str, Harm); 3] = [
        ("its mode is 0666, which lets others in", |code| set_mode(code, 0o666)),
        ("it is not a regular file", move_behind_a_link),
        ("it belongs to user 65534", give_away),
    ];
    for (problem, harm) in can_be_done(cases) {
        let w = workplace();
        exec(&w);
        harm(&only_code(&w));
        let told = exec(&w);
        assert!(told.contains("made anew") && told.contains(problem), "{problem}: {told}");
        let now = fs::symlink_metadata(only_code(&w)).expect("it is there");
        assert!(now.is_file() && now.uid() == fs::metadata(w.path()).expect("ours").uid(), "{problem}: {now:?}");
        assert_eq!((mode(&only_code(&w)), exec(&w).as_str()), (0o600, ""), "{problem}");
    }
}

fn workplace() -> Workplace {
    let w = Workplace::new("");
    w.write("x.wasm", wat::parse_str(NOTHING).expect("a module"));
    w
}

/// `leasehold exec` of somebody whose caches lie in the workplace: what it says on standard error.
fn exec(w: &Workplace) -> String {
    let mut command = w.command(&["exec", "x.wasm"]);
    let output = command.env("XDG_CACHE_HOME", w.path().join("caches")).output().expect("leasehold can be run");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    told
}

fn folder(w: &Workplace) -> PathBuf {
    w.path().join("caches/leasehold/compiled")
}

fn only_code(w: &Workplace) -> PathBuf {
    let entries = fs::read_dir(folder(w)).expect("the folder is there").map(|entry| entry.expect("an entry").path());
    let code: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|is| is == "cwasm")).collect();
    let [only] = code.as_slice() else { panic!("one file of compiled code, got {code:?}") };
    only.clone()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("its mode can be set");
}

/// The same content, though elsewhere.
fn move_behind_a_link(path: &Path) {
    let elsewhere = path.with_extension("elsewhere");
    fs::rename(path, &elsewhere).expect("it can be renamed");
    symlink(&elsewhere, path).expect("a link can be made");
}

fn give_away(path: &Path) {
    chown(path, Some(NOBODY), None).expect("root may give files away");
}

/// All cases for root, who alone can give files away.
fn can_be_done(cases: [(&'static str, Harm); 3]) -> impl Iterator<Item = (&'static str, Harm)> {
    let is_root = rustix::process::geteuid().is_root();
    cases.into_iter().filter(move |(problem, _)| {
        let can = is_root || !problem.contains("belongs to");
        if !can {
            eprintln!("skipped \"{problem}\": only root can give files away");
        }
        can
    })
}
