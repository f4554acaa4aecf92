//! `leasehold:job/config`: settings, and placeholders of secrets.

use wasmtime::Result;

use super::bindings::leasehold::job::config;
use crate::guest::Guest;

impl config::Host for Guest {
    fn get(&mut self, key: String) -> Result<Option<String>> {
        Ok(self.outward.effects.settings.get(&key))
    }
}
