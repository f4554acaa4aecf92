//! What an attempt may do to the world outside, and by whose leave.

use std::fmt;
use std::sync::Arc;

use crate::gate::{Gate, OpenGate};
use crate::outbound::HttpGrants;
use crate::settings::Settings;
use crate::storage::{MemoryStorage, Storage};

/// Everything behind the gate that one attempt is given.
///
/// The default is an attempt without a lease that was granted nothing: its gate is open, and what it keeps is gone with
/// it.
#[derive(Clone)]
pub struct Effects {
    /// Asked before each effect begins.
    pub gate: Arc<dyn Gate>,
    /// The run's checkpoint and the tenant's key-value space.
    pub storage: Arc<dyn Storage>,
    /// What `config.get` answers.
    pub settings: Settings,
    /// Where `http.send` may go.
    pub http: Arc<HttpGrants>,
}

impl Default for Effects {
    fn default() -> Effects {
        Effects {
            gate: Arc::new(OpenGate),
            storage: Arc::new(MemoryStorage::default()),
            settings: Settings::default(),
            http: Arc::default(),
        }
    }
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effects").field("settings", &self.settings).field("http", &self.http).finish_non_exhaustive()
    }
}
