//! From bytes to a plugin that is ready to start: look, refuse, compile or find compiled, link.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

use crate::cache::CodeCache;
use crate::compile;
use crate::guest::{self, Guest};
use crate::imports::bindings::JobPre;
use crate::inspect::inspect;
use crate::invocation::MonotonicClock;
use crate::plugin::{CodeOrigin, Digest, Plugin};
use crate::refusal::Refusal;
use crate::text;

/// Everything loading needs.
pub(crate) struct Loader {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<Guest>,
    pub(crate) cache: Option<CodeCache>,
    pub(crate) clock: MonotonicClock,
    pub(crate) refused: Refused,
}

impl Loader {
    /// Takes long where the code must be compiled: call it on a thread of its own.
    pub(crate) fn load(&self, bytes: &[u8]) -> Result<Arc<Plugin>, Refusal> {
        let began = (self.clock)();
        let inspection = inspect(bytes);
        inspection.verdict.clone()?;
        let digest = inspection.digest;
        if let Some(refusal) = self.refused.get(&digest) {
            return Err(refusal);
        }
        let (component, origin) =
            self.component(bytes, &digest).inspect_err(|refusal| self.refused.add(digest, refusal))?;
        let pre = self.link(&component).inspect_err(|refusal| self.refused.add(digest, refusal))?;
        let ready_in = (self.clock)().saturating_sub(began);
        Ok(Arc::new(Plugin::new(pre, inspection, origin, ready_in)))
    }

    fn component(&self, bytes: &[u8], digest: &Digest) -> Result<(Component, CodeOrigin), Refusal> {
        if let Some(cache) = &self.cache {
            if let Some(component) = cache.load(&self.engine, digest) {
                return Ok((component, CodeOrigin::Cache));
            }
            let artifact = compile::compile(&self.engine, bytes)?;
            match cache.store(digest, &artifact) {
                Ok(()) => {
                    if let Some(component) = cache.load(&self.engine, digest) {
                        return Ok((component, CodeOrigin::Compiled));
                    }
                    tracing::warn!(%digest, "compiled code was kept but cannot be loaded; compiling once more");
                }
                Err(error) => tracing::warn!(%digest, %error, "cannot keep compiled code; compiling once more"),
            }
        }
        let component = compile::compile_in_memory(&self.engine, bytes)?;
        Ok((component, CodeOrigin::Compiled))
    }

    fn link(&self, component: &Component) -> Result<JobPre<Guest>, Refusal> {
        let detail = |error: wasmtime::Error| text::bound(&text::escape(&format!("{error:#}")), 1024);
        let pre = self
            .linker
            .instantiate_pre(component)
            .map_err(|error| Refusal::ImportMismatch { detail: detail(error) })?;
        guest::handler_fits(&pre)
            .and_then(|()| JobPre::new(pre))
            .map_err(|error| Refusal::WrongType { detail: detail(error) })
    }
}

/// How many refused digests are remembered.
const REMEMBERED: usize = 256;

/// What was compiled or linked in vain, so that a bad file that stays in place costs that once.
#[derive(Default)]
pub(crate) struct Refused(Mutex<VecDeque<(Digest, Refusal)>>);

impl Refused {
    fn get(&self, digest: &Digest) -> Option<Refusal> {
        self.all().iter().find(|(known, _)| known == digest).map(|(_, refusal)| refusal.clone())
    }

    fn add(&self, digest: Digest, refusal: &Refusal) {
        let mut all = self.all();
        all.truncate(REMEMBERED - 1);
        all.push_front((digest, refusal.clone()));
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<(Digest, Refusal)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_digests_are_remembered_with_their_reason_and_the_oldest_are_forgotten() {
        let refused = Refused::default();
        let digest = |n: usize| Digest::new(std::array::from_fn(|at| n.to_le_bytes().get(at).copied().unwrap_or(0)));
        for n in 0..1_000 {
            refused.add(digest(n), &Refusal::Compile { detail: n.to_string() });
        }
        assert_eq!(refused.get(&digest(999)), Some(Refusal::Compile { detail: "999".to_owned() }));
        assert_eq!(refused.get(&digest(0)), None);
        assert_eq!(refused.all().len(), REMEMBERED);
    }
}
