//! PostgreSQL, beside pgbench on a script of two transactions of one statement each.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use percent_encoding::percent_decode_str;
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::sync::Mutex;

use super::error::BenchError;
use super::place::{FULL, Missing, Place, Subject};
use super::report::Target;
use super::tool::Tool;
use crate::postgres::PostgresStore;

/// How long a question to the server may take. A checkpoint may take that long.
const LIMIT: Duration = Duration::from_secs(120);

/// What pgbench may take longer than its round, to connect and to end.
const AROUND: Duration = Duration::from_secs(30);

/// A store in a PostgreSQL database.
pub(super) async fn subject(url: &str, namespace: &str) -> Result<Subject, BenchError> {
    let store = PostgresStore::connect(url, namespace).await?;
    let server = Server::at(url, namespace);
    let version = server.ask(include_str!("yardstick/version.sql")).await;
    let version =
        version.ok().and_then(|told| told.split_whitespace().next().map(|version| format!("postgres {version}")));
    Ok(Subject {
        name: version.unwrap_or_else(|| "postgres".into()),
        store: Arc::new(store),
        place: Box::new(server),
        in_flight: 16,
        pairs: Some(Target::Part { least: 0.85, aim: 1.0 }),
        heartbeats: Some(Target::AtMost(250.0)),
        full: Some(FULL),
    })
}

struct Server {
    /// Where it is, as libpq's programs understand it.
    environment: Vec<(&'static str, String)>,
    namespace: String,
    /// The yardstick's table, which is in the database while it is measured.
    table: String,
    made: Mutex<bool>,
}

impl Server {
    /// The server that the URL names, which the driver has accepted.
    fn at(url: &str, namespace: &str) -> Server {
        Server {
            environment: environment(url),
            namespace: namespace.to_owned(),
            table: format!("leasehold_{}", namespace.replace('-', "_")),
            made: Mutex::default(),
        }
    }

    /// Has the server carry out SQL, in which `:"table"` is the yardstick's table.
    async fn ask(&self, sql: &str) -> Result<String, Missing> {
        let table = format!("table={}", self.table);
        let arguments = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-v", &table, "-f", "-"];
        let tool = Tool {
            names: &["psql"],
            package: "PostgreSQL (Debian's package postgresql-client)",
            arguments: arguments.map(ToOwned::to_owned).into(),
            environment: &self.environment,
            input: sql,
            limit: LIMIT,
        };
        tool.run().await
    }
}

#[async_trait]
impl Place for Server {
    fn yardstick(&self) -> Option<&'static str> {
        Some("pairs/s of pgbench")
    }

    async fn turn(&self, in_flight: usize, round: Duration) -> Result<f64, Missing> {
        let mut made = self.made.lock().await;
        if !*made {
            self.ask(include_str!("yardstick/create.sql")).await?;
            *made = true;
        }
        // pgbench counts in whole seconds.
        let (clients, seconds) = (in_flight.to_string(), round.as_secs().max(1).to_string());
        let table = format!("table={}", self.table);
        let arguments = ["-n", "-c", &clients, "-j", "2", "-T", &seconds, "-D", &table, "-f", "-"];
        let tool = Tool {
            names: &["pgbench"],
            package: "PostgreSQL (Debian's package postgresql)",
            arguments: arguments.map(ToOwned::to_owned).into(),
            environment: &self.environment,
            input: include_str!("yardstick/pair.sql"),
            limit: round + AROUND,
        };
        let output = tool.run().await?;
        scripts_a_second(&output).ok_or_else(|| Missing("pgbench said something that is not understood".into()))
    }

    fn medium(&self) -> &'static str {
        "on disk"
    }

    async fn bytes(&self) -> Result<u64, Missing> {
        // Only some users may ask for one, and the figure hardly differs without.
        let _ = self.ask("CHECKPOINT;").await;
        let size = self.ask(include_str!("yardstick/size.sql")).await?;
        size.trim().parse().map_err(|_| Missing("psql said something that is not a size".into()))
    }

    async fn facts(&self) -> Vec<String> {
        let pair = "pgbench runs a transaction that inserts a row and one that updates it, at the same concurrency";
        let settings = self.ask(include_str!("yardstick/settings.sql")).await;
        let settings = settings.map(|told| told.trim().replace('\n', " ")).ok();
        std::iter::once(pair.to_owned()).chain(settings).collect()
    }

    async fn clear(&self) {
        let mut made = self.made.lock().await;
        if *made && self.ask(include_str!("yardstick/drop.sql")).await.is_ok() {
            *made = false;
        }
    }

    fn left_behind(&self) -> Option<String> {
        let namespace = &self.namespace;
        Some(format!(
            "the namespace {namespace} stays in the database; remove it with psql: DELETE FROM leasehold.runs WHERE job_id \
             IN (SELECT id FROM leasehold.jobs WHERE namespace = '{namespace}'); DELETE FROM leasehold.jobs WHERE \
             namespace = '{namespace}'; DELETE FROM leasehold.tenants WHERE namespace = '{namespace}'; DELETE FROM \
             leasehold.identities WHERE namespace = '{namespace}'; where the benchmark was interrupted, also: DROP TABLE \
             IF EXISTS {table}",
            table = self.table
        ))
    }
}

/// The variables that libpq's programs read, for this URL.
fn environment(url: &str) -> Vec<(&'static str, String)> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    // Our own parameter, which no client knows.
    let query: Vec<_> = query.split('&').filter(|part| !part.is_empty() && !part.starts_with("pooler=")).collect();
    let Ok(options) = PgConnectOptions::from_str(&format!("{base}?{}", query.join("&"))) else { return Vec::new() };
    let host = options.get_socket().map_or_else(|| options.get_host().to_owned(), |path| path.display().to_string());
    let mut environment = vec![
        ("PGHOST", host),
        ("PGPORT", options.get_port().to_string()),
        ("PGUSER", options.get_username().to_owned()),
        ("PGSSLMODE", ssl_mode(options.get_ssl_mode()).to_owned()),
        ("PGCONNECT_TIMEOUT", "10".to_owned()),
    ];
    environment.extend(options.get_database().map(|database| ("PGDATABASE", database.to_owned())));
    // The client tells its password in no other way.
    let told = options.to_url_lossy();
    let password = told.password().map(|password| percent_decode_str(password).decode_utf8_lossy().into_owned());
    environment.extend(password.map(|password| ("PGPASSWORD", password)));
    environment
}

fn ssl_mode(mode: PgSslMode) -> &'static str {
    match mode {
        PgSslMode::Disable => "disable",
        PgSslMode::Allow => "allow",
        PgSslMode::Prefer => "prefer",
        PgSslMode::Require => "require",
        PgSslMode::VerifyCa => "verify-ca",
        PgSslMode::VerifyFull => "verify-full",
    }
}

/// Runs of the script a second, without the time it took to connect. Versions before 14 wrote a second line with it.
fn scripts_a_second(output: &str) -> Option<f64> {
    let line = output.lines().rfind(|line| line.starts_with("tps = ") && !line.contains("including"))?;
    let figure: f64 = line.strip_prefix("tps = ")?.split_whitespace().next()?.parse().ok()?;
    (figure > 0.0).then_some(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_a_second_are_read_from_pgbench() {
        let fifteen = include_str!("tests/pgbench-15.txt");
        assert_eq!(scripts_a_second(fifteen), Some(901.528_350));
        let thirteen = "tps = 85.184871 (including connections establishing)\n\
                        tps = 85.296346 (excluding connections establishing)\n";
        assert_eq!(scripts_a_second(thirteen), Some(85.296_346));
        for none in ["", "pgbench: error: aborted\n", "tps = 0.000000 (without initial connection time)\n"] {
            assert_eq!(scripts_a_second(none), None, "{none}");
        }
    }

    #[test]
    fn a_url_becomes_the_environment_of_the_programs() {
        let found = environment("postgres://anna:a%40b%2Fc@db.example:5433/jobs?pooler=transaction&sslmode=require");
        let of = |name| found.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
        assert_eq!((of("PGHOST"), of("PGPORT")), (Some("db.example"), Some("5433")));
        assert_eq!((of("PGUSER"), of("PGDATABASE")), (Some("anna"), Some("jobs")));
        assert_eq!((of("PGPASSWORD"), of("PGSSLMODE")), (Some("a@b/c"), Some("require")));
    }

    #[test]
    fn what_stays_behind_is_told_without_a_password() {
        let server = Server::at("postgres://anna:s3cret@h/d", "bench-1");
        let told = server.left_behind().unwrap();
        assert!(told.contains("bench-1") && told.contains("leasehold_bench_1") && !told.contains("s3cret"), "{told}");
    }
}
