//! One call: a function of the schema with one document, and the rows it answers.

use leasehold_lease::id::hex;
use std::time::Duration;

use serde::Serialize;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row as _};

use super::address::Transport;
use super::schema::SCHEMA;
use crate::view::CALL_LIMIT;

/// A function of the schema as it is called in either transport. See `functions/`.
pub(super) struct Function {
    prepared: &'static str,
    simple: &'static str,
}

// The limit as the statements below write it.
const _: () = assert!(CALL_LIMIT.as_millis() == 2000);

macro_rules! function {
    ($name:ident, $function:literal) => {
        pub(super) const $name: Function = Function {
            prepared: concat!("SELECT ordinal, at, revision, answer FROM leasehold.", $function, "($1::text::jsonb)"),
            // What the other transport sets for its session (see address.rs), for this statement alone.
            simple: concat!(
                "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; ",
                "SET LOCAL search_path = pg_catalog; SET LOCAL statement_timeout = 2000; ",
                "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; ",
                "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off; ",
                "SET LOCAL plan_cache_mode = force_generic_plan; ",
                "SELECT ordinal, at, revision, answer FROM leasehold.",
                $function,
                "(convert_from(decode('"
            ),
        };
    };
}

function!(BATCH, "batch");
function!(HEARTBEATS, "heartbeats");
function!(WRITE, "write");
function!(UNFINISHED, "unfinished");
function!(CHECK_RUNS, "check_runs");
function!(LOAD_STATE, "load_state");
function!(KV_GET, "kv_get");
function!(KV_LIST, "kv_list");
function!(READ_LOG, "read_log");
function!(TELL_TIME, "tell_time");
function!(SHOW, "show");
function!(HISTORY, "history");
function!(LIST_JOBS, "list_jobs");
function!(SHOW_JOB, "show_job");
function!(KEEP_TOLD, "keep_told");
function!(READ_TOLD, "read_told");
function!(REPORT_HOST, "report_host");
function!(LIST_HOSTS, "list_hosts");
function!(KEEP_OFFERS, "keep_offers");
function!(HOST_OFFERS, "host_offers");
function!(DRAIN, "drain");
function!(IDENTITY, "identity");
function!(WAKE, "wake");

/// Behind the hexadecimal digits of a document: nothing in it can end the literal.
const SIMPLE_END: &str = "', 'hex'), 'UTF8')::jsonb)";

/// One row of an answer.
#[derive(Debug)]
pub(super) struct Row {
    /// Which request of a batch it answers.
    pub(super) ordinal: i32,
    /// The store's clock, in whole ms.
    pub(super) at: i64,
    /// The job's revision.
    pub(super) revision: i64,
    /// JSON or hexadecimal digits; none in a row that only carries the clock.
    pub(super) answer: Option<String>,
}

/// What every document begins with.
#[derive(Serialize)]
struct Head<'a> {
    schema: i32,
    patience: String,
    namespace: &'a str,
}

/// A document: the head, and behind it the fields of `ask`, a JSON object that has some.
pub(super) fn document(namespace: &str, patience: Duration, ask: &str) -> String {
    let patience = [&patience.as_millis().max(1).to_string(), "ms"].concat();
    let head = crate::wire::to_json(&Head { schema: SCHEMA, patience, namespace });
    join(&head, ask)
}

/// One JSON object with the fields of two that have some.
pub(super) fn join(first: &str, second: &str) -> String {
    let (Some(first), Some(second)) = (first.strip_suffix('}'), second.strip_prefix('{')) else {
        unreachable!("both were written as objects")
    };
    [first, ",", second].concat()
}

/// Sends a document and waits for the rows.
pub(super) async fn send(
    db: &mut PgConnection,
    transport: Transport,
    function: &Function,
    document: &str,
) -> Result<Vec<Row>, sqlx::Error> {
    let rows = match transport {
        Transport::Prepared => sqlx::query(function.prepared).bind(document).fetch_all(db).await?,
        Transport::Simple => {
            let digits = hex(document.as_bytes());
            // Fixed text around hexadecimal digits.
            let statement = AssertSqlSafe([function.simple, &digits, SIMPLE_END].concat());
            sqlx::raw_sql(statement).fetch_all(db).await?
        }
    };
    rows.iter().map(read).collect()
}

fn read(row: &PgRow) -> Result<Row, sqlx::Error> {
    Ok(Row { ordinal: row.try_get(0)?, at: row.try_get(1)?, revision: row.try_get(2)?, answer: row.try_get(3)? })
}
