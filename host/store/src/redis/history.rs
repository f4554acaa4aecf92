//! The history: runs of one job or of all, newest first.

use std::cmp::Reverse;

use leasehold_lease::id::JobKey;
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
            let mut since = query.since;
            for wave in jobs.chunks(WAVE) {
                self.history_of(wave, query, since, &mut found).await?;
                found.answer.sort_by_cached_key(|view| (Reverse(view.run.due), view.key.clone()));
                // A run that ended between two pages, or was moved to the next one, was found twice: the later counts.
                found.answer.dedup_by(|later, earlier| {
                    let same = later.key == earlier.key;
                    if same {
                        std::mem::swap(later, earlier);
                    }
                    same
                });
                found.answer.truncate(query.limit);
                // What is older than all that was found is not asked for any more.
                if found.answer.len() == query.limit {
                    since = found.answer.last().map(|view| view.run.due).max(since);
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
        since: Option<Millis>,
        found: &mut Checked<Vec<RunView>>,
    ) -> Result<(), StoreError> {
        const DOING: &str = "reading the history";
        let status = query.status.map_or("", Status::word);
        let since = since.map_or_else(String::new, |since| instant(since.0).to_string());
        let size = query.limit.min(RUNS);
        // For each job where its next page begins, and how many of its final runs were found. The unfinished ones do not
        // count: they are all in the first page, and any of them may be older than final ones of a later page.
        let mut open: Vec<(&JobKey, u64, usize)> = jobs.iter().map(|job| (job, 0, 0)).collect();
        while !open.is_empty() {
            let call_of = |(job, from, _): &(&JobKey, u64, usize)| {
                let call = self.about_job(&self.server.scripts.history, job);
                call.arg(status).arg(&since).arg(*from).arg(size)
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

/// Runs of a job, and where its next page begins.
fn history_page(job: &JobKey, answer: Value) -> Result<(Millis, Vec<RunView>, Option<u64>), WireError> {
    let mut fields = Fields::of("an answer", answer)?;
    let now = millis(&mut fields)?;
    let views = fields.list("the runs")?.rest().map(|value| view(job, value)).collect::<Result<_, _>>()?;
    Ok((now, views, fields.maybe_number()?))
}
