//! Faults of one line, put into the scripts on purpose: each is found by the case that claims it.

use std::pin::Pin;

use leasehold_test_servers::{or_skip, shared_redis};

use super::corners;
use super::support::with_scripts;
use crate::conformance::{self, Bench};
use crate::redis::scripts::Scripts;

/// A fault, and the case that finds it.
struct Fault {
    name: &'static str,
    right: &'static str,
    wrong: &'static str,
    case: fn(Bench) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_is_found_by_the_case_that_claims_it() {
    if or_skip(shared_redis().await).is_none() {
        return;
    }
    let mut missed = Vec::new();
    for Fault { name, right, wrong, case } in FAULTS {
        let bench = with_scripts(shared_redis().await, Scripts::with_fault(right, wrong)).await;
        if tokio::spawn(case(bench.expect("the server was there before"))).await.is_ok() {
            missed.push(format!("{name}: {wrong:?} in place of {right:?}"));
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

/// For each fault the case that finds it, what is right, and what is put in its place.
macro_rules! faults {
    ($($suite:ident::$name:ident: $right:literal => $wrong:literal;)*) => {
        const FAULTS: &[Fault] = &[$(Fault {
            name: stringify!($name),
            right: $right,
            wrong: $wrong,
            case: |bench| Box::pin(async move { $suite::$name(&bench).await }),
        }),*];
    };
}

faults! {
    // claim_first.lua
    conformance::the_driver_does_what_the_rules_say:
        "now <= not_after and now" => "now";
    conformance::the_driver_does_what_the_rules_say:
        "now <= slot + late_after" => "true";
    conformance::the_driver_does_what_the_rules_say:
        "slot <= now + early_before then" => "true then";
    conformance::a_held_job_skips_its_slots:
        "found[1] and not found[2]" => "found[1]";
    conformance::runs_do_not_overlap_under_skip:
        "if unfinished == 0 and slot" => "if slot";
    conformance::a_slot_that_ran_is_never_won_again:
        "slot > highest_won and slot > newest_started" => "true";
    conformance::the_driver_does_what_the_rules_say:
        "math.max(last_fence + 1, math.max(slot, 0) * 1024 + 1)" => "math.max(slot, 0) * 1024 + 1";
    conformance::the_driver_does_what_the_rules_say:
        "math.max(largest_bound, bound), slot)" => "largest_bound, slot)";
    conformance::the_driver_does_what_the_rules_say:
        "redis.call('ZADD', KEYS[1] .. 'open', 0, name)\n      return" => "return";
    // claim.lua
    conformance::a_copy_that_nobody_waits_for_wins_nothing:
        "if now > not_after then" => "if false then";
    conformance::a_lost_answer_is_sent_again:
        "run.token == token and status == 'running' and live(run, now)" => "run.token == token and status == 'running'";
    conformance::an_expired_run_is_taken_over:
        "or was_token(name, id, run, token)" => "";
    conformance::the_driver_does_what_the_rules_say:
        "  cut_back(job, now)\n  return answered(job, now, 'won'" => "  return answered(job, now, 'won'";
    conformance::a_clock_set_back_is_noticed:
        "cut_back(job, now)\nif run then" => "if run then";
    conformance::runs_overlap_under_allow:
        "if ask.skips and other ~= ask.id" => "if other ~= ask.id";
    conformance::the_driver_does_what_the_rules_say:
        "run.due > newest.due or" => "run.due < newest.due or";
    conformance::a_newer_run_interrupts_an_older_expired_one:
        "if ask.slot and older and older < ask.slot then" => "if false then";
    conformance::the_driver_does_what_the_rules_say:
        "elseif ask.skips and not run.released then" => "elseif false then";
    conformance::an_expired_run_is_taken_over:
        "    keep_former(job, id, run, now)\n" => "";
    conformance::the_driver_does_what_the_rules_say:
        "math.max(job.last_fence + 1, math.max(run.due, 0) * 1024 + run.attempt)"
            => "math.max(run.due, 0) * 1024 + run.attempt";
    conformance::a_cancelled_run_ends_or_its_runner_is_told:
        "if run.cancelled then\n      -- Its" => "if false then\n      -- Its";
    corners::a_run_that_a_newer_one_has_outrun_is_not_taken_over:
        "elseif slot and job.newest_started > slot then" => "elseif false then";
    conformance::attempts_are_used_up:
        "elseif used >= ask.max_attempts then" => "elseif used > ask.max_attempts then";
    conformance::a_hand_over_does_not_count:
        "local used, reason = run.starts - run.hand_overs, nil" => "local used, reason = run.starts, nil";
    conformance::runs_do_not_overlap_under_skip:
        "if job.newest_skipped < slot then" => "if false then";
    corners::a_pruned_slot_is_not_won_again:
        "  if slot <= job.newest_started then" => "  if slot < job.newest_started then";
    conformance::the_driver_does_what_the_rules_say:
        "(slot <= job.newest_skipped or not since or slot < since)" => "(not since or slot < since)";
    conformance::the_driver_does_what_the_rules_say:
        "(slot <= job.newest_skipped or not since or slot < since)" => "(slot <= job.newest_skipped or not since)";
    conformance::a_held_slot_does_not_start_later:
        "or hold[3] and ask.slot" => "or false and ask.slot";
    conformance::a_held_slot_does_not_start_later:
        "ask.slot >= tonumber(hold[3]) and" => "";
    conformance::a_held_slot_does_not_start_later:
        "{ string.format('%.0f', now), former[2], former[3] }" => "former";
    conformance::a_held_job_skips_its_slots:
        "not hold[1] or now < tonumber(hold[1]) and" => "true or";
    // heartbeats.lua, finish.lua, release.lua
    conformance::a_released_lease_stays_released:
        "current ~= token or flags % 2 == 1 then\n    return" => "current ~= token then\n    return";
    conformance::an_expired_run_is_taken_over:
        "current ~= token or flags % 2 == 1 then\n    return" => "flags % 2 == 1 then\n    return";
    conformance::heartbeats_renew_by_exactly_the_lease:
        "local lease_end = now + lease\n" => "local lease_end = now + lease + 1\n";
    conformance::a_cancelled_run_ends_or_its_runner_is_told:
        "flags >= 2 and 1 or 0" => "0";
    conformance::a_released_lease_stays_released:
        "current ~= token or flags % 2 == 1 then\n  -- S13" => "current ~= token then\n  -- S13";
    corners::a_run_that_the_store_gave_up_was_not_finished:
        "its_outcome == outcome and at <= #final" => "its_outcome == outcome";
    conformance::a_finish_is_final:
        "its_outcome == outcome and at <= #final" => "at <= #final";
    conformance::prune_forgets_runs_with_their_logs:
        "kept_size + more, now, now" => "kept_size, now, now";
    conformance::a_checkpoint_passes_to_the_next_attempt_and_goes_with_the_end:
        "redis.call('HDEL', KEYS[1] .. 'state:' .. name, id)\n" => "";
    conformance::a_released_lease_stays_released:
        "if run and handed_over(run) then" => "if false then";
    conformance::a_hand_over_does_not_count:
        "run.hand_overs + 1, now" => "run.hand_overs, now";
    // cancel.lua, close.lua, unblock.lua, hold.lua, announce.lua, trigger.lua
    corners::a_run_that_the_store_gave_up_was_not_finished:
        "status == 'pending' or not live(run, now) then" => "status == 'pending' then";
    corners::the_first_reason_of_a_cancel_stays:
        "if not run.cancelled then" => "if true then";
    conformance::the_driver_does_what_the_rules_say:
        "if now <= offered + tonumber(ARGV[3]) then" => "if now < offered + tonumber(ARGV[3]) then";
    conformance::an_orphan_is_closed:
        "if status == 'running' and live(run, now) then\n  return answered(job, now, 'live')"
            => "if false then\n  return 1";
    conformance::the_driver_does_what_the_rules_say:
        "job.newest_skipped = math.min(job.newest_skipped, newest_due)\n" => "";
    corners::unblocking_goes_no_further_than_the_present:
        "math.min(tonumber(ARGV[2]), now)" => "tonumber(ARGV[2])";
    conformance::the_driver_does_what_the_rules_say:
        "not hold or former and former[1] == hold[1]" => "not hold or former and false";
    conformance::an_announcement_tells_where_catching_up_begins:
        "if former and former[1] and former[2] == fingerprint then" => "if former and former[1] then";
    conformance::an_on_demand_run_is_stored_before_it_starts:
        ">= tonumber(ARGV[3]) then\n  return answered(job, now, 'full')" => "> tonumber(ARGV[3]) then\n  return 1";
    conformance::prune_forgets_runs_with_their_logs:
        "if redis.call('ZSCORE', KEYS[1] .. 'gone:' .. name, id) then" => "if false then";
    // history.lua, jobs.lua, and what prune.lua counts
    conformance::what_a_clock_that_was_ahead_has_made_stands_behind_all_others:
        "if (due > present) ~= (other_due > present) then" => "if false then";
    conformance::the_order_of_a_corrected_clock_holds_across_pages:
        "redis.call('ZRANGEBYSCORE', finals, first, '+inf', 'LIMIT', 0, 1)[1]" => "nil";
    conformance::the_order_of_a_corrected_clock_holds_across_pages:
        "from > 0 and math.max(0, from - redis.call('ZCOUNT', key, first, last)) or 0" => "from";
    conformance::what_a_clock_that_was_ahead_has_made_pushes_nothing_out_of_the_history:
        "name, present, '+inf')" => "name, '-inf', '+inf')";
    // write.lua, prune.lua, lib
    conformance::a_compare_and_set_is_answered_once:
        "if number < newest then" => "if false then";
    conformance::a_compare_and_set_is_answered_once:
        "if number == newest then" => "if false then";
    corners::what_shrinks_is_written_beyond_the_quota:
        "if more > 0 and stored + more > tonumber(ARGV[7]) then" => "if stored + more > tonumber(ARGV[7]) then";
    conformance::a_tenants_quota_holds_over_all_its_jobs:
        "if more > 0 and stored + more > tonumber(ARGV[7]) then"
            => "if more > 0 and stored + more >= tonumber(ARGV[7]) then";
    conformance::a_compare_and_set_is_answered_once:
        "redis.call('HGET', KEYS[1] .. 'kv', key) == expected" => "true";
    corners::a_run_above_the_newest_started_slot_is_not_pruned:
        "return not slot or slot <= job.newest_started" => "return true";
    corners::a_run_is_kept_until_a_claim_for_it_is_late:
        "if now <= due + kept_for then" => "if now < due + kept_for then";
    conformance::the_driver_does_what_the_rules_say:
        "if now > run.ended_at + kept_for then" => "if true then";
    conformance::prune_forgets_runs_with_their_logs:
        "    redis.call('ZADD', KEYS[1] .. 'gone:' .. name, now, id)\n" => "";
    conformance::prune_forgets_runs_with_their_logs:
        "redis.call('UNLINK', KEYS[1] .. 'log:' .. name .. ':' .. id," => "redis.call('UNLINK',";
    conformance::prune_forgets_runs_with_their_logs:
        "job.stored = job.stored - run.kept_size\n" => "";
    conformance::the_driver_does_what_the_rules_say:
        "job.stored = job.stored - state_size - 64\n" => "";
    conformance::a_hand_over_does_not_count:
        "not run.released and now <= run.lease_end" => "now <= run.lease_end";
    conformance::the_driver_does_what_the_rules_say:
        "not run.released and now <= run.lease_end" => "not run.released and now < run.lease_end";
}
