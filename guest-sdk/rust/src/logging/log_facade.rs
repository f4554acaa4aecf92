//! The `log` facade.

use log::kv::{Error, Key, Value, VisitSource};

use super::{Fields, host};

struct HostLogger;

static LOGGER: HostLogger = HostLogger;

pub(super) fn start() {
    // An error says that the plugin set a logger of its own: then that one is wanted.
    if log::set_logger(&LOGGER).is_ok() {
        log::set_max_level(filter(host::max_level()));
    }
}

impl log::Log for HostLogger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let mut fields = Collector(Fields::new());
        let message = match record.key_values().visit(&mut fields) {
            Ok(()) => record.args().to_string(),
            Err(error) => format!("{} (some fields are missing: {error})", record.args()),
        };
        super::emit(level(record.level()), record.target(), &message, &fields.0);
    }

    fn flush(&self) {}
}

struct Collector(Fields);

impl<'kvs> VisitSource<'kvs> for Collector {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        self.0.push((key.to_string(), value.to_string()));
        Ok(())
    }
}

fn level(level: log::Level) -> host::Level {
    match level {
        log::Level::Error => host::Level::Error,
        log::Level::Warn => host::Level::Warn,
        log::Level::Info => host::Level::Info,
        log::Level::Debug => host::Level::Debug,
        log::Level::Trace => host::Level::Trace,
    }
}

fn filter(least: host::Level) -> log::LevelFilter {
    match least {
        host::Level::Error => log::LevelFilter::Error,
        host::Level::Warn => log::LevelFilter::Warn,
        host::Level::Info => log::LevelFilter::Info,
        host::Level::Debug => log::LevelFilter::Debug,
        host::Level::Trace => log::LevelFilter::Trace,
    }
}
