//! Brings a database file to the schema of this version.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, Row, TransactionBehavior};

use super::busy;
use super::error::{Fault, OpenError, described};
use crate::view::Identity;

/// Marks a file as one of ours: "LHDB". See `PRAGMA application_id`.
const APPLICATION_ID: i32 = 0x4c48_4442;

/// The n-th brings schema n - 1 to schema n; `PRAGMA user_version` holds n.
const MIGRATIONS: [&str; 6] = [
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_beside.sql"),
    include_str!("migrations/0003_indexes.sql"),
    include_str!("migrations/0004_keys_once.sql"),
    include_str!("migrations/0005_offers.sql"),
    include_str!("migrations/0006_holds.sql"),
];

/// The newest schema this version knows.
const KNOWN: i32 = MIGRATIONS.len() as i32;

/// Prepares the file: checks that it is ours, turns on the write-ahead log and applies what migrations are missing,
/// once, however many processes start together. Answers who the store is.
pub(super) fn prepare(db: &mut Connection, path: &Path) -> Result<Identity, OpenError> {
    let failed = |doing| move |source| OpenError::Sqlite { path: path.to_path_buf(), doing, source };
    // Nothing of a foreign or newer file is changed, not even its journal mode.
    let found = inspect(db, path)?;
    write_ahead_log(db).map_err(failed("turning on its write-ahead log"))?;
    if found == KNOWN {
        // Nothing is to be written, so a host can start while another one writes, or stands still in the middle of it.
        return identity(db, path);
    }
    // Where a migration writes a table anew, dropping the old one would delete all that refers to it. It can be set
    // only outside of a transaction.
    let foreign_keys = |db: &Connection, on: bool| db.pragma_update(None, "foreign_keys", on);
    foreign_keys(db, false).map_err(failed("bringing its schema up to date"))?;
    let begun = db.transaction_with_behavior(TransactionBehavior::Immediate);
    let transaction = begun.map_err(failed("waiting for its write lock"))?;
    // Under the write lock, so that what another process has applied meanwhile is seen.
    let version = inspect(&transaction, path)?;
    if version < KNOWN {
        migrate(&transaction, version).map_err(failed("bringing its schema up to date"))?;
    }
    if version == 0 {
        let new = Identity::random().map_err(|source| OpenError::Random { path: path.to_path_buf(), source })?;
        let made = transaction.execute(include_str!("sql/insert_identity.sql"), (new.id, new.secret));
        made.map_err(failed("making its identity"))?;
    }
    transaction.commit().map_err(failed("bringing its schema up to date"))?;
    foreign_keys(db, true).map_err(failed("bringing its schema up to date"))?;
    identity(db, path)
}

/// Checks, without any lock on writers, that the file has exactly the schema of this version. Answers who the store is.
pub(super) fn read(db: &Connection, path: &Path) -> Result<Identity, OpenError> {
    match inspect(db, path)? {
        KNOWN => identity(db, path),
        found => Err(OpenError::Older { path: path.to_path_buf(), found, known: KNOWN }),
    }
}

fn identity(db: &Connection, path: &Path) -> Result<Identity, OpenError> {
    let read = |row: &Row<'_>| Ok(Identity { id: row.get(0)?, secret: row.get(1)? });
    let failed = |source| OpenError::Sqlite { path: path.to_path_buf(), doing: "reading its identity", source };
    db.query_row(include_str!("sql/identity.sql"), [], read).map_err(failed)
}

/// Applies the migrations after this version.
fn migrate(db: &Connection, version: i32) -> rusqlite::Result<()> {
    for migration in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        db.execute_batch(migration)?;
    }
    db.pragma_update(None, "application_id", APPLICATION_ID)?;
    db.pragma_update(None, "user_version", KNOWN)
}

/// Whether this version still knows the schema: a newer one may have migrated the file since it was opened.
pub(super) fn still_known(db: &Connection) -> Result<(), Fault> {
    let found = db.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?;
    if found == KNOWN { Ok(()) } else { Err(Fault::Outdated { found, known: KNOWN }) }
}

/// The file's schema, 0 for an empty file. Refuses what is not ours to write.
fn inspect(db: &Connection, path: &Path) -> Result<i32, OpenError> {
    let failed = |source| OpenError::Sqlite { path: path.to_path_buf(), doing: "reading its schema", source };
    let number = |pragma| db.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0)).map_err(failed);
    let application_id = number("application_id")?;
    let version = number("user_version")?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    let path = path.to_path_buf();
    match (application_id, version, tables) {
        (0, 0, 0) => Ok(0),
        (APPLICATION_ID, 1..=KNOWN, _) => Ok(version),
        (APPLICATION_ID, _, _) => Err(OpenError::Newer { path, found: version, known: KNOWN }),
        _ => Err(OpenError::Foreign { path, application_id }),
    }
}

/// Turns on WAL, which stays on in the file. SQLite does not wait for others here, whatever the busy handler says.
fn write_ahead_log(db: &Connection) -> rusqlite::Result<()> {
    let mut steps = 0;
    loop {
        match db.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => return Err(described(format!("the journal mode stays {mode:?}, not wal"))),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && busy::wait(steps) => steps += 1,
            Err(error) => return Err(error),
        }
    }
}
