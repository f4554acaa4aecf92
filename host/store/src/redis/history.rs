//! The history: runs of one job or of all, newest first.

use leasehold_lease::id::JobKey;
use leasehold_lease::order::{self, newest_first};
use leasehold_lease::run::Status;
use leasehold_lease::time::Millis;
use redis::Value;

use super::RedisStore;
use super::batch::side_by_side;
use super::call::instant;
use super::decode::{Fields, unreadable};
use super::reading::WAVE;
use super::record::{millis, view};
use crate::error::StoreError;
use crate::view::{Checked, HistoryQuery, RunView};
use crate::wire::WireError;

/// Final runs that one script shows.
const RUNS: usize = 100;

impl RedisStore {
    pub(super) async fn read_history(&self, query: &HistoryQuery) -> Result<Checked<Vec<RunView>>, StoreError> {
        const DOING: &str = "reading the history";
        let work = async {
            let mut found = Checked { now: self.read_now().await?, answer: Vec::new() };
            if query.limit == 0 {
                return Ok(found);
            }
            let jobs = match &query.job {
                Some(job) => vec![job.clone()],
                None => self.all_jobs().await?,
            };
            // One time for all jobs and pages, so that no run moves from behind to the front meanwhile.
            let now = found.now;
            let mut wanted = Wanted::new(query.since, now);
            for wave in jobs.chunks(WAVE) {
                self.history_of(wave, query, &wanted, &mut found).await?;
                found.answer.sort_by_cached_key(|view| (newest_first(view.run.due, now), view.key.clone()));
                // A run that ended between two pages, or was moved to the next one, was found twice: the later counts.
                found.answer.dedup_by(|later, earlier| {
                    let same = later.key == earlier.key;
                    if same {
                        std::mem::swap(later, earlier);
                    }
                    same
                });
                found.answer.truncate(query.limit);
                if let Some(last) = found.answer.get(query.limit - 1) {
                    wanted.narrow(last.run.due);
                }
            }
            Ok(found)
        };
        self.within_limit(DOING, work).await
    }

    /// Adds what a few jobs have, each page by page until there are enough of it.
    async fn history_of(
        &self,
        jobs: &[JobKey],
        query: &HistoryQuery,
        wanted: &Wanted,
        found: &mut Checked<Vec<RunView>>,
    ) -> Result<(), StoreError> {
        const DOING: &str = "reading the history";
        let status = query.status.map_or("", Status::word);
        let size = query.limit.min(RUNS);
        // For each job where its next page begins, and how many of its final runs were found. The unfinished ones do not
        // count: they are all in the first page, and any of them may be older than final ones of a later page.
        let mut open: Vec<(&JobKey, u64, usize)> = jobs.iter().map(|job| (job, 0, 0)).collect();
        while !open.is_empty() {
            let call_of = |(job, from, _): &(&JobKey, u64, usize)| {
                let call = self.about_job(&self.server.scripts.history, job);
                let call = call.arg(status).arg(instant(wanted.since.0)).arg(*from).arg(size);
                call.arg(instant(wanted.present.0)).arg(instant(wanted.since_ahead.0))
            };
            let answers = side_by_side(&self.calls, DOING, open.iter().map(call_of).collect()).await;
            let mut rest = Vec::new();
            for ((job, _, many), answer) in open.into_iter().zip(answers) {
                let (now, views, next) = history_page(job, answer?).map_err(unreadable(DOING))?;
                let many = many + views.iter().filter(|view| view.run.status.is_final()).count();
                found.now = now;
                found.answer.extend(views);
                rest.extend(next.filter(|_| many < query.limit).map(|next| (job, next, many)));
            }
            open = rest;
        }
        Ok(())
    }
}

/// When those runs are due that are still asked for: in the present, or later, made by a clock that was ahead.
struct Wanted {
    /// At or after this, and in the present.
    since: Millis,
    /// The end of the present.
    present: Millis,
    /// At or after this, which lies behind the present.
    since_ahead: Millis,
}

impl Wanted {
    fn new(since: Option<Millis>, now: Millis) -> Wanted {
        let (since, present) = (since.unwrap_or(Millis(i64::MIN)), order::present(now));
        Wanted { since, present, since_ahead: since.max(Millis(present.0.saturating_add(1))) }
    }

    /// There are enough runs, and the last of them is due then: nothing behind it is asked for any more.
    fn narrow(&mut self, due: Millis) {
        if due > self.present {
            self.since_ahead = due;
        } else {
            (self.since, self.since_ahead) = (due, Millis(i64::MAX));
        }
    }
}

/// Runs of a job, and where its next page begins.
fn history_page(job: &JobKey, answer: Value) -> Result<(Millis, Vec<RunView>, Option<u64>), WireError> {
    let mut fields = Fields::of("an answer", answer)?;
    let now = millis(&mut fields)?;
    let views = fields.list("the runs")?.rest().map(|value| view(job, value)).collect::<Result<_, _>>()?;
    Ok((now, views, fields.maybe_number()?))
}
