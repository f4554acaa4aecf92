//! Whose plugin is loaded next, and what is tried again.

use super::*;

#[test]
fn a_tenant_with_much_to_load_does_not_hold_up_the_others() {
    let mut b = Bench::new("");
    b.look(&[("a/1", "1", "m"), ("a/2", "1", "m"), ("a/3", "1", "m"), ("b/1", "1", "m")], true);
    let mut next = || b.next_load().map(|request| request.id.to_string());
    let order: Vec<_> = std::iter::from_fn(&mut next).collect();
    assert_eq!(order, ["a/1", "b/1", "a/2", "a/3"]);
}

#[test]
fn what_must_be_compiled_waits_for_that_step_and_keeps_nobody_in_the_first_one() {
    let mut b = Bench::new("");
    b.look(&[("a/x", "1", "m"), ("b/y", "1", "m")], true);
    let Request { id, seen, .. } = b.state.next_load(Step::Find).unwrap();
    assert!(b.state.next_load(Step::Compile).is_none(), "nobody knows yet that it must be");
    let uncompiled = |seen| Loaded {
        seen,
        version: None,
        plugin: Part::Uncompiled(Step::Compile),
        jobs: Part::Same,
        metered: false,
    };
    b.state.loaded(Outcome { id: id.clone(), result: Some(uncompiled(seen)) });
    let compiling = b.state.next_load(Step::Compile).unwrap();
    assert!(compiling.id == id && compiling.wasm && compiling.manifest, "all of it is read again");
    assert_eq!(b.state.next_load(Step::Find).unwrap().id.to_string(), "b/y");
    assert_eq!((b.state.loading(Step::Find), b.state.loading(Step::Compile)), (1, 1));
    // A version that comes meanwhile may have been compiled before.
    b.state.loaded(Outcome { id: id.clone(), result: Some(uncompiled(compiling.seen)) });
    for _ in 0..2 {
        b.look(&[("a/x", "2", "m"), ("b/y", "1", "m")], false);
    }
    assert!(b.state.next_load(Step::Compile).is_none());
    assert_eq!(b.state.next_load(Step::Find).unwrap().id, id);
}

#[test]
fn what_this_host_could_not_load_is_tried_again_ever_more_rarely_until_it_can() {
    let mut b = Bench::new("");
    let look = |b: &mut Bench| b.look(&[("a/x", "1", "m")], true);
    let answer = |b: &mut Bench, plugin: Part<Arc<String>>| {
        let Some(Request { id, seen, wasm, .. }) = b.next_load() else { return false };
        assert!(wasm, "its code is read again");
        let jobs = Part::Taken(vec![job(&id, "j", true)]);
        b.state.loaded(Outcome { id, result: Some(Loaded { seen, version: None, plugin, jobs, metered: false }) });
        true
    };
    let postponed = || Part::Postponed(Problem::of(Place::Flag("test"), "no process could be started").into());
    look(&mut b);
    assert!(answer(&mut b, postponed()));
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let mut looks = 0;
        while !answer(&mut b, postponed()) {
            look(&mut b);
            looks += 1;
        }
        pauses.push(looks);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 32, 32]);
    assert!(b.served().0.is_empty() && b.reasons().contains("no process could be started"), "{}", b.reasons());
    while !answer(&mut b, Part::Taken(Arc::new("1".to_owned()))) {
        look(&mut b);
    }
    assert_eq!(b.served(), (vec!["a/j 1".to_owned()], 0, 0));
    for _ in 0..100 {
        look(&mut b);
        assert!(b.next_load().is_none(), "it serves");
    }
}

#[test]
fn tenants_that_change_their_plugins_again_and_again_leave_others_their_turn() {
    let mut b = Bench::new("");
    let mut order = Vec::new();
    for round in 0..6 {
        let version = round.to_string();
        b.look(&[("a/x", &version, "m"), ("b/x", &version, "m"), ("c/x", "1", "m")], true);
        let Some(Request { id, seen, .. }) = b.next_load() else { break };
        order.push(id.tenant.to_string());
        let plugin = Part::Taken(Arc::new("1".to_owned()));
        let jobs = Part::Taken(Vec::new());
        b.state.loaded(Outcome { id, result: Some(Loaded { seen, version: None, plugin, jobs, metered: false }) });
    }
    assert_eq!(order, ["a", "b", "c", "a", "b", "a"]);
}
