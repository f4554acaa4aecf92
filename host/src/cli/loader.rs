//! What becomes of a plugin's file: compiled where it is to run, only looked at where it is not.

use std::path::Path;
use std::sync::Arc;

use leasehold::causes::chain;
use leasehold::plugins::PluginLoader;
use leasehold_sandbox::{Inspection, Plugin, Sandbox, inspect};

/// Validates and compiles.
pub(super) struct Compiler(pub(super) Arc<Sandbox>);

impl PluginLoader for Compiler {
    type Plugin = Plugin;
    async fn load(&self, _file: &Path, bytes: Vec<u8>) -> Result<Arc<Plugin>, String> {
        self.0.load_bytes(bytes).await.map_err(|error| chain(&error))
    }

    async fn load_metered(&self, _file: &Path, bytes: Vec<u8>) -> Result<Arc<Plugin>, String> {
        self.0.load_bytes_metered(bytes).await.map_err(|error| chain(&error))
    }
}

/// Tells what a file is without compiling it: enough to list the jobs it serves.
pub(super) struct Inspector;

impl PluginLoader for Inspector {
    type Plugin = Inspection;
    async fn load(&self, _file: &Path, bytes: Vec<u8>) -> Result<Arc<Inspection>, String> {
        let looked = tokio::task::spawn_blocking(move || inspect(&bytes)).await;
        let found = looked.map_err(|error| format!("it could not be inspected: {error}"))?;
        match &found.verdict {
            Ok(()) => Ok(Arc::new(found)),
            Err(refusal) => Err(refusal.to_string()),
        }
    }
}
