//! The schema in the database: made, brought up to date, or refused.
//!
//! Migrations and functions are one: a schema's number stands for its tables and for the functions that work on them, so
//! that hosts of two versions never meet halfway.

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor, Row};

use super::error::{self, ConnectError};

/// The schema that this version works on: the number of its newest migration.
pub(super) const SCHEMA: i32 = 5;

/// From one schema to the next.
const MIGRATIONS: [(i32, &str); SCHEMA as usize] = [
    (1, include_str!("migrations/0001_tables.sql")),
    (2, include_str!("migrations/0002_jobs_in_pages.sql")),
    (3, include_str!("migrations/0003_offers.sql")),
    (4, include_str!("migrations/0004_jobs_in_brief.sql")),
    (5, include_str!("migrations/0005_newest_and_held.sql")),
];

/// What works on the tables, replaced as a whole with each new schema.
const FUNCTIONS: [&str; 11] = [
    include_str!("functions/version.sql"),
    include_str!("functions/common.sql"),
    include_str!("functions/claim.sql"),
    include_str!("functions/hold.sql"),
    include_str!("functions/end.sql"),
    include_str!("functions/upkeep.sql"),
    include_str!("functions/batch.sql"),
    include_str!("functions/heartbeats.sql"),
    include_str!("functions/write.sql"),
    include_str!("functions/read.sql"),
    include_str!("functions/people.sql"),
];

/// Makes the schema, or brings it to this version. Hosts that start together take turns; all or nothing is done.
pub(super) async fn prepare(db: &mut PgConnection, server: &str) -> Result<(), ConnectError> {
    let failed = |source: sqlx::Error| match error::code(&source) {
        Some("42501" | "53100" | "25006" | "26000" | "42P05") => ConnectError::from_server(server, source),
        None if matches!(source, sqlx::Error::RowNotFound) => {
            ConnectError::NoVersion { server: server.to_owned(), known: SCHEMA }
        }
        _ => ConnectError::Schema { server: server.to_owned(), source },
    };
    if version(db).await.map_err(failed)? == Some(SCHEMA) {
        return Ok(());
    }
    let mut transaction = db.begin().await.map_err(failed)?;
    transaction.execute(sqlx::raw_sql(include_str!("schema/lock.sql"))).await.map_err(failed)?;
    // Another host may have done it meanwhile.
    let found = version(&mut transaction).await.map_err(failed)?;
    match found {
        Some(found) if found == SCHEMA => return Ok(()),
        Some(found) if found > SCHEMA => {
            return Err(ConnectError::NewerSchema { server: server.to_owned(), found, known: SCHEMA });
        }
        Some(_) => {}
        None => {
            transaction.execute(sqlx::raw_sql(include_str!("schema/create.sql"))).await.map_err(failed)?;
        }
    }
    for (number, migration) in MIGRATIONS {
        if Some(number) > found {
            transaction.execute(sqlx::raw_sql(migration)).await.map_err(failed)?;
        }
    }
    for functions in FUNCTIONS {
        transaction.execute(sqlx::raw_sql(functions)).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

/// The namespaces in the database; none where the schema is not there.
pub(super) async fn namespaces(db: &mut PgConnection) -> Result<Vec<String>, sqlx::Error> {
    if version(db).await?.is_none() {
        return Ok(Vec::new());
    }
    let rows = db.fetch_all(sqlx::raw_sql(include_str!("schema/namespaces.sql"))).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

/// The schema in the database, if there is one.
async fn version(db: &mut PgConnection) -> Result<Option<i32>, sqlx::Error> {
    let row = db.fetch_one(sqlx::raw_sql(include_str!("schema/exists.sql"))).await?;
    if !row.try_get::<bool, _>(0)? {
        return Ok(None);
    }
    let row = db.fetch_one(sqlx::raw_sql(include_str!("schema/version.sql"))).await?;
    row.try_get(0).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database that is at this schema is not touched: what has changed in a file under `migrations/` or `functions/`
    /// reaches it only with a new number. Raise SCHEMA and add a migration (an empty one where only functions have
    /// changed), then write the new sum here.
    #[test]
    fn what_a_schema_consists_of_changes_with_its_number_only() {
        let texts = MIGRATIONS.iter().map(|(_, text)| *text).chain(FUNCTIONS);
        // FNV-1a, each text ended by a byte that none has.
        let sum = texts
            .flat_map(|text| text.bytes().chain([0]))
            .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        assert_eq!((SCHEMA, format!("{sum:016x}").as_str()), (5, "cbc02185926509fa"));
    }
}
