//! What callers are told when a store does not answer.

/// A store that did not answer. The variant says whether the effect may have happened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was sent: the effect has not happened.
    #[error("the store could not be reached while {doing}; nothing was changed")]
    NotSent {
        /// What the call wanted.
        doing: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The effect may or may not have happened: send the same again.
    #[error("the store did not answer while {doing}; it may or may not have been done")]
    Unknown {
        /// What the call wanted.
        doing: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store refused the call itself; sending it again will not help.
    #[error("the store refused {doing}")]
    Rejected {
        /// What the call wanted.
        doing: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Whether the store has no room for changes, because its disk is full: until somebody frees some, sending the same again
    /// will not help.
    pub fn is_full(&self) -> bool {
        let (StoreError::NotSent { source, .. }
        | StoreError::Unknown { source, .. }
        | StoreError::Rejected { source, .. }) = self;
        let first: &(dyn std::error::Error + 'static) = source.as_ref();
        std::iter::successors(Some(first), |error| error.source()).any(|error| {
            let file = error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
            let server = error.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
            let system = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            file == Some(rusqlite::ErrorCode::DiskFull)
                || server.and_then(|error| error.code()).is_some_and(|code| code == "53100")
                || system == Some(std::io::ErrorKind::StorageFull)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_known_by_its_cause_however_it_is_told() {
        let of = |source: Box<dyn std::error::Error + Send + Sync>| StoreError::NotSent { doing: "a test", source };
        let sqlite = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        assert!(of(Box::new(sqlite(rusqlite::ffi::SQLITE_FULL))).is_full());
        assert!(!of(Box::new(sqlite(rusqlite::ffi::SQLITE_BUSY))).is_full());
        assert!(of(Box::new(std::io::Error::from(std::io::ErrorKind::StorageFull))).is_full());
        assert!(!of("the disk is full".into()).is_full(), "words are no cause");
    }
}
