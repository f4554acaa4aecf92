//! One suite that every driver passes. What is not in here is not promised.
//!
//! [`conformance_tests!`](crate::conformance_tests) makes one test of each case. A driver brings a [`Bench`]: a store,
//! and a clock that can be set where the store allows that. On a store that reads its own clock the cases wait for it,
//! with short leases; cases that need a clock to jump say that they are skipped.

mod ahead;
mod bench;
mod claims;
mod crashes;
mod crowd;
mod ends;
mod expected;
mod histories;
mod holding;
mod logs;
mod model;
mod people;
mod reading;
mod traces;
mod writes;

pub use ahead::*;
pub use bench::{Bench, SetClock, TestClock};
pub use claims::*;
pub use crashes::*;
pub use crowd::*;
pub use ends::*;
pub use histories::*;
pub use holding::*;
pub use logs::*;
pub use model::*;
pub use people::*;
pub use reading::*;
pub use traces::*;
pub use writes::*;

/// Makes one test of each case for the driver whose [`Bench`] the given async function makes. It may make none, where
/// the server is not installed and it has said so.
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr) => {
        $crate::conformance_tests! { @each $make;
            a_store_keeps_its_identity
            a_slot_is_won_once
            a_lost_answer_is_sent_again
            a_copy_that_nobody_waits_for_wins_nothing
            a_slot_is_neither_late_nor_early
            a_slot_that_ran_is_never_won_again
            an_expired_run_is_taken_over
            attempts_are_used_up
            a_hand_over_does_not_count
            runs_do_not_overlap_under_skip
            runs_overlap_under_allow
            a_newer_run_interrupts_an_older_expired_one
            a_clock_set_back_is_noticed
            an_on_demand_run_is_stored_before_it_starts
            jobs_are_independent
            heartbeats_renew_by_exactly_the_lease
            heartbeats_of_many_jobs_are_answered_in_order
            a_released_lease_stays_released
            a_finish_is_final
            every_outcome_is_read_back_as_it_was_written
            an_unknown_run_is_refused_and_nothing_is_created
            log_lines_are_kept_once_and_in_order
            log_lines_of_a_lost_attempt_are_refused
            a_checkpoint_passes_to_the_next_attempt_and_goes_with_the_end
            values_are_kept_byte_for_byte
            a_compare_and_set_is_answered_once
            keys_are_listed_by_prefix_in_order
            tenants_have_their_own_values
            names_that_look_alike_share_nothing
            a_tenants_quota_holds_over_all_its_jobs
            writes_of_who_does_not_hold_the_run_are_refused
            a_cancelled_run_ends_or_its_runner_is_told
            an_orphan_is_closed
            a_job_is_unblocked_when_its_clock_was_wrong
            a_held_job_skips_its_slots
            a_held_slot_does_not_start_later
            answers_are_kept_for_who_asks_why
            kept_answers_are_bounded
            hosts_see_each_other
            what_a_host_offers_is_kept_with_its_record
            a_release_and_a_trigger_wake_those_who_listen
            an_announcement_tells_where_catching_up_begins
            unfinished_runs_are_listed_in_pages
            checked_runs_stand_in_the_order_asked
            history_is_newest_first_and_filtered
            what_a_clock_that_was_ahead_has_made_stands_behind_all_others
            catching_up_begins_no_later_than_now
            a_hold_of_a_clock_that_was_ahead_is_over_when_it_is_corrected
            the_order_of_a_corrected_clock_holds_across_pages
            what_a_clock_that_was_ahead_has_made_pushes_nothing_out_of_the_history
            jobs_are_listed_with_their_newest_run
            jobs_are_listed_in_brief
            jobs_are_listed_in_pages
            prune_forgets_runs_with_their_logs
            one_of_many_claimers_wins
            histories_of_many_clients_replay_in_the_order_of_revisions
            a_clock_set_back_revives_nothing_that_a_win_found_expired
            a_takeover_of_a_future_run_does_not_block_its_job_again
            a_win_gives_up_nothing_that_is_newer
            a_pruned_on_demand_run_does_not_run_twice_on_a_day
            a_late_copy_of_a_claim_refused_for_overlap_wins_nothing
            a_hand_over_uses_no_attempt_up
            a_takeover_gives_up_what_is_older_in_its_revision
            a_long_runs_finish_may_be_sent_again_although_no_history_is_kept
            a_run_that_a_newer_one_has_outrun_is_not_taken_over
            a_run_that_the_store_gave_up_was_not_finished
            the_first_reason_of_a_cancel_stays
            unblocking_goes_no_further_than_the_present
            what_shrinks_is_written_beyond_the_quota
            a_run_is_kept_until_a_claim_for_it_is_late
            a_claim_is_in_time_to_the_millisecond
            a_slot_before_since_or_skipped_is_not_caught_up
            the_driver_does_what_the_rules_say
        }
    };
    (@each $make:expr; $($case:ident)*) => {
        $(
            // On two threads: a bench's drop may wait for the driver's connections to end, and they end by themselves.
            #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
            async fn $case() {
                let bench: Option<$crate::conformance::Bench> = $make().await.into();
                if let Some(bench) = bench {
                    $crate::conformance::$case(&bench).await;
                }
            }
        )*
    };
}
