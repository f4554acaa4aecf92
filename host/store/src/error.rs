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
