//! The figures of one store.

use std::time::Duration;

use leasehold_lease::id::JobKey;
use leasehold_lease::op::Heartbeat;

use super::Options;
use super::error::BenchError;
use super::load::{Load, job};
use super::place::{Missing, Place, Subject};
use super::report::{Row, median, number};

/// How long filling the store may take. What could be had until then is measured.
const FILL_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Calls in flight while the store is filled, which is not measured: enough that they share what can be shared.
const FILLERS: usize = 64;

/// What is asked of heartbeats is asked of this many.
const JUDGED: usize = 10_000;

/// Measures a store, and adds a row for each figure.
pub(super) async fn measure(
    subject: Subject,
    options: &Options,
    progress: &impl Fn(&str),
    rows: &mut Vec<Row>,
) -> Result<(), BenchError> {
    let name = subject.name.clone();
    let load = Load::new(subject.store.clone()).await?;
    let bench = Bench {
        load,
        rounds: options.rounds.max(1),
        subject,
        options,
        say: &|what: &str| progress(&format!("{name}: {what}")),
    };
    // First, while the store is empty.
    let filled = bench.filled(rows).await;
    // The others can be measured wherever that has led to.
    let pairs = match filled {
        Ok(()) => bench.pairs(rows).await,
        failed => failed,
    };
    bench.subject.place.clear().await;
    pairs?;
    bench.heartbeats(rows).await?;
    let again = bench.load.sent_again();
    if again > 0 {
        (bench.say)(&format!("{again} calls were sent again because they were not answered in time"));
    }
    Ok(())
}

struct Bench<'a> {
    load: Load,
    rounds: u32,
    subject: Subject,
    options: &'a Options,
    say: &'a dyn Fn(&str),
}

impl Bench<'_> {
    /// A claim in an empty store and in a full one, and what a run takes there.
    async fn filled(&self, rows: &mut Vec<Row>) -> Result<(), BenchError> {
        let place = &*self.subject.place;
        let (jobs, runs) = (self.options.jobs.max(1), self.options.runs.max(1));
        (self.say)("claims one after the other in an empty store");
        let many = self.options.claims.clamp(1, jobs);
        let few = (0..many).map(|n| job("empty", n)).collect::<Vec<_>>();
        let empty = self.one_by_one(&few).await?;
        let (before, finished) = (place.bytes().await, self.load.finished());

        (self.say)(&format!("filling it with {jobs} jobs of {runs} finished runs"));
        self.load.fill(jobs, runs, FILLERS, FILL_LIMIT).await?;
        let filled = self.load.finished() - finished;
        self.add(rows, self.bytes(before, place.bytes().await, filled));

        (self.say)("claims one after the other in the full store");
        let spread = (0..many).map(|n| job("full", n * jobs / many)).collect::<Vec<_>>();
        let full = self.one_by_one(&spread).await?;
        let beside = median(&empty);
        let row =
            self.row(format!("a claim among {jobs} jobs × {} finished runs, p50", filled / jobs as u64), "ms", &full);
        let ratio = median(&full) / beside;
        self.add(rows, row.beside("ms when empty", beside, ratio).judged(self.subject.full));
        Ok(())
    }

    /// The middle of the claims of each round, in ms.
    async fn one_by_one(&self, jobs: &[JobKey]) -> Result<Vec<f64>, BenchError> {
        // So that all jobs exist and all caches are warm, here and there.
        self.load.claims(jobs).await?;
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            rounds.push(median(&self.load.claims(jobs).await?));
        }
        Ok(rounds)
    }

    /// What a finished run takes.
    fn bytes(&self, before: Result<u64, Missing>, after: Result<u64, Missing>, runs: u64) -> Row {
        let figure = format!("a finished run {}", self.subject.place.medium());
        match before.and_then(|before| after.map(|after| (before, after))) {
            Ok((before, after)) => {
                let each = (after as f64 - before as f64) / runs as f64;
                self.row(figure, "bytes", &[each]).noted(format!("{} runs", number(runs as f64)))
            }
            Err(why) => Row::missing(&self.subject.name, figure, "bytes", why),
        }
    }

    /// Claims and finishes beside the yardstick, which take turns.
    async fn pairs(&self, rows: &mut Vec<Row>) -> Result<(), BenchError> {
        let place = &*self.subject.place;
        let in_flight = self.options.in_flight.unwrap_or(self.subject.in_flight).max(1);
        (self.say)(&format!("claims and finishes, {in_flight} in flight"));
        let mut turns = place.yardstick().map(|what| Turns { what, figures: Ok(Vec::new()) });
        let mut ours = Vec::new();
        for _ in 0..self.rounds {
            if let Some(turns) = &mut turns {
                turns.take(place, in_flight, self.options.round).await;
            }
            ours.push(self.load.pairs(in_flight, self.options.round).await?);
        }
        let mut row = self.row(format!("claim + finish, {in_flight} in flight"), "pairs/s", &ours);
        match turns {
            None => {}
            Some(Turns { figures: Err(Missing(why)), .. }) => row = row.noted(why),
            Some(Turns { what, figures: Ok(theirs) }) => {
                let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>();
                row = row.beside(what, median(&theirs), median(&ratios));
            }
        }
        row.notes.extend(place.facts().await);
        self.add(rows, row.judged(self.subject.pairs));
        Ok(())
    }

    /// All leases of a host in one call.
    async fn heartbeats(&self, rows: &mut Vec<Row>) -> Result<(), BenchError> {
        let most = self.options.heartbeats.iter().copied().max().unwrap_or(0);
        (self.say)(&format!("heartbeats of {most} running runs"));
        let beats = self.load.running(most, FILLERS).await?;
        let mut first = None;
        for &many in &self.options.heartbeats {
            let figure = format!("heartbeats of {many} runs in one call");
            let target = self.subject.heartbeats.filter(|_| many >= JUDGED);
            let Some(rounds) = self.renewals(&beats[..many]).await? else {
                let why = Missing("the store did not answer all of them in time".into());
                self.add(rows, Row::missing(&self.subject.name, figure, "ms", why).failed(target));
                continue;
            };
            let mut row = self.row(figure, "ms", &rounds);
            let (least, base) = *first.get_or_insert((many, median(&rounds)));
            if many > least {
                let (times, took) = (many as f64 / least as f64, median(&rounds) / base);
                row = row.noted(format!("{took:.1} times the time for {times:.1} times the runs"));
            }
            self.add(rows, row.judged(target));
        }
        Ok(())
    }

    /// How long each round of renewals took, in ms; nothing where one was not answered in time.
    async fn renewals(&self, beats: &[(JobKey, Heartbeat)]) -> Result<Option<Vec<f64>>, BenchError> {
        // The first meets caches that are cold.
        self.load.renew(beats).await?;
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            let Some(took) = self.load.renew(beats).await? else { return Ok(None) };
            rounds.push(took);
        }
        Ok(Some(rounds))
    }

    /// Adds a row, and tells it at once: what comes after it may take long.
    fn add(&self, rows: &mut Vec<Row>, row: Row) {
        let texts = [row.value_text(), row.ratio_text(), row.target_text()];
        let texts: Vec<_> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        (self.say)(&format!("  {}: {}", row.figure, texts.join(", ")));
        rows.push(row);
    }

    fn row(&self, figure: String, unit: &'static str, rounds: &[f64]) -> Row {
        Row::new(&self.subject.name, figure, unit, rounds)
    }
}

/// The rounds of the yardstick, until it fails.
struct Turns {
    what: &'static str,
    figures: Result<Vec<f64>, Missing>,
}

impl Turns {
    async fn take(&mut self, place: &dyn Place, in_flight: usize, round: Duration) {
        let Ok(figures) = &mut self.figures else { return };
        match place.turn(in_flight, round).await {
            Ok(figure) => figures.push(figure),
            Err(missing) => self.figures = Err(missing),
        }
    }
}
