//! `leasehold:job/log`: structured lines.

use wasmtime::Result;

use super::bindings::leasehold::job::log;
use crate::guest::Guest;
use crate::log::LogLevel;

impl log::Host for Guest {
    fn max_level(&mut self) -> Result<log::Level> {
        Ok(match self.attempt.log.least_level() {
            LogLevel::Trace => log::Level::Trace,
            LogLevel::Debug => log::Level::Debug,
            LogLevel::Info => log::Level::Info,
            LogLevel::Warn => log::Level::Warn,
            LogLevel::Error => log::Level::Error,
        })
    }

    fn emit(
        &mut self,
        level: log::Level,
        target: String,
        message: String,
        fields: Vec<(String, String)>,
    ) -> Result<()> {
        self.ensure_held()?;
        let level = match level {
            log::Level::Trace => LogLevel::Trace,
            log::Level::Debug => LogLevel::Debug,
            log::Level::Info => LogLevel::Info,
            log::Level::Warn => LogLevel::Warn,
            log::Level::Error => LogLevel::Error,
        };
        self.attempt.log.emit(level, &target, &message, &fields);
        Ok(())
    }
}
