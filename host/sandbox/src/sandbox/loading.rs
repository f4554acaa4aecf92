//! Loading: who waits for what, and where the work is done.

use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use super::{Lane, Sandbox, SandboxError};
use crate::engine;
use crate::load::{Known, Tried, Try, Uncompiled};
use crate::plugin::{Plugin, PluginBytes, read_plugin_file};
use crate::refusal::PluginError;
use crate::turns::Turn;

/// Linking compares types, which recurses.
const LOADER_STACK: usize = 8 * 1024 * 1024;

impl Sandbox {
    /// Reads and loads a plugin's file. See [`Sandbox::load_bytes`].
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub async fn load(&self, tenant: &str, path: &Path) -> Result<Arc<Plugin>, PluginError> {
        self.load_bytes(tenant, self.read(path).await?).await
    }

    /// Reads and loads a plugin's file so that its fuel is counted. See [`Sandbox::load_bytes_metered`].
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub async fn load_metered(&self, tenant: &str, path: &Path) -> Result<Arc<Plugin>, PluginError> {
        self.load_bytes_metered(tenant, self.read(path).await?).await
    }

    /// Validates, compiles (or finds compiled) and links a plugin of a tenant.
    ///
    /// The work is done on threads and in processes of its own: this only waits, on any runtime. Half as many compilers as
    /// processors work at a time, at least one, and tenants take turns at them. What its first try is too short for waits for
    /// another turn, at one of half as many compilers beside those; while memory is short it takes the place of one of those.
    /// Bytes that were refused are refused again from memory. What waits holds its bytes: how much may wait is the caller's to bound.
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub async fn load_bytes(&self, tenant: &str, bytes: impl Into<PluginBytes>) -> Result<Arc<Plugin>, PluginError> {
        self.load_in(&self.plain, tenant, bytes.into()).await
    }

    /// Like [`Sandbox::load_bytes`], with code that counts fuel: it runs somewhat slower, and attempts of it can be given
    /// [a limit](crate::Limits::fuel).
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub async fn load_bytes_metered(
        &self,
        tenant: &str,
        bytes: impl Into<PluginBytes>,
    ) -> Result<Arc<Plugin>, PluginError> {
        let lane = self.metered_lane()?;
        self.load_in(&lane, tenant, bytes.into()).await
    }

    /// The part of [`Sandbox::load_bytes`], or of [`Sandbox::load_bytes_metered`], that needs no compiler and waits for none.
    /// None when the bytes must be compiled.
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub async fn find_bytes(
        &self,
        tenant: &str,
        bytes: &PluginBytes,
        metered: bool,
    ) -> Result<Option<Arc<Plugin>>, PluginError> {
        let known = match metered {
            true => self.find_in(&*self.metered_lane()?, tenant, bytes).await?,
            false => self.find_in(&self.plain, tenant, bytes).await?,
        };
        Ok(known.ready())
    }

    /// The part of [`Sandbox::load_bytes`], or of [`Sandbox::load_bytes_metered`], that takes no longer than the first try
    /// may. None when it takes longer.
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub async fn try_bytes(
        &self,
        tenant: &str,
        bytes: impl Into<PluginBytes>,
        metered: bool,
    ) -> Result<Option<Arc<Plugin>>, PluginError> {
        let known = match metered {
            true => self.try_in(&*self.metered_lane()?, tenant, &bytes.into()).await?,
            false => self.try_in(&self.plain, tenant, &bytes.into()).await?,
        };
        Ok(known.ready())
    }

    async fn read(&self, path: &Path) -> Result<Vec<u8>, PluginError> {
        let path = path.to_owned();
        self.apart("plugin-reader", move || read_plugin_file(&path)).await?
    }

    async fn find_in(&self, lane: &Lane, tenant: &str, bytes: &PluginBytes) -> Result<Known, PluginError> {
        let (loader, tenant, bytes) = (lane.loader.clone(), tenant.to_owned(), bytes.clone());
        Ok(self.apart("plugin-loader", move || loader.find(&tenant, &bytes)).await??)
    }

    async fn load_in(&self, lane: &Lane, tenant: &str, bytes: PluginBytes) -> Result<Arc<Plugin>, PluginError> {
        let (glance, spent) = match self.try_in(lane, tenant, &bytes).await? {
            Known::Ready(plugin) => return Ok(plugin),
            Known::No(glance, spent) => (glance, spent),
        };
        let mut turns = vec![self.long_compilers.take(tenant).await];
        if !has_free_memory(self.settings.compile_limits.memory) {
            turns.push(self.compilers.take(tenant).await);
        }
        let uncompiled = Uncompiled { tenant: tenant.to_owned(), bytes, glance, spent };
        match self.compile_in(lane, uncompiled, Try::Last, turns).await? {
            Tried::Ready(plugin) => Ok(plugin),
            Tried::Long(_) => unreachable!("the last try has all the time that there is"),
        }
    }

    /// Finds it compiled, or gives it its first try if it has not had that.
    async fn try_in(&self, lane: &Lane, tenant: &str, bytes: &PluginBytes) -> Result<Known, PluginError> {
        let (glance, spent) = match self.find_in(lane, tenant, bytes).await? {
            Known::No(glance, spent) if !lane.loader.slow.has(&glance.digest) => (glance, spent),
            known => return Ok(known),
        };
        let turn = vec![self.compilers.take(tenant).await];
        let uncompiled = Uncompiled { tenant: tenant.to_owned(), bytes: bytes.clone(), glance, spent };
        Ok(match self.compile_in(lane, uncompiled, Try::First, turn).await? {
            Tried::Ready(plugin) => Known::Ready(plugin),
            Tried::Long(glance) => Known::No(glance, spent),
        })
    }

    async fn compile_in(
        &self,
        lane: &Lane,
        uncompiled: Uncompiled,
        which: Try,
        turns: Vec<Turn>,
    ) -> Result<Tried, PluginError> {
        let loader = lane.loader.clone();
        let compiled = self.apart("plugin-compiler", move || {
            let _turns = turns;
            loader.compile(uncompiled, which)
        });
        compiled.await?
    }

    /// The engine that counts fuel, made when it is first asked for.
    fn metered_lane(&self) -> Result<Arc<Lane>, PluginError> {
        let failed = |error: SandboxError| PluginError::Host(Arc::new(io::Error::other(error)));
        let mut metered = self.metered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = &*metered {
            return Ok(lane.clone());
        }
        let (engine, _) =
            engine::metered_engine(self.settings.max_guests).map_err(|error| failed(SandboxError::engine(error)))?;
        let lane = Arc::new(Lane::new(engine, &self.settings, true).map_err(failed)?);
        Ok(metered.insert(lane).clone())
    }

    /// Runs blocking work on a named thread of low priority. The thread ends when the work does and never before: a compiler
    /// that it starts ends with it.
    async fn apart<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PluginError> {
        let (done, result) = oneshot::channel();
        thread::Builder::new()
            .name(name.to_owned())
            .stack_size(LOADER_STACK)
            .spawn(move || {
                engine::lower_priority();
                // Nobody listens any more when the caller gave up.
                let _ = done.send(work());
            })
            .map_err(|error| PluginError::Host(Arc::new(error)))?;
        // The thread's own message was printed by the panic hook.
        result.await.map_err(|_| PluginError::Host(Arc::new(io::Error::other("the loading thread panicked"))))
    }
}

/// Whether the machine has so much memory to spare; where it does not say, it has not.
fn has_free_memory(bytes: u64) -> bool {
    let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = told.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.is_some_and(|kib| kib.saturating_mul(1024) >= bytes)
}
