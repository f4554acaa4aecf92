//! What people are told of files and jobs that are wrong.

use super::*;

#[tokio::test]
async fn a_broken_version_is_told_beside_the_one_that_serves_and_going_back_ends_it() {
    let b = Bench::new();
    b.write("acme/a.wasm", "good 1 end");
    let mut f = b.follow().await;
    let serving = f.state(PluginState::Serving).await.plugins[0].serving.clone().unwrap();
    b.write("acme/a.wasm", "broken");
    let survey = f.state(PluginState::Stale).await;
    let plugin = &survey.plugins[0];
    assert_eq!(plugin.serving.as_ref(), Some(&serving));
    assert_eq!(plugin.refused.as_ref().map(|version| version.size), Some(6));
    assert!(plugin.problems[0].contains("it is no plugin"), "{plugin:?}");
    assert!(plugin.jobs[0].runnable);
    b.write("acme/a.wasm", "good 1 end");
    let survey = f.state(PluginState::Serving).await;
    assert_eq!((survey.plugins[0].serving.as_ref(), &survey.plugins[0].refused), (Some(&serving), &None));
    f.plugins.stop().await;
}

#[tokio::test]
async fn jobs_of_a_plugin_that_does_not_serve_are_known_and_not_offered() {
    let b = Bench::new();
    let job = |name: String| format!("[[jobs]]\nname = \"{name}\"\nevery = \"1m\"\n");
    for name in ["core", "none"] {
        b.write(&format!("acme/{name}.toml"), &(job(format!("{name}-j")) + &job(format!("{name}-k"))));
    }
    b.write("acme/core.wasm", "a core module");
    let catalog = b.scan().await;
    assert!(catalog.jobs.is_empty());
    let idle: Vec<_> = catalog.idle.iter().map(|idle| format!("{}: {}", idle.spec.key, idle.reason())).collect();
    assert_eq!(
        idle,
        [
            "acme/core-j: it is no plugin",
            "acme/core-k: it is no plugin",
            "acme/none-j: there is no none.wasm beside the manifest; copy it there",
            "acme/none-k: there is no none.wasm beside the manifest; copy it there",
        ]
    );
    let survey = b.survey().await;
    assert!(survey.plugins.iter().all(|plugin| plugin.state == PluginState::Refused && plugin.jobs.len() == 2));
    assert!(survey.plugins.iter().flat_map(|plugin| &plugin.jobs).all(|job| !job.runnable && job.problems.len() == 1));
}

#[tokio::test]
async fn a_job_that_is_defined_twice_stays_with_the_older_definition_after_a_restart() {
    let b = Bench::new();
    let manifest = "[[jobs]]\nname = \"j\"\n";
    for (name, age) in [("a", 10), ("b", 1_000), ("c", 100)] {
        b.write(&format!("acme/{name}.wasm"), &format!("good {name} end"));
        b.write(&format!("acme/{name}.toml"), manifest);
        let file = fs::File::options().write(true).open(b.path(&format!("acme/{name}.toml"))).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.set_modified(modified - Duration::from_secs(age)).unwrap();
    }
    for _restart in 0..2 {
        assert_eq!(jobs(&*b.scan().await), ["acme/j b"]);
    }
    let survey = b.survey().await;
    let told = &survey.plugins[0].jobs[0].problems[0];
    assert!(told.contains("the job acme/j is defined already, by acme/b.wasm"), "{told}");
}

#[tokio::test]
async fn a_survey_tells_every_file() {
    let b = Bench::new();
    b.write("acme/a.wasm", "good 1 end");
    b.write("acme/a.toml", "[[jobs]]\nname = \"j\"\npayload_file = \"p.json\"\n");
    for file in ["acme/p.json", "acme/a.wasm~", "README", "acme/Bad.wasm"] {
        b.write(file, "x");
    }
    let survey = b.survey().await;
    let odd: Vec<_> =
        survey.odd.iter().map(|odd| (odd.file.rsplit_once("plugins/").unwrap().1, odd.problem.is_some())).collect();
    assert_eq!(odd, [("acme/Bad.wasm", true), ("README", false), ("acme/a.wasm~", false)]);
}

#[tokio::test]
async fn fifty_jobs_with_a_fault_each_are_told_and_the_others_serve() {
    let b = Bench::new();
    let long = "x".repeat(10_000);
    let faults = [
        "schedule = \"\"".to_owned(),
        "schedule = \"*/60 * * * *\"".to_owned(),
        "schedule = \"* * * *\"".to_owned(),
        "schedule = \"61 * * * *\"".to_owned(),
        "schedule = \"0 2 * * *\"\ntimezone = \"Mars/Olympus\"".to_owned(),
        format!("schedule = \"{long}\""),
        "every = \"1m\"\nlease = \"1m\"".to_owned(),
    ];
    let bad = faults.iter().cycle().take(48).enumerate();
    let manifest =
        bad.fold(String::new(), |text, (n, fault)| text + &format!("[[jobs]]\nname = \"bad{n}\"\n{fault}\n"));
    b.write("acme/a.wasm", "good 1 end");
    b.write(
        "acme/a.toml",
        &format!("[[jobs]]\nname = \"fine\"\nevery = \"1m\"\n{manifest}[[jobs]]\nname = \"fine\"\n"),
    );
    b.write("acme/lonely.toml", "[[jobs]]\nname = \"missing\"\nevery = \"1m\"\n");
    let catalog = b.scan().await;
    assert_eq!(jobs(&catalog), ["acme/fine 1"]);
    let told: Vec<String> = catalog.refused.iter().map(ToString::to_string).collect();
    for n in 0..48 {
        let key = format!(": jobs.bad{n}.");
        assert!(told.iter().any(|told| told.contains(&key)), "bad{n}: {told:#?}");
    }
    assert!(told.iter().any(|told| told.contains("fine is defined twice")), "{told:#?}");
    assert!(told.iter().any(|told| told.contains("there is no lonely.wasm")), "{told:#?}");
    assert!(told.iter().all(|told| told.len() < 1_000), "each is short");
    // On hot reload the same: what ran before goes on.
    let mut f = b.follow().await;
    b.write("acme/a.toml", &format!("[[jobs]]\nname = \"fine\"\nevery = \"2m\"\n{manifest}"));
    let period = Duration::from_secs(120);
    f.until("the new interval", |catalog| {
        catalog.jobs.values().all(|job| job.spec.schedule.as_ref().is_some_and(|s| s.least_gap() == period))
    })
    .await;
    f.plugins.stop().await;
}

#[tokio::test]
async fn check_tells_what_is_wrong_in_configuration_and_plugins_at_once() {
    let b = Bench::new();
    fs::write(b.folder.path().join("leasehold.toml"), "[defaults]\nheartbeat = \"20s\"\n").unwrap();
    b.write("acme/bad.wasm", "text");
    b.write("acme/good.wasm", "good 1 end");
    b.write("acme/good.toml", "[[jobs]]\nname = \"j\"\nevery = \"1m\"\n");
    let sources = Sources { flags: Flags { store: Some("x".into()), ..Flags::default() }, ..b.sources() };
    let told = check(&sources, Zones::bundled(), b.loader.clone(), Bench::LATER).await.problems;
    assert_eq!(told.iter().count(), 3, "{told}");
}

#[tokio::test]
async fn what_is_no_mistake_and_perhaps_not_meant_is_noted() {
    let b = Bench::new();
    let secret = "TOKEN = { env = \"T\", origin = \"https://api.example.com\", header = \"authorization\" }";
    let allow = "[tenants.acme.http]\nallow = [\"https://api.example.com\"]";
    fs::write(b.folder.path().join("leasehold.toml"), format!("{allow}\n[tenants.acme.secrets]\n{secret}\n")).unwrap();
    for name in ["bare", "jobs"] {
        b.write(&format!("acme/{name}.wasm"), "good 1 end");
    }
    let fine = "http = [\"https://api.example.com\"]\nconfig = [\"TOKEN\"]\nevery = \"1m\"\n";
    let jobs = "[[jobs]]\nname = \"idle\"\n[[jobs]]\nname = \"mute\"\nconfig = [\"TOKEN\"]\nevery = \"1m\"\n";
    b.write("acme/jobs.toml", &format!("[[jobs]]\nname = \"fine\"\n{fine}{jobs}"));
    let sources = Sources { env: vec![("T".into(), "x".into())], ..b.sources() };
    let found = check(&sources, Zones::bundled(), b.loader.clone(), Bench::LATER).await;
    assert!(found.problems.is_empty(), "{}", found.problems);
    let folder = format!("{}/", b.path("acme").display());
    let notes: Vec<String> = found.notes.iter().map(|note| note.to_string().replace(&folder, "")).collect();
    assert_eq!(
        notes,
        [
            "bare.wasm: no manifest is beside it, so it is the job acme/bare, which never starts by itself; write [[jobs]] \
             with name and schedule into bare.toml",
            "jobs.toml:6: jobs.idle: it has no schedule, so it never starts by itself; write schedule = \"@hourly\" or \
             every = \"90s\"",
            "jobs.toml:10: jobs.mute.config: the secret TOKEN goes to https://api.example.com alone, where the job sends \
             nothing; write http = [\"https://api.example.com\"]",
        ]
    );
}

#[tokio::test]
async fn what_must_not_be_opened_or_is_too_large_is_refused_without_reading_it() {
    let b = Bench::new();
    let secret = "hunter2 = [";
    b.write("secret.txt", secret);
    let pipe = std::process::Command::new("mkfifo").arg(b.path("acme/pipe.wasm")).status().unwrap();
    assert!(pipe.success());
    for (link, to) in [("out.wasm", "../secret.txt"), ("zero.wasm", "/dev/zero"), ("magic.wasm", "/proc/self/exe")] {
        symlink(to, b.path("acme").join(link)).unwrap();
    }
    for (name, size) in [("huge.wasm", super::super::super::PLUGIN_FILE_MAX + 1), ("long.toml", (1 << 20) + 1)] {
        fs::File::create(b.path("acme").join(name)).unwrap().set_len(size).unwrap();
    }
    b.write("acme/long.wasm", "good 1 end");
    b.write("acme/link.wasm", "good 1 end");
    symlink("../secret.txt", b.path("acme/link.toml")).unwrap();
    let told = b.scan().await.problems().to_string();
    for (file, reason) in [
        ("pipe.wasm", "not a regular file"),
        ("out.wasm", "leads out of the tenant's folder"),
        ("zero.wasm", "leads out of the tenant's folder"),
        ("magic.wasm", "leads out of the tenant's folder"),
        ("huge.wasm", "larger than 67108864 bytes"),
        ("long.toml", "larger than 1048576 bytes"),
        ("link.toml", "leads out of the tenant's folder"),
    ] {
        let line = told.lines().find(|line| line.contains(file));
        assert!(line.is_some_and(|line| line.contains(reason)), "{file}: {told}");
    }
    assert!(!told.contains("hunter2"), "{told}");
    assert_eq!(b.loader.loads.load(Ordering::Relaxed), 2, "nothing of it reached the loader");
}
