//! What a server says of itself at start, and what that means for a store.

use std::collections::HashMap;

use redis::{InfoDict, RedisResult, Value};

use super::call::Call;
use super::config::Config;
use super::error::ConnectError;
use super::link::Connection;
use super::trouble::Trouble;

/// The oldest version that the scripts are written for.
const OLDEST: (u64, u64) = (6, 2);

/// What a server says of itself. What it does not say, or does not let us ask, is none.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// Whether it let us ask; if not, only `cluster` and `replica` are known.
    pub(super) known: bool,
    pub(super) version: String,
    pub(super) cluster: bool,
    pub(super) replica: bool,
    pub(super) primary: Option<String>,
    pub(super) replicas: u64,
    pub(super) max_memory: u64,
    pub(super) policy: String,
    pub(super) aof: bool,
    /// The rule by which snapshots are written; empty: never.
    pub(super) save: Option<String>,
    pub(super) appendfsync: Option<String>,
}

/// Something that a store can live with and people should know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// INFO is not allowed.
    #[error(
        "the server does not say how it is set up, because this user may not run INFO: whether it keeps its data over \
         a restart and never evicts was not checked; allow it with ACL SETUSER ... +info"
    )]
    Unseen,
    /// Nothing is written to disk.
    #[error(
        "the server keeps nothing on disk: after its restart every run is forgotten, and the newest slots may run \
         again; set appendonly yes"
    )]
    NotKept,
    /// Only snapshots are written to disk.
    #[error(
        "the server writes snapshots only: a crash forgets what was done since the last one, and those slots may run \
         again; set appendonly yes"
    )]
    SnapshotsOnly,
    /// The append-only file is not synced at every write.
    #[error(
        "the server syncs its append-only file {appendfsync}: a crash of its machine may forget the last moments, and \
         those slots may run again; appendfsync always prevents it and costs speed"
    )]
    SyncedLate {
        /// The setting.
        appendfsync: String,
    },
    /// There are replicas.
    #[error(
        "the server has {replicas} replicas, and a failover may lose what was acknowledged last: those slots may run \
         again; with ?wait=N in the URL no claim, end or write counts as done before N of them know of it"
    )]
    Replicas {
        /// How many.
        replicas: u64,
    },
    /// `?wait=` asks for more replicas than there are.
    #[error(
        "wait={wait} in the URL, and the server has {replicas} replicas: nothing starts, because no claim counts as \
         done, until there are {wait}"
    )]
    TooFewReplicas {
        /// What the URL asks for.
        wait: u32,
        /// How many there are.
        replicas: u64,
    },
    /// The policy would evict, and there is no limit that would make it.
    #[error(
        "maxmemory-policy is {policy}: as soon as maxmemory is set, the server may delete runs; set \
         maxmemory-policy noeviction"
    )]
    MayEvict {
        /// The policy.
        policy: String,
    },
}

impl Facts {
    /// Asks the server.
    pub(super) async fn ask(config: &Config, connection: &mut Connection) -> Result<Facts, ConnectError> {
        let refused = |error| ConnectError::from_redis(&config.server, &config.user(), error);
        let info = match connection.run(&Call::plain("INFO")).await {
            Ok(info) => redis::from_redis_value(info).map_err(|error| refused(error.into()))?,
            // A user that may not ask is no obstacle.
            Err(error) if Trouble::of(&error) == Trouble::NotPermitted => {
                return Facts::greeted(connection).await.map_err(refused);
            }
            Err(error) => return Err(refused(error)),
        };
        let mut facts = Facts::read(&info);
        facts.save = setting(connection, "save").await;
        facts.appendfsync = setting(connection, "appendfsync").await;
        Ok(facts)
    }

    /// What a server says to everybody: enough to know how to talk to it.
    async fn greeted(connection: &mut Connection) -> RedisResult<Facts> {
        let said: HashMap<String, Value> = redis::from_redis_value(connection.run(&Call::plain("HELLO")).await?)?;
        let text = |key: &str| match said.get(key) {
            Some(Value::BulkString(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            Some(Value::SimpleString(text)) => text.clone(),
            _ => String::new(),
        };
        let (cluster, replica) = (text("mode") == "cluster", matches!(text("role").as_str(), "replica" | "slave"));
        Ok(Facts { cluster, replica, ..Facts::default() })
    }

    fn read(info: &InfoDict) -> Facts {
        let text = |key: &str| info.get::<String>(key).unwrap_or_default();
        let number = |key: &str| info.get(key).unwrap_or(0);
        let primary = info.get::<String>("master_host").map(|host| format!("{host}:{}", text("master_port")));
        Facts {
            known: true,
            version: text("redis_version"),
            cluster: number("cluster_enabled") == 1,
            replica: text("role") == "slave",
            primary,
            replicas: number("connected_slaves"),
            max_memory: number("maxmemory"),
            policy: text("maxmemory_policy"),
            aof: number("aof_enabled") == 1,
            save: None,
            appendfsync: None,
        }
    }

    /// Whether a store can work with this, and what people should know.
    pub(super) fn judge(&self, config: &Config) -> Result<Vec<Warning>, ConnectError> {
        let server = config.server.clone();
        if version(&self.version).is_some_and(|version| version < OLDEST) {
            return Err(ConnectError::TooOld { server, version: self.version.clone() });
        }
        if self.replica {
            return Err(ConnectError::Replica { server, primary: self.primary.clone() });
        }
        // `volatile-*` takes keys with a time to live alone, and none of the store's has one: it is as good as noeviction.
        let evicts = self.policy.starts_with("allkeys-");
        if evicts && self.max_memory > 0 {
            return Err(ConnectError::Evicts { server, policy: self.policy.clone() });
        }
        if self.cluster && config.wait > 0 {
            return Err(ConnectError::WaitInCluster { server });
        }
        if !self.known {
            return Ok(vec![Warning::Unseen]);
        }
        let mut warnings = Vec::new();
        if evicts {
            warnings.push(Warning::MayEvict { policy: self.policy.clone() });
        }
        warnings.extend(self.persistence());
        if self.replicas < config.wait.into() {
            warnings.push(Warning::TooFewReplicas { wait: config.wait, replicas: self.replicas });
        }
        if self.replicas > 0 && config.wait == 0 {
            warnings.push(Warning::Replicas { replicas: self.replicas });
        }
        Ok(warnings)
    }

    fn persistence(&self) -> Option<Warning> {
        if !self.aof {
            return match self.save.as_deref() {
                Some("") => Some(Warning::NotKept),
                _ => Some(Warning::SnapshotsOnly),
            };
        }
        let late = self.appendfsync.clone().filter(|appendfsync| appendfsync != "always");
        late.map(|appendfsync| Warning::SyncedLate { appendfsync })
    }
}

/// A setting of the server, where it may be asked for.
async fn setting(connection: &mut Connection, name: &str) -> Option<String> {
    let answer = connection.run(&Call::plain("CONFIG").arg("GET").arg(name)).await.ok()?;
    let pairs: Vec<(String, String)> = match answer {
        Value::Map(_) | Value::Array(_) => redis::from_redis_value(answer).ok()?,
        _ => return None,
    };
    pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

fn version(text: &str) -> Option<(u64, u64)> {
    let mut parts = text.split('.').map(str::parse::<u64>);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(change: impl FnOnce(&mut Facts)) -> Result<Vec<Warning>, ConnectError> {
        let mut facts = Facts {
            known: true,
            version: "7.0.15".into(),
            policy: "noeviction".into(),
            aof: true,
            appendfsync: Some("always".into()),
            save: Some(String::new()),
            ..Facts::default()
        };
        change(&mut facts);
        facts.judge(&Config::new("redis://u:secret@h", "prod").expect("a URL"))
    }

    #[test]
    fn to_wait_for_more_replicas_than_there_are_is_told() {
        let facts = Facts { known: true, aof: true, appendfsync: Some("always".into()), ..Facts::default() };
        let judged = |replicas| {
            let facts = Facts { replicas, ..facts.clone() };
            facts.judge(&Config::new("redis://h?wait=2", "prod").expect("a URL")).expect("it is taken")
        };
        assert_eq!(judged(1), [Warning::TooFewReplicas { wait: 2, replicas: 1 }]);
        assert_eq!(judged(2), []);
    }

    #[test]
    fn a_sound_server_is_taken_without_a_word() {
        assert_eq!(judged(|_| ()).expect("it is taken"), []);
    }

    #[test]
    fn a_server_that_cannot_keep_the_promises_is_refused_with_the_fix() {
        let told = |change: fn(&mut Facts)| judged(change).expect_err("it is refused").to_string();
        assert!(told(|facts| facts.version = "6.0.16".into()).contains("Redis 6.2"));
        assert!(told(|facts| facts.version = "5.0".into()).contains("5.0"));
        assert!(told(|facts| facts.replica = true).contains("name the primary"));
        let evicts = |facts: &mut Facts| {
            facts.max_memory = 1;
            facts.policy = "allkeys-lru".into();
        };
        assert!(told(evicts).contains("set maxmemory-policy noeviction"));
    }

    #[test]
    fn what_is_risky_is_told() {
        let lru = |facts: &mut Facts| facts.policy = "allkeys-lru".into();
        assert_eq!(judged(lru).expect("taken"), [Warning::MayEvict { policy: "allkeys-lru".into() }]);
        // No key of the store has a time to live.
        let volatile = |facts: &mut Facts| (facts.policy, facts.max_memory) = ("volatile-lru".into(), 1);
        assert_eq!(judged(volatile).expect("taken"), []);
        assert_eq!(judged(|facts| facts.aof = false).expect("taken"), [Warning::NotKept]);
        let snapshots = |facts: &mut Facts| (facts.aof, facts.save) = (false, Some("3600 1".into()));
        assert_eq!(judged(snapshots).expect("taken"), [Warning::SnapshotsOnly]);
        let late = |facts: &mut Facts| facts.appendfsync = Some("everysec".into());
        assert_eq!(judged(late).expect("taken"), [Warning::SyncedLate { appendfsync: "everysec".into() }]);
        assert_eq!(judged(|facts| facts.replicas = 2).expect("taken"), [Warning::Replicas { replicas: 2 }]);
        assert_eq!(judged(|facts| *facts = Facts::default()).expect("taken"), [Warning::Unseen]);
    }
}
