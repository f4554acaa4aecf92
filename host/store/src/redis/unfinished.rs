//! Unfinished runs of many tenants, in the order of their keys.

use std::collections::BTreeSet;

use leasehold_lease::id::{RunKey, TenantName};
use leasehold_lease::time::Millis;
use redis::Value;

use super::RedisStore;
use super::batch::side_by_side;
use super::call::Call;
use super::decode::{Fields, unreadable};
use super::reading::{WAVE, job_key, left_out};
use super::record::{millis, open_runs};
use super::writing::count;
use crate::error::StoreError;
use crate::view::{Checked, RunStanding};
use crate::wire::WireError;

const DOING: &str = "looking for unfinished runs";

impl RedisStore {
    pub(super) async fn read_unfinished(
        &self,
        tenants: &[TenantName],
        after: Option<&RunKey>,
        limit: usize,
    ) -> Result<Checked<Vec<RunStanding>>, StoreError> {
        let wanted: BTreeSet<&TenantName> = tenants.iter().collect();
        let wanted = wanted.into_iter().filter(|tenant| after.is_none_or(|after| **tenant >= after.job.tenant));
        let wanted: Vec<&TenantName> = wanted.collect();
        let work = async {
            let mut found = Checked { now: self.read_now().await?, answer: Vec::new() };
            for wave in wanted.chunks(WAVE) {
                let enough = limit - found.answer.len();
                let mut parts: Vec<Part> = wave.iter().map(|tenant| Part::new(tenant, after)).collect();
                loop {
                    let open = unread(&mut parts, enough);
                    if open.is_empty() {
                        break;
                    }
                    let calls = open.iter().map(|(part, from)| self.page(part.tenant, from, enough)).collect();
                    let answers = side_by_side(&self.calls, DOING, calls).await;
                    for ((part, _), answer) in open.into_iter().zip(answers) {
                        found.now = part.add(answer?, after).map_err(unreadable(DOING))?;
                    }
                }
                found.answer.extend(parts.into_iter().flat_map(|part| part.runs).take(enough));
            }
            Ok(found)
        };
        self.within_limit(DOING, work).await
    }

    fn page(&self, tenant: &TenantName, from: &str, enough: usize) -> Call {
        Call::script(&self.server.scripts.unfinished, &self.server.keys.tenant(tenant)).arg(from).arg(count(enough))
    }
}

/// What was found of one tenant.
struct Part<'a> {
    tenant: &'a TenantName,
    runs: Vec<RunStanding>,
    /// Where the next page begins, if there may be more.
    from: Option<String>,
}

/// Where more has to be asked for: tenants that are not read to their end, as long as those before them have not brought
/// enough. Each with the place where it goes on.
fn unread<'p, 'a>(parts: &'p mut [Part<'a>], enough: usize) -> Vec<(&'p mut Part<'a>, String)> {
    let (mut open, mut many) = (Vec::new(), 0);
    for part in parts {
        many += part.runs.len();
        if many >= enough {
            // With an earlier one still unread this one's runs may be too many, never too few.
            break;
        }
        if let Some(from) = part.from.take() {
            open.push((part, from));
        }
    }
    open
}

impl<'a> Part<'a> {
    fn new(tenant: &'a TenantName, after: Option<&RunKey>) -> Part<'a> {
        let begin = after.filter(|after| after.job.tenant == *tenant);
        let from = begin.map_or_else(|| "-".to_owned(), |after| ["[", after.job.name.as_str()].concat());
        Part { tenant, runs: Vec::new(), from: Some(from) }
    }

    /// Adds a page. The job that `after` lies in is answered whole.
    fn add(&mut self, answer: Value, after: Option<&RunKey>) -> Result<Millis, WireError> {
        let mut fields = Fields::of("the unfinished runs", answer)?;
        let now = millis(&mut fields)?;
        for value in fields.list("the unfinished runs")?.rest() {
            let mut fields = Fields::of("a job's unfinished runs", value)?;
            let job = job_key(self.tenant, &fields.text()?)?;
            match fields.sound("a job's unfinished runs").and_then(|mut fields| open_runs(&job, &mut fields)) {
                Ok(runs) => {
                    let behind = |run: &RunStanding| after.is_none_or(|after| run.key > *after);
                    self.runs.extend(runs.into_iter().filter(behind));
                }
                Err(error) => left_out(DOING, &job, &error),
            }
        }
        self.from = fields.maybe_text()?.map(|last| ["(", &last].concat());
        Ok(now)
    }
}
