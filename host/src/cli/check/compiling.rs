//! `leasehold check --compile`: has every plugin compiled into the directory where hosts look for compiled code, so that none
//! of them has to wait for it.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold::plugins::{LoadError, PluginLoader};
use leasehold_lease::id::TenantName;
use leasehold_sandbox::{CodeOrigin, Plugin, PluginBytes, PluginError, Sandbox};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::cli::error::CliError;
use crate::cli::loader::{load_error, reason};
use crate::cli::output::{Colour, Output};
use crate::cli::text::{bytes, duration_ms, plain};

/// What is told of one file.
pub(super) enum News {
    Begun(PathBuf),
    Ended(PathBuf, Result<Arc<Plugin>, PluginError>),
}

/// Compiles, and tells of each file how that went.
pub(super) struct Teller {
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) news: mpsc::UnboundedSender<News>,
}

impl PluginLoader for Teller {
    type Plugin = Plugin;

    async fn load(
        &self,
        tenant: &TenantName,
        file: &Path,
        bytes: PluginBytes,
        _metered: bool,
    ) -> Result<Arc<Plugin>, LoadError> {
        // The receiver outlives the scan that calls this.
        let _ = self.news.send(News::Begun(file.to_owned()));
        let loaded = self.sandbox.load_bytes(tenant.as_str(), bytes).await;
        let _ = self.news.send(News::Ended(file.to_owned(), loaded.clone()));
        loaded.map_err(|error| load_error(&error))
    }
}

/// Tells the news as they come: results to standard output, and to a person what is being compiled right now.
pub(super) struct Tale<'a> {
    out: &'a mut Output,
    progress: bool,
    under_way: Vec<PathBuf>,
    /// Files that were not loaded.
    pub(super) refused: BTreeSet<PathBuf>,
}

impl Tale<'_> {
    pub(super) fn new(out: &mut Output) -> Tale<'_> {
        Tale { out, progress: io::stderr().is_terminal(), under_way: Vec::new(), refused: BTreeSet::new() }
    }

    pub(super) fn tell(&mut self, news: News) -> Result<(), CliError> {
        match news {
            News::Begun(file) => self.under_way.push(file),
            News::Ended(file, loaded) => {
                self.under_way.retain(|other| *other != file);
                self.show_progress("");
                self.row(&Row::new(&file, &loaded))?;
                if loaded.is_err() {
                    self.refused.insert(file);
                }
            }
        }
        let now: Vec<_> =
            self.under_way.iter().filter_map(|file| file.file_name()).map(|f| f.to_string_lossy()).collect();
        let now = if now.is_empty() { String::new() } else { plain(&format!("compiling {} …", now.join(", "))) };
        self.show_progress(&now);
        Ok(())
    }

    fn row(&mut self, row: &Row) -> Result<(), CliError> {
        if self.out.is_json() {
            self.out.object(row)?;
        } else {
            let (colour, result) = row.told();
            let result = self.out.paint().paint(colour, &result);
            self.out.text(&format!("{}: {result}\n", plain(&row.file)))?;
        }
        self.out.flush()
    }

    /// One line on standard error that the next one replaces.
    fn show_progress(&self, line: &str) {
        if self.progress {
            // Nobody is left to be told that standard error is closed.
            let _ = write!(io::stderr().lock(), "\r\x1b[K{line}");
        }
    }
}

/// A plugin, as `--json` tells it.
#[derive(Debug, Serialize)]
struct Row {
    file: String,
    /// `compiled`, `cached` or `refused`; `failed` when the host is at fault.
    result: &'static str,
    /// The cause of a refusal in one word.
    word: Option<&'static str>,
    reason: Option<String>,
    digest: Option<String>,
    /// Bytes of its file.
    size: Option<usize>,
    ready_ms: Option<u64>,
}

impl Row {
    fn new(file: &Path, loaded: &Result<Arc<Plugin>, PluginError>) -> Row {
        let file = file.display().to_string();
        let empty = Row { file, result: "failed", word: None, reason: None, digest: None, size: None, ready_ms: None };
        match loaded {
            Ok(plugin) => Row {
                result: match plugin.origin() {
                    CodeOrigin::Compiled => "compiled",
                    CodeOrigin::Cache => "cached",
                },
                digest: Some(plugin.digest().to_string()),
                size: Some(plugin.size()),
                ready_ms: Some(whole_ms(plugin.ready_in())),
                ..empty
            },
            Err(error @ PluginError::Refused(refusal)) => {
                Row { result: "refused", word: Some(refusal.word()), reason: Some(reason(error)), ..empty }
            }
            Err(error) => Row { reason: Some(reason(error)), ..empty },
        }
    }

    fn told(&self) -> (Colour, String) {
        match (&self.reason, self.size, self.ready_ms) {
            (None, Some(size), Some(ms)) => {
                let how = if self.result == "cached" { "compiled before, ready" } else { "compiled" };
                (Colour::Good, format!("{how} in {}, {}", duration_ms(ms), bytes(size as u64)))
            }
            (reason, ..) => (Colour::Bad, format!("{}: {}", self.result, plain(reason.as_deref().unwrap_or_default()))),
        }
    }
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use leasehold_sandbox::Refusal;

    use super::*;

    #[test]
    fn a_refused_plugin_is_told_with_its_word_and_on_one_line() {
        let refused = Err(PluginError::Refused(Refusal::Invalid { detail: "x\ny".to_owned() }));
        let row = Row::new(Path::new("a\n.wasm"), &refused);
        assert_eq!((row.result, row.word), ("refused", Some("invalid")));
        let (colour, told) = row.told();
        assert_eq!(colour, Colour::Bad);
        assert_eq!(told, "refused: invalid: the file is not a valid component: x\\ny");
    }

    #[test]
    fn a_failure_of_the_host_is_not_told_as_the_plugins() {
        let failed = Err(PluginError::Host(Arc::new(io::Error::other("no process"))));
        let row = Row::new(Path::new("a.wasm"), &failed);
        assert_eq!((row.result, row.word), ("failed", None));
        assert!(row.told().1.ends_with("no process"), "{row:?}");
    }
}
