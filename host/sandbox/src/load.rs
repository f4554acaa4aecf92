//! From bytes to a plugin that is ready to start: look, refuse, find compiled or have compiled, link.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::Engine;
use wasmtime::component::{Component, Linker};
use wasmtime_wasi::p2::bindings::CommandPre;

use crate::cache::{CodeCache, Unusable};
use crate::compile::{Answer, Artifact, CompileLimits, Compiler, Why};
use crate::fits::{HANDLER_INTERFACE, fits};
use crate::guest::{self, Guest};
use crate::imports::bindings::JobPre;
use crate::inspect::Glance;
use crate::invocation::MonotonicClock;
use crate::plugin::{CodeOrigin, Entry, Plugin, PluginBytes};
use crate::refusal::{CompileLimit, PluginError, Refusal};
use crate::refused::{Refused, Slow};
use crate::scan::Structure;
use crate::text;

/// Everything loading needs.
pub(crate) struct Loader {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<Guest>,
    pub(crate) cache: CodeCache,
    pub(crate) compiler: Compiler,
    pub(crate) clock: MonotonicClock,
    pub(crate) refused: Refused,
    pub(crate) slow: Slow,
}

/// What is known of a plugin's bytes without a compiler.
pub(crate) enum Known {
    Ready(Arc<Plugin>),
    /// They must be compiled. So much time has been spent on them.
    No(Glance, Duration),
}

impl Known {
    pub(crate) fn ready(self) -> Option<Arc<Plugin>> {
        match self {
            Known::Ready(plugin) => Some(plugin),
            Known::No(..) => None,
        }
    }
}

/// Bytes that must be compiled.
pub(crate) struct Uncompiled {
    pub(crate) tenant: String,
    pub(crate) bytes: PluginBytes,
    pub(crate) glance: Glance,
    /// So much time has been spent on them.
    pub(crate) spent: Duration,
}

/// What became of a try to compile.
pub(crate) enum Tried {
    Ready(Arc<Plugin>),
    /// It takes longer than the first try may: there is to be another, with all that one plugin may use.
    Long(Glance),
}

/// Which try it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Try {
    First,
    Last,
}

impl Loader {
    /// Finds what was compiled before, for a tenant. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// The bytes cannot be a plugin, or were refused before.
    pub(crate) fn find(&self, tenant: &str, bytes: &PluginBytes) -> Result<Known, Refusal> {
        let began = (self.clock)();
        let glance = Glance::new(bytes, bytes.digest());
        glance.verdict.clone()?;
        self.known(tenant, glance, began)
    }

    /// Has the bytes compiled, unless somebody else has had them compiled meanwhile. Takes long, and belongs on a thread of
    /// its own that lasts as long as the compiler does.
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub(crate) fn compile(&self, uncompiled: Uncompiled, which: Try) -> Result<Tried, PluginError> {
        let Uncompiled { tenant, bytes, glance, spent } = uncompiled;
        let began = (self.clock)().saturating_sub(spent);
        let glance = match self.known(&tenant, glance, began)? {
            Known::Ready(plugin) => return Ok(Tried::Ready(plugin)),
            Known::No(glance, _) => glance,
        };
        let limits = match which {
            Try::First => self.compiler.first_try(),
            Try::Last => self.compiler.limits,
        };
        match self.compiled(&tenant, &bytes, &glance, &limits) {
            Ok((structure, component)) => {
                let plugin = self.plugin(&component, glance, structure, CodeOrigin::Compiled, began)?;
                Ok(Tried::Ready(plugin))
            }
            Err(PluginError::Refused(refusal)) if self.may_take_longer(&refusal, &limits) => {
                self.slow.add(glance.digest);
                Ok(Tried::Long(glance))
            }
            Err(error) => {
                if let PluginError::Refused(refusal) = &error {
                    self.refused.add(glance.digest, refusal, (self.clock)());
                }
                Err(error)
            }
        }
    }

    /// Whether the time was up that this try had, and there is more.
    fn may_take_longer(&self, refusal: &Refusal, limits: &CompileLimits) -> bool {
        let all = &self.compiler.limits;
        match refusal {
            Refusal::CompileLimit { limit: CompileLimit::Cpu(_) } => limits.cpu < all.cpu,
            Refusal::CompileLimit { limit: CompileLimit::Wall(_) } => limits.wall < all.wall,
            _ => false,
        }
    }

    fn known(&self, tenant: &str, glance: Glance, began: Duration) -> Result<Known, Refusal> {
        if let Some(refusal) = self.refused.get(&glance.digest, (self.clock)()) {
            return Err(refusal);
        }
        let Some(component) = self.cache.load(&self.engine, &glance.digest, tenant) else {
            return Ok(Known::No(glance, (self.clock)().saturating_sub(began)));
        };
        let ty = component.component_type();
        let structure = Structure::named(
            ty.imports(&self.engine).map(|(name, _)| name),
            ty.exports(&self.engine).map(|(name, _)| name),
        );
        self.plugin(&component, glance, structure, CodeOrigin::Cache, began).map(Known::Ready)
    }

    fn compiled(
        &self,
        tenant: &str,
        bytes: &PluginBytes,
        glance: &Glance,
        limits: &CompileLimits,
    ) -> Result<(Structure, Component), PluginError> {
        let failed = |error| PluginError::Host(Arc::new(error));
        let draft = self.cache.draft(&glance.digest).map_err(failed)?;
        let answer = self.compiler.run(bytes, limits, self.cache.dir(), draft.name())?;
        let (structure, artifact) = self.artifact(answer, glance)?;
        self.cache.keep(&glance.digest, draft, &artifact, tenant).map_err(failed)?;
        let component =
            self.cache.load_kept(&self.engine, &glance.digest, tenant).map_err(|unusable| match unusable {
                Unusable::Missing => failed(io::Error::other("the compiled code has gone")),
                Unusable::Because(reason) => {
                    failed(io::Error::other(format!("the compiled code cannot be used: {reason}")))
                }
                Unusable::Refused(reason) => Refusal::Demanding { detail: detail(&reason) }.into(),
            })?;
        Ok((structure, component))
    }

    /// What the compiler has made, or why it has made nothing.
    fn artifact(&self, answer: Answer, glance: &Glance) -> Result<(Structure, Artifact), PluginError> {
        let limits = &self.compiler.limits;
        let refusal = match answer {
            Answer::Compiled { structure, artifact } => {
                fits(&structure)?;
                return Ok((structure, artifact));
            }
            Answer::Failed { detail, os_error } => {
                let kind = os_error.map_or(io::ErrorKind::Other, |code| io::Error::from_raw_os_error(code).kind());
                return Err(PluginError::Host(Arc::new(io::Error::new(kind, detail))));
            }
            Answer::Refused { structure, why } => match why {
                Why::Unfit => match fits(&structure) {
                    Err(refusal) => refusal,
                    Ok(()) => Refusal::CompilerAnswer { how: "it refuses what fits".to_owned() },
                },
                Why::Truncated => Refusal::Truncated { size: glance.size },
                Why::TooComplex { what, found, limit } => Refusal::TooComplex { what, found, limit },
                Why::Invalid { detail } => Refusal::Invalid { detail },
                Why::Componentize { detail } => {
                    Refusal::Componentize { detail, toolchain: structure.core.and_then(|core| core.toolchain) }
                }
                Why::Compile { detail } => Refusal::Compile { detail },
                Why::Memory => Refusal::CompileLimit { limit: CompileLimit::Memory(limits.memory) },
                Why::Output => Refusal::CompileLimit { limit: CompileLimit::Output(limits.output) },
                Why::Panicked { detail } => Refusal::CompilerBroke { how: format!("it panicked: {detail}") },
            },
        };
        Err(refusal.into())
    }

    fn plugin(
        &self,
        component: &Component,
        glance: Glance,
        structure: Structure,
        origin: CodeOrigin,
        began: Duration,
    ) -> Result<Arc<Plugin>, Refusal> {
        let entry =
            self.link(component).inspect_err(|refusal| self.refused.add(glance.digest, refusal, (self.clock)()))?;
        let ready_in = (self.clock)().saturating_sub(began);
        Ok(Arc::new(Plugin::new(entry, glance.with(structure, Ok(())), origin, ready_in)))
    }

    fn link(&self, component: &Component) -> Result<Entry, Refusal> {
        let detail = |error: wasmtime::Error| detail(&format!("{error:#}"));
        let pre = self
            .linker
            .instantiate_pre(component)
            .map_err(|error| Refusal::ImportMismatch { detail: detail(error) })?;
        let entry = if component.get_export_index(None, HANDLER_INTERFACE).is_some() {
            guest::handler_fits(&pre).and_then(|()| JobPre::new(pre)).map(Entry::Handler)
        } else {
            CommandPre::new(pre).map(Entry::Command)
        };
        entry.map_err(|error| Refusal::WrongType { detail: detail(error) })
    }
}

/// The engine's words, in which names of the component may stand.
fn detail(words: &str) -> String {
    text::bound(&text::escape(words), 1024)
}
