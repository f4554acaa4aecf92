use super::*;

const LIMIT: u64 = 1 << 30;
const TENANT: &str = "acme";

/// A cache with the code of the smallest component in it.
fn filled(dir: &Path) -> (Engine, CodeCache, Digest) {
    let engine = engine::for_compiling(false).expect("an engine");
    let cache = CodeCache::open(&dir.join("code"), &engine, LIMIT).expect("a directory");
    let digest = Digest::new([7; 32]);
    keep(&engine, &cache, &digest, TENANT);
    (engine, cache, digest)
}

/// As a compiler and the host that started it do.
fn keep(engine: &Engine, cache: &CodeCache, digest: &Digest, tenant: &str) {
    let code = engine.precompile_component(b"\0asm\x0d\0\x01\0").expect("it compiles");
    let draft = cache.draft(digest).expect("a draft");
    let checksum = checksum(&code);
    fs::write(&draft.path, [&code[..], &checksum.to_le_bytes()].concat()).expect("it is written");
    cache.keep(digest, draft, &Artifact { size: code.len() as u64, checksum }, tenant).expect("it is kept");
}

/// As if the note had been written well after the code.
fn settle(path: &Path) {
    settle_at(path, 0);
}

/// The same, this many seconds later.
fn settle_at(path: &Path, seconds: u64) {
    let changed = path.metadata().unwrap().modified().unwrap();
    let note = File::options().write(true).open(path.with_extension("whole")).expect("a note");
    note.set_modified(changed + Duration::from_secs(1 + seconds)).expect("its time is set");
}

fn is_known(path: &Path) -> bool {
    integrity::is_known(path, &path.metadata().unwrap())
}

/// Makes the checksum wrong, and leaves the code as it is.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).expect("it is there");
    *bytes.last_mut().expect("it is not empty") ^= 1;
    fs::write(path, bytes).expect("it can be written");
}

#[test]
fn what_was_found_whole_is_not_read_again_until_something_writes_to_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (engine, cache, digest) = filled(dir.path());
    let path = cache.path(&digest);
    assert!(!is_known(&path), "nobody has read it");
    assert!(cache.load(&engine, &digest, TENANT).is_some());
    assert!(!is_known(&path), "it was read within the tick in which it was written: what came last cannot be told");
    for _ in 0..2 {
        settle(&path);
        assert!(is_known(&path), "it was read, and nothing has changed");
        assert!(cache.load(&engine, &digest, TENANT).is_some());
    }
    settle(&path);
    damage(&path);
    assert!(!is_known(&path), "it was written to");
    assert!(cache.load(&engine, &digest, TENANT).is_none() && !path.exists(), "the damage is found");
}

#[test]
fn a_note_of_another_run_of_the_machine_or_of_another_file_counts_for_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let (engine, cache, digest) = filled(dir.path());
    let path = cache.path(&digest);
    cache.load(&engine, &digest, TENANT).expect("it is sound");
    settle(&path);
    let beside = path.with_extension("whole");
    let note = fs::read_to_string(&beside).expect("a note");
    let boot = note.split(' ').next().expect("its first word");
    for other in [note.replace(boot, "another"), note[..note.len() - 1].to_owned(), format!("{note}\n"), String::new()]
    {
        fs::write(&beside, other).unwrap();
        settle(&path);
        assert!(!is_known(&path));
    }
    fs::write(&beside, note).unwrap();
    settle(&path);
    assert!(is_known(&path), "this one was right");
    // The same code again, as another host process would put it in place.
    keep(&engine, &cache, &digest, TENANT);
    settle(&path);
    assert!(!is_known(&path));
}

#[test]
fn a_file_that_is_noted_as_whole_is_loaded_without_being_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let (engine, cache, digest) = filled(dir.path());
    let path = cache.path(&digest);
    damage(&path);
    integrity::note(&path, &path.metadata().unwrap(), TENANT).expect("it can be noted");
    settle(&path);
    assert!(cache.load(&engine, &digest, TENANT).is_some(), "only the checksum is wrong, and nobody looks at it");
}

#[test]
fn what_is_removed_takes_its_note_along() {
    let dir = tempfile::tempdir().expect("a directory");
    let (engine, cache, digest) = filled(dir.path());
    cache.load(&engine, &digest, TENANT).expect("it is sound");
    let small = CodeCache { limit: 1, ..CodeCache::open(cache.dir(), &engine, LIMIT).expect("the same") };
    let next = Digest::new([8; 32]);
    keep(&engine, &small, &next, TENANT);
    let left: Vec<_> = fs::read_dir(cache.dir()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [small.path(&next)]);
}

#[test]
fn one_tenant_s_many_plugins_push_out_its_own_code_and_nobody_else_s() {
    let dir = tempfile::tempdir().expect("a directory");
    let (engine, cache, quiet) = filled(dir.path());
    let size = cache.path(&quiet).metadata().expect("it is kept").len();
    cache.load(&engine, &quiet, "quiet").expect("it is sound");
    // Whoever uses it is whose it is, not who had it compiled.
    assert_eq!(integrity::noted_tenant(&cache.path(&quiet)).as_deref(), Some("quiet"));
    let small = CodeCache { limit: 3 * size, ..CodeCache::open(cache.dir(), &engine, LIMIT).expect("the same") };
    let greedy = |n: u8| Digest::new([100 + n; 32]);
    for n in 0..5 {
        keep(&engine, &small, &greedy(n), "greedy");
        small.load(&engine, &greedy(n), "greedy").expect("it is sound");
        // The next one is used later, however coarse the file system's times are.
        settle_at(&small.path(&greedy(n)), n.into());
    }
    assert!(small.load(&engine, &quiet, "quiet").is_some(), "it was used longest ago of all");
    let left = (0..5).filter(|n| small.path(&greedy(*n)).exists()).collect::<Vec<_>>();
    assert_eq!(left, [3, 4]);
}

#[test]
fn what_killed_processes_left_among_temporary_files_is_removed_and_what_is_in_use_or_new_is_not() {
    let among = tempfile::tempdir().expect("a directory");
    let made = |name: &str, settled: bool| {
        let path = among.path().join(name);
        DirBuilder::new().mode(0o700).create(&path).expect("made");
        fs::write(path.join("a.cwasm"), "code").expect("written");
        let dir = File::open(&path).expect("it is there");
        if settled {
            let now = dir.metadata().and_then(|of| of.modified()).expect("it has a time");
            dir.set_modified(now - 2 * SETTLED).expect("its time can be set");
        }
        (path, dir)
    };
    let (left, _) = made("leasehold-compiled-left", true);
    let (new, _) = made("leasehold-compiled-new", false);
    let (other, _) = made("somebody-elses", true);
    let (used, lock) = made("leasehold-compiled-used", true);
    flock(&lock, FlockOperation::NonBlockingLockShared).expect("locked");
    remove_left_behind(among.path()).expect("it cleans up");
    assert_eq!([left, new, other, used].map(|path| path.exists()), [false, true, true, true]);
}
