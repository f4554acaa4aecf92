//! Signs that are lost, directories that come and go, and floods.

use super::*;

#[tokio::test]
async fn where_no_watch_is_left_the_slow_rescan_finds_what_changed() {
    let b = Bench::new();
    let mut f =
        b.follow_at(Pace { rescan: Duration::from_millis(20), source: Source::Exhausted, ..Pace::default() }).await;
    b.write("acme/a.wasm", "good 1 end");
    f.jobs(&["acme/a 1"]).await;
    b.write("acme/a.wasm", "good 2 end");
    f.jobs(&["acme/a 2"]).await;
    f.plugins.stop().await;
}

#[tokio::test]
async fn a_directory_that_is_missing_at_start_or_made_again_is_watched_when_it_is_there() {
    let b = Bench::new();
    fs::remove_dir_all(b.path("")).unwrap();
    // The rescan finds the directory; from then on signs alone are quick enough.
    let mut f = b.follow_at(Pace { rescan: Duration::from_secs(2), ..Pace::default() }).await;
    for round in ["1", "2"] {
        fs::create_dir_all(b.path("acme")).unwrap();
        b.write("acme/a.wasm", &format!("good {round} end"));
        f.jobs(&[&format!("acme/a {round}")]).await;
        b.write("acme/b.wasm", "good b end");
        f.jobs(&[&format!("acme/a {round}"), "acme/b b"]).await;
        b.lose();
        f.until("told", |catalog| !catalog.refused.is_empty()).await;
    }
    f.plugins.stop().await;
}

#[tokio::test]
async fn a_directory_that_is_gone_for_a_while_keeps_what_serves_and_one_that_is_emptied_does_not() {
    let b = Bench::new();
    b.write("acme/a.wasm", "good 1 end");
    let mut f = b.follow_without_signs().await;
    f.jobs(&["acme/a 1"]).await;
    let aside = b.folder.path().join("aside");
    fs::rename(b.path(""), &aside).unwrap();
    let catalog = f.until("told", |catalog| !catalog.refused.is_empty()).await;
    assert!(catalog.problems().to_string().contains("what serves goes on serving"), "{}", catalog.problems());
    fs::write(aside.join("acme/b.wasm"), "good 2 end").unwrap();
    fs::rename(&aside, b.path("")).unwrap();
    f.jobs(&["acme/a 1", "acme/b 2"]).await;
    assert_eq!(b.loader.loads.load(Ordering::Relaxed), 2, "what served was never away");
    fs::remove_dir_all(b.path("acme")).unwrap();
    f.jobs(&[]).await;
    f.plugins.stop().await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_read_for_a_while_keeps_what_serves() {
    let b = Bench::new();
    b.write("acme/a.wasm", "good 1 end");
    let mut f = b.follow_without_signs().await;
    f.jobs(&["acme/a 1"]).await;
    // A folder that cannot be listed; the tests may run as root, whom no permission stops.
    fs::rename(b.path(""), b.folder.path().join("aside")).unwrap();
    fs::write(b.folder.path().join("plugins"), "").unwrap();
    let catalog = f.until("told", |catalog| !catalog.refused.is_empty()).await;
    assert!(catalog.problems().to_string().contains("the plugin directory cannot be read"));
    fs::write(b.folder.path().join("aside/acme/b.wasm"), "good 2 end").unwrap();
    fs::remove_file(b.folder.path().join("plugins")).unwrap();
    fs::rename(b.folder.path().join("aside"), b.path("")).unwrap();
    f.jobs(&["acme/a 1", "acme/b 2"]).await;
    assert_eq!(b.loader.loads.load(Ordering::Relaxed), 2, "what served was never away");
    f.plugins.stop().await;
}

#[tokio::test]
async fn without_any_sign_the_slow_rescan_finds_what_changed() {
    let b = Bench::new();
    fs::remove_dir_all(b.path("")).unwrap();
    let mut f = b.follow_without_signs().await;
    assert!(f.catalog.borrow().problems().to_string().contains("the plugin directory cannot be read"));
    fs::create_dir_all(b.path("acme")).unwrap();
    b.write("acme/a.wasm", "good 1 end");
    f.jobs(&["acme/a 1"]).await;
    b.write("acme/a.wasm", "good 2 end");
    f.jobs(&["acme/a 2"]).await;
    b.lose();
    f.until("told", |catalog| !catalog.refused.is_empty()).await;
    f.jobs(&["acme/a 2"]).await;
    fs::create_dir(b.path("")).unwrap();
    f.jobs(&[]).await;
    f.plugins.stop().await;
}

#[tokio::test]
async fn ten_thousand_files_of_one_tenant_do_not_hold_up_another() {
    // In memory, where the system has such a place: the files are many, and it is not the disk that is tested.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    fs::create_dir_all(folder.path().join("plugins/acme")).unwrap();
    let b = Bench { folder, loader: Loader::default() };
    let mut f = b.follow().await;
    let root = b.path("flood");
    fs::create_dir(&root).unwrap();
    for n in 0..9_990 {
        fs::write(root.join(format!("p{n}.wasm")), "good flood end").unwrap();
    }
    // They never come to rest: each is written again and again.
    let flood = tokio::spawn(async move {
        for n in (0..9_990).cycle() {
            fs::write(root.join(format!("p{n}.wasm")), format!("good {n} end")).unwrap();
            if n % 10 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    f.until("the flood is there", |catalog| {
        catalog.refused.iter().any(|r| r.problems.to_string().contains("9940 more"))
    })
    .await;
    for version in ["1", "2", "3"] {
        let began = clock::mono();
        b.write("acme/a.wasm", &format!("good {version} end"));
        f.until("the other tenant's version", |catalog| jobs(catalog).contains(&format!("acme/a {version}"))).await;
        let took = clock::mono().since(began);
        assert!(took < Duration::from_secs(30), "version {version} took {took:?}");
    }
    flood.abort();
    let survey = Arc::clone(&f.survey.borrow());
    assert!(survey.plugins.len() <= 52, "what a tenant has no room for is told once: {}", survey.plugins.len());
    f.plugins.stop().await;
}
