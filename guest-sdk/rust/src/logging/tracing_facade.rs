//! The `tracing` facade: a layer over tracing-subscriber's registry, which keeps the spans.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use super::{Fields, host};

pub(super) fn start() {
    let least = filter(host::max_level());
    let subscriber = tracing_subscriber::registry().with(HostLayer { least });
    // An error says that the plugin set a subscriber of its own: then that one is wanted.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

struct HostLayer {
    least: LevelFilter,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for HostLayer {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= self.least
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.least)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut collected = Collector::default();
        attributes.record(&mut collected);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(collected);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(collected) = span.extensions_mut().get_mut::<Collector>()
        {
            values.record(collected);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(collected) = span.extensions().get::<Collector>() {
                fields.extend(collected.fields.iter().cloned());
            }
        }
        let mut collected = Collector::default();
        event.record(&mut collected);
        fields.append(&mut collected.fields);
        let metadata = event.metadata();
        super::emit(level(*metadata.level()), metadata.target(), &collected.message, &fields);
    }
}

/// An event's or a span's message and other fields, outermost first.
#[derive(Default)]
struct Collector {
    message: String,
    fields: Fields,
}

impl Collector {
    fn push(&mut self, field: &Field, value: String) {
        if field.name() == "message" {
            self.message = value;
        } else {
            self.fields.push((field.name().to_owned(), value));
        }
    }
}

impl Visit for Collector {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field, format!("{value:?}"));
    }
}

fn level(level: Level) -> host::Level {
    match level {
        Level::ERROR => host::Level::Error,
        Level::WARN => host::Level::Warn,
        Level::INFO => host::Level::Info,
        Level::DEBUG => host::Level::Debug,
        Level::TRACE => host::Level::Trace,
    }
}

fn filter(least: host::Level) -> LevelFilter {
    match least {
        host::Level::Error => LevelFilter::ERROR,
        host::Level::Warn => LevelFilter::WARN,
        host::Level::Info => LevelFilter::INFO,
        host::Level::Debug => LevelFilter::DEBUG,
        host::Level::Trace => LevelFilter::TRACE,
    }
}
