//! Faults of one line, put into the scripts on purpose: the suite finds each.

use leasehold_test_servers::shared_redis;

use super::corners;
use super::support::with_scripts;
use crate::conformance::{self, Bench};
use crate::redis::scripts::Scripts;

/// What is right, and what is put in its place.
const FAULTS: &[(&str, &str)] = &[
    // claim_first.lua
    ("now <= not_after and now", "now"),
    ("now <= slot + late_after", "true"),
    ("slot <= now + early_before then", "true then"),
    ("found[1] and not found[2]", "found[1]"),
    ("if unfinished == 0 and slot", "if slot"),
    ("slot > highest_won and slot > newest_started", "true"),
    ("math.max(last_fence + 1, math.max(slot, 0) * 1024 + 1)", "math.max(slot, 0) * 1024 + 1"),
    ("math.max(largest_bound, bound), slot)", "largest_bound, slot)"),
    ("redis.call('ZADD', KEYS[1] .. 'open', 0, name)\n      return", "return"),
    // claim.lua
    ("if now > not_after then", "if false then"),
    ("run.token == token and status == 'running' and live(run, now)", "run.token == token and status == 'running'"),
    ("or was_token(name, id, run, token)", ""),
    ("  cut_back(job, now)\n  return answered(job, now, 'won'", "  return answered(job, now, 'won'"),
    ("cut_back(job, now)\nif run then", "if run then"),
    ("if ask.skips and other ~= ask.id", "if other ~= ask.id"),
    ("run.due > newest.due or", "run.due < newest.due or"),
    ("if ask.slot and older and older < ask.slot then", "if false then"),
    ("elseif ask.skips and not run.released then", "elseif false then"),
    ("    keep_former(job, id, run, now)\n", ""),
    (
        "math.max(job.last_fence + 1, math.max(run.due, 0) * 1024 + run.attempt)",
        "math.max(run.due, 0) * 1024 + run.attempt",
    ),
    ("if run.cancelled then\n      -- Its", "if false then\n      -- Its"),
    ("elseif slot and job.newest_started > slot then", "elseif false then"),
    ("elseif used >= ask.max_attempts then", "elseif used > ask.max_attempts then"),
    ("local used, reason = run.starts - run.hand_overs, nil", "local used, reason = run.starts, nil"),
    ("if job.newest_skipped < slot then", "if false then"),
    ("  if slot <= job.newest_started then", "  if slot < job.newest_started then"),
    ("(slot <= job.newest_skipped or not since or slot < since)", "(not since or slot < since)"),
    ("(slot <= job.newest_skipped or not since or slot < since)", "(slot <= job.newest_skipped or not since)"),
    ("not job.hold[1] or now < tonumber(job.hold[1])", "true"),
    // heartbeats.lua, finish.lua, release.lua
    ("current ~= token or flags % 2 == 1 then\n    return", "current ~= token then\n    return"),
    ("current ~= token or flags % 2 == 1 then\n    return", "flags % 2 == 1 then\n    return"),
    ("local lease_end = now + lease\n", "local lease_end = now + lease + 1\n"),
    ("flags >= 2 and 1 or 0", "0"),
    ("current ~= token or flags % 2 == 1 then\n  -- S13", "current ~= token then\n  -- S13"),
    ("its_outcome == outcome and at <= #final", "its_outcome == outcome"),
    ("its_outcome == outcome and at <= #final", "at <= #final"),
    ("kept_size + more, now, now", "kept_size, now, now"),
    ("redis.call('HDEL', KEYS[1] .. 'state:' .. name, id)\n", ""),
    ("if run and handed_over(run) then", "if false then"),
    ("run.hand_overs + 1, now", "run.hand_overs, now"),
    // cancel.lua, close.lua, unblock.lua, hold.lua, announce.lua, trigger.lua
    ("status == 'pending' or not live(run, now) then", "status == 'pending' then"),
    ("if not run.cancelled then", "if true then"),
    ("if now <= offered + tonumber(ARGV[3]) then", "if now < offered + tonumber(ARGV[3]) then"),
    (
        "if status == 'running' and live(run, now) then\n  return answered(job, now, 'live')",
        "if false then\n  return 1",
    ),
    ("job.newest_skipped = math.min(job.newest_skipped, newest_due)\n", ""),
    ("math.min(tonumber(ARGV[2]), now)", "tonumber(ARGV[2])"),
    ("if not former or former[1] ~= till or former[2] ~= ARGV[4] then", "if true then"),
    ("if former and former[1] and former[2] == fingerprint then", "if former and former[1] then"),
    (">= tonumber(ARGV[3]) then\n  return answered(job, now, 'full')", "> tonumber(ARGV[3]) then\n  return 1"),
    ("if redis.call('ZSCORE', KEYS[1] .. 'gone:' .. name, id) then", "if false then"),
    // write.lua, prune.lua, lib
    ("if number < newest then", "if false then"),
    ("if number == newest then", "if false then"),
    ("if more > 0 and stored + more > tonumber(ARGV[7]) then", "if stored + more > tonumber(ARGV[7]) then"),
    (
        "if more > 0 and stored + more > tonumber(ARGV[7]) then",
        "if more > 0 and stored + more >= tonumber(ARGV[7]) then",
    ),
    ("redis.call('HGET', KEYS[1] .. 'kv', key) == expected", "true"),
    ("return not slot or slot <= job.newest_started", "return true"),
    ("if now <= due + kept_for then", "if now < due + kept_for then"),
    ("if now > run.ended_at + kept_for then", "if true then"),
    ("    redis.call('ZADD', KEYS[1] .. 'gone:' .. name, now, id)\n", ""),
    ("redis.call('UNLINK', KEYS[1] .. 'log:' .. name .. ':' .. id,", "redis.call('UNLINK',"),
    ("job.stored = job.stored - run.kept_size\n", ""),
    ("job.stored = job.stored - state_size - 64\n", ""),
    ("not run.released and now <= run.lease_end", "now <= run.lease_end"),
    ("not run.released and now <= run.lease_end", "not run.released and now < run.lease_end"),
];

/// Runs cases until one finds the fault.
macro_rules! found_by {
    ($scripts:expr; $($suite:ident::$case:ident)*) => {{
        let mut found = None;
        $(
            if found.is_none() {
                let bench = with_scripts(shared_redis().await, $scripts).await.expect("the server was there before");
                let case = async move |bench: Bench| $suite::$case(&bench).await;
                if tokio::spawn(case(bench)).await.is_err() {
                    found = Some(stringify!($case));
                }
            }
        )*
        found
    }};
}

async fn found(scripts: &'static Scripts) -> Option<&'static str> {
    found_by!(scripts;
        conformance::a_slot_is_won_once
        conformance::a_lost_answer_is_sent_again
        conformance::a_copy_that_nobody_waits_for_wins_nothing
        conformance::a_slot_is_neither_late_nor_early
        conformance::a_slot_that_ran_is_never_won_again
        conformance::an_expired_run_is_taken_over
        conformance::attempts_are_used_up
        conformance::a_hand_over_does_not_count
        conformance::runs_do_not_overlap_under_skip
        conformance::runs_overlap_under_allow
        conformance::a_newer_run_interrupts_an_older_expired_one
        conformance::a_clock_set_back_is_noticed
        conformance::an_on_demand_run_is_stored_before_it_starts
        conformance::heartbeats_renew_by_exactly_the_lease
        conformance::a_released_lease_stays_released
        conformance::a_finish_is_final
        conformance::a_checkpoint_passes_to_the_next_attempt_and_goes_with_the_end
        conformance::a_compare_and_set_is_answered_once
        conformance::a_tenants_quota_holds_over_all_its_jobs
        conformance::a_cancelled_run_ends_or_its_runner_is_told
        conformance::an_orphan_is_closed
        conformance::a_job_is_unblocked_when_its_clock_was_wrong
        conformance::a_held_job_skips_its_slots
        conformance::an_announcement_tells_where_catching_up_begins
        conformance::unfinished_runs_are_listed_in_pages
        conformance::prune_forgets_runs_with_their_logs
        corners::a_run_that_a_newer_one_has_outrun_is_not_taken_over
        corners::a_pruned_slot_is_not_won_again
        corners::a_run_that_the_store_gave_up_was_not_finished
        corners::the_first_reason_of_a_cancel_stays
        corners::unblocking_goes_no_further_than_the_present
        corners::what_shrinks_is_written_beyond_the_quota
        corners::a_run_above_the_newest_started_slot_is_not_pruned
        corners::a_run_is_kept_until_a_claim_for_it_is_late
        conformance::the_driver_does_what_the_rules_say
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_finds_every_fault() {
    if leasehold_test_servers::or_skip(shared_redis().await).is_none() {
        return;
    }
    let mut missed = Vec::new();
    for (right, wrong) in FAULTS {
        match found(Scripts::with_fault(right, wrong)).await {
            Some(case) => eprintln!("{case} found {wrong:?} in place of {right:?}"),
            None => missed.push((right, wrong)),
        }
    }
    assert!(missed.is_empty(), "nobody found {missed:#?}");
}
