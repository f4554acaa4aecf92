//! A server as the store uses it: how connections are made, and what is asked on each before anything else.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::cluster::ClusterClientBuilder;
use redis::{Client, ProtocolVersion, PushInfo, PushKind, Value};
use tokio::time::{sleep, timeout};

use super::call::Call;
use super::config::Config;
use super::decode::Fields;
use super::error::ConnectError;
use super::facts::{Facts, Warning};
use super::keys::Keys;
use super::link::{CONNECT_LIMIT, Connection, Purpose, settings};
use super::scripts::{LAYOUT, Scripts};
use crate::view::{CALL_LIMIT, Identity};
use crate::wakeups::Wakeups;

/// How long the first connection and all its questions may take.
const START_LIMIT: Duration = Duration::from_secs(10);

/// How long a start rests before it tries again a server that is loading its data.
const LOADING_PAUSE: Duration = Duration::from_millis(100);

/// How often the crate may send a call again in a cluster, after a server has said where the keys are now.
const CLUSTER_RETRIES: u32 = 4;

/// A server and what we know of it.
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) keys: Keys,
    pub(super) scripts: &'static Scripts,
    pub(super) facts: Facts,
    pub(super) wakeups: Arc<Wakeups>,
    /// Who the store is, from the first connection on.
    identity: OnceLock<Identity>,
}

impl Server {
    /// Looks at the server. Refuses one that cannot keep what the store promises; what is only risky is told.
    pub(super) async fn open(
        config: Config,
        scripts: &'static Scripts,
    ) -> Result<(Arc<Server>, Vec<Warning>), ConnectError> {
        let (facts, warnings) = once_loaded(&config, async || {
            let mut connection = single(&config, |_| ()).await?;
            let facts = Facts::ask(&config, &mut connection).await?;
            let warnings = facts.judge(&config)?;
            Ok((facts, warnings))
        })
        .await?;
        let keys = Keys::new(&config.namespace);
        let (wakeups, identity) = (Arc::default(), OnceLock::new());
        let server = Server { config, keys, scripts, facts, wakeups, identity };
        once_loaded(&server.config, async || server.connect(Purpose::Calls, || ()).await).await?;
        Ok((Arc::new(server), warnings))
    }

    /// Whether the namespace is there. Changes nothing.
    pub(super) async fn exists(config: &Config) -> Result<bool, ConnectError> {
        let refused = |error| ConnectError::from_redis(&config.server, &config.user(), error);
        once_loaded(config, async || {
            let mut connection = single(config, |_| ()).await?;
            if Facts::ask(config, &mut connection).await?.cluster {
                connection = cluster(config).await?;
            }
            let call = Call::plain("EXISTS").arg(Keys::new(&config.namespace).about());
            Ok(connection.run(&call).await.map_err(refused)? == Value::Int(1))
        })
        .await
    }

    /// Who the store is.
    pub(super) fn identity(&self) -> &Identity {
        self.identity.get().expect("opening the server has asked for it")
    }

    /// Makes a connection and sees to it that the server is one to work with. `lost` is called when it ends.
    pub(super) async fn connect(
        self: &Server,
        purpose: Purpose,
        lost: impl Fn() + Send + Sync + Clone + 'static,
    ) -> Result<Connection, ConnectError> {
        within(&self.config, CALL_LIMIT, async {
            match purpose {
                Purpose::Calls => {
                    let mut connection = if self.facts.cluster {
                        cluster(&self.config).await?
                    } else {
                        single(&self.config, on_loss(lost)).await?
                    };
                    self.meet(&mut connection).await?;
                    Ok(connection)
                }
                Purpose::Listening => self.listen(lost).await,
            }
        })
        .await
    }

    /// The same questions on a connection that has been in use: a newer host may have changed the layout meanwhile, and a
    /// store that was emptied is told again who it is, before a host that starts now makes up something else.
    pub(super) async fn look(&self, connection: &mut Connection) -> Result<(), ConnectError> {
        within(&self.config, CALL_LIMIT, self.meet(connection)).await
    }

    /// Asks who the store is, which a replica does not answer, and tells it when it is new or was emptied.
    async fn meet(&self, connection: &mut Connection) -> Result<(), ConnectError> {
        let identity = match self.identity.get() {
            Some(identity) => identity.clone(),
            None => Identity::random().map_err(|error| ConnectError::Random(Arc::new(error)))?,
        };
        let call =
            Call::script(&self.scripts.about, &self.keys.all()).arg(LAYOUT).arg(&identity.id).arg(&identity.secret[..]);
        let answer = connection.run(&call).await.map_err(|error| self.refused(error))?;
        let (layout, found) = read(answer).map_err(|reason| ConnectError::Foreign {
            server: self.config.server.clone(),
            namespace: self.config.namespace.clone(),
            reason,
        })?;
        if layout > LAYOUT {
            return Err(ConnectError::Newer {
                server: self.config.server.clone(),
                namespace: self.config.namespace.clone(),
                found: layout,
                known: LAYOUT,
            });
        }
        // For ever the same in this process, whatever becomes of the server.
        if *self.identity.get_or_init(|| found.clone()) != found {
            return Err(ConnectError::Another {
                server: self.config.server.clone(),
                namespace: self.config.namespace.clone(),
            });
        }
        Ok(())
    }

    /// Makes a connection that hears what is said on the channel. In a cluster every server passes it on.
    async fn listen(&self, lost: impl Fn() + Send + Sync + Clone + 'static) -> Result<Connection, ConnectError> {
        let wakeups = self.wakeups.clone();
        let lost = on_loss(lost);
        let connection = single(&self.config, move |push: PushInfo| {
            if push.kind == PushKind::Message
                && let Some(Value::BulkString(job)) = push.data.get(1)
                && let Some(job) = std::str::from_utf8(job).ok().and_then(|job| job.parse().ok())
            {
                wakeups.wake(&job);
            }
            lost(push);
        })
        .await?;
        let Connection::Single(mut single) = connection else { unreachable!("it was made a moment ago") };
        single.subscribe(self.keys.channel()).await.map_err(|error| self.refused(error))?;
        Ok(Connection::Single(single))
    }

    fn refused(&self, error: redis::RedisError) -> ConnectError {
        ConnectError::from_redis(&self.config.server, &self.config.user(), error)
    }
}

/// What is found in the answer of the script `about`.
fn read(answer: Value) -> Result<(u64, Identity), String> {
    let mut fields = Fields::of("the namespace", answer).map_err(|error| error.to_string())?;
    let mut read = || {
        let layout = fields.text()?.parse().map_err(|error| crate::wire::WireError::new("its layout", error))?;
        let (id, secret) = (fields.text()?, fields.bytes()?);
        let secret = secret.try_into().map_err(|_| crate::wire::WireError::new("its secret", "it has not 32 bytes"))?;
        Ok((layout, Identity { id, secret }))
    };
    read().map_err(|error: crate::wire::WireError| error.to_string())
}

/// Tries within the limit of a start. A server that is loading its data is tried again.
async fn once_loaded<A>(
    config: &Config,
    mut attempt: impl AsyncFnMut() -> Result<A, ConnectError>,
) -> Result<A, ConnectError> {
    let mut loading = false;
    let work = async {
        loop {
            match attempt().await {
                Err(ConnectError::Loading { .. }) => {
                    loading = true;
                    sleep(LOADING_PAUSE).await;
                }
                answer => return answer,
            }
        }
    };
    match within(config, START_LIMIT, work).await {
        Err(ConnectError::Silent { server, limit_ms }) if loading => {
            Err(ConnectError::StillLoading { server, limit_ms })
        }
        answer => answer,
    }
}

/// Bounds the making of a connection.
async fn within<A>(
    config: &Config,
    limit: Duration,
    work: impl Future<Output = Result<A, ConnectError>>,
) -> Result<A, ConnectError> {
    let silent = || ConnectError::Silent { server: config.server.clone(), limit_ms: limit.as_millis() };
    timeout(limit, work).await.unwrap_or_else(|_| Err(silent()))
}

fn on_loss(lost: impl Fn() + Send + Sync + 'static) -> impl Fn(PushInfo) + Send + Sync + 'static {
    move |push| {
        if push.kind == PushKind::Disconnection {
            lost();
        }
    }
}

/// Connects to the server that the URL names.
async fn single(config: &Config, hear: impl Fn(PushInfo) + Send + Sync + 'static) -> Result<Connection, ConnectError> {
    let refused = |error| ConnectError::from_redis(&config.server, &config.user(), error);
    let client = Client::open(config.info.clone()).map_err(refused)?;
    let settings = settings().set_push_sender(move |push| {
        hear(push);
        Ok::<(), ()>(())
    });
    match timeout(CONNECT_LIMIT, client.get_multiplexed_async_connection_with_config(&settings)).await {
        Ok(connection) => connection.map(Connection::Single).map_err(refused),
        Err(_) => Err(ConnectError::Silent { server: config.server.clone(), limit_ms: CONNECT_LIMIT.as_millis() }),
    }
}

/// Connects to all servers of the cluster that the one in the URL belongs to.
async fn cluster(config: &Config) -> Result<Connection, ConnectError> {
    let refused = |error| ConnectError::from_redis(&config.server, &config.user(), error);
    let client = ClusterClientBuilder::new([config.info.clone()])
        .use_protocol(ProtocolVersion::RESP3)
        .tcp_settings(config.info.tcp_settings().clone())
        .connection_timeout(CONNECT_LIMIT)
        .response_timeout(CALL_LIMIT)
        .retries(CLUSTER_RETRIES)
        .build()
        .map_err(refused)?;
    client.get_async_connection().await.map(Connection::Cluster).map_err(refused)
}
