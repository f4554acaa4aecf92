//! Redis and Valkey, beside redis-benchmark on a script of three small commands.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{ConnectionAddr, IntoConnectionInfo};
use tokio::sync::Mutex;

use super::error::BenchError;
use super::place::{FULL, Missing, Place, Subject};
use super::report::Target;
use super::tool::Tool;
use crate::redis::RedisStore;

/// What every call of a driver does at least: asks the time, writes a field and reads it.
const SCRIPT: &str = include_str!("yardstick/redis.lua");

/// Keys that the yardstick works on.
const KEYS: usize = 1_000;

/// Calls of the first round, which is there to learn how many fill a round.
const FIRST: f64 = 5_000.0;

/// Calls of a round at most.
const MOST: f64 = 5e6;

/// How long a question to the server may take.
const LIMIT: Duration = Duration::from_secs(10);

/// How long redis-benchmark may take, besides ten times its round: it is given a number of calls and not a time, and a
/// busy machine may be many times slower than it was a moment ago.
const AROUND: Duration = Duration::from_secs(60);

/// The programs' package.
const PACKAGE: &str = "Redis (Debian's package redis-tools) and Valkey (valkey-tools)";

/// A store in a Redis or Valkey server.
pub(super) async fn subject(url: &str, namespace: &str) -> Result<Subject, BenchError> {
    let store = RedisStore::connect(url, namespace).await?;
    let mut server = Server::at(url, namespace);
    let info = server.info().await;
    let name = match &info {
        Ok(info) => {
            server.cluster = field(info, "cluster_enabled") == Some("1");
            name(info).unwrap_or_else(|| "redis".into())
        }
        Err(_) => "redis".into(),
    };
    Ok(Subject {
        name,
        store: Arc::new(store),
        place: Box::new(server),
        in_flight: 50,
        pairs: Some(Target::Part { least: 0.25, aim: 0.35 }),
        heartbeats: Some(Target::AtMost(250.0)),
        full: Some(FULL),
    })
}

struct Server {
    /// Where it is, as redis-cli and redis-benchmark both understand it.
    address: Vec<String>,
    database: String,
    password: Option<String>,
    namespace: String,
    cluster: bool,
    /// The yardstick's script in the server, and calls a second of the last round.
    yardstick: Mutex<Option<(String, f64)>>,
}

impl Server {
    /// The server that the URL names, which the driver has accepted.
    fn at(url: &str, namespace: &str) -> Server {
        let plain = url.split_once('?').map_or(url, |(plain, _)| plain);
        let mut server = Server {
            address: Vec::new(),
            database: "0".into(),
            password: None,
            namespace: namespace.to_owned(),
            cluster: false,
            yardstick: Mutex::default(),
        };
        let Ok(info) = plain.into_connection_info() else { return server };
        let word = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        server.address = match info.addr() {
            ConnectionAddr::Tcp(host, port) => word(&["-h", host, "-p", &port.to_string()]),
            ConnectionAddr::TcpTls { host, port, .. } => word(&["-h", host, "-p", &port.to_string(), "--tls"]),
            ConnectionAddr::Unix(path) => word(&["-s", &path.to_string_lossy()]),
            _ => Vec::new(),
        };
        let settings = info.redis_settings();
        server.database = settings.db().to_string();
        server.password = settings.password().map(ToOwned::to_owned);
        if let Some(user) = settings.username() {
            server.address.extend(word(&["--user", user]));
        }
        server
    }

    /// Asks the server something with its own client.
    async fn ask(&self, words: &[&str], input: &str) -> Result<String, Missing> {
        let mut arguments = self.address.clone();
        arguments.extend(["-n", &self.database].into_iter().chain(words.iter().copied()).map(ToOwned::to_owned));
        let environment: Vec<_> = self.password.iter().map(|password| ("REDISCLI_AUTH", password.clone())).collect();
        let names = &["redis-cli", "valkey-cli"];
        let tool = Tool { names, package: PACKAGE, arguments, environment: &environment, input, limit: LIMIT };
        tool.run().await
    }

    async fn info(&self) -> Result<String, Missing> {
        self.ask(&["INFO"], "").await
    }

    /// Puts the yardstick's script into the server.
    async fn load(&self) -> Result<String, Missing> {
        let hash = self.ask(&["-x", "SCRIPT", "LOAD"], SCRIPT).await?;
        let hash = hash.trim();
        let sound = hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        sound.then(|| hash.to_owned()).ok_or_else(|| Missing("the server did not take the yardstick's script".into()))
    }

    /// Runs redis-benchmark with this many calls.
    async fn benchmark(&self, hash: &str, in_flight: usize, calls: f64, round: Duration) -> Result<f64, Missing> {
        let mut arguments = self.address.clone();
        let key = format!("leasehold:{{{}}}:yardstick:__rand_int__", self.namespace);
        let (keys, clients, calls) = (KEYS.to_string(), in_flight.to_string(), format!("{calls:.0}"));
        let flags = ["--dbnum", &self.database, "--csv", "-r", &keys, "-c", &clients, "-n", &calls];
        let command = ["EVALSHA", hash, "1", &key, "value"];
        arguments.extend(flags.into_iter().chain(command).map(ToOwned::to_owned));
        let names = &["redis-benchmark", "valkey-benchmark"];
        let limit = AROUND + round * 10;
        let tool = Tool { names, package: PACKAGE, arguments, environment: &[], input: "", limit };
        let output = tool.run().await?;
        calls_a_second(&output).ok_or_else(|| Missing("redis-benchmark said something that is not understood".into()))
    }
}

#[async_trait]
impl Place for Server {
    fn yardstick(&self) -> Option<&'static str> {
        Some("calls/s of redis-benchmark")
    }

    async fn turn(&self, in_flight: usize, round: Duration) -> Result<f64, Missing> {
        if self.cluster {
            return Err(Missing("redis-benchmark measures one server, and this is a cluster".into()));
        }
        if self.password.is_some() {
            let why = "redis-benchmark takes a password as an argument only, which every user of this machine could \
                       read: measure a server that asks for none";
            return Err(Missing(why.into()));
        }
        let mut yardstick = self.yardstick.lock().await;
        let (hash, speed) = match yardstick.take() {
            Some(known) => known,
            None => {
                let hash = self.load().await?;
                let speed = self.benchmark(&hash, in_flight, FIRST, round).await?;
                (hash, speed)
            }
        };
        let calls = (speed * round.as_secs_f64()).clamp(FIRST, MOST);
        let speed = self.benchmark(&hash, in_flight, calls, round).await?;
        *yardstick = Some((hash, speed));
        Ok(speed)
    }

    fn medium(&self) -> &'static str {
        "in memory"
    }

    async fn bytes(&self) -> Result<u64, Missing> {
        if self.cluster {
            return Err(Missing("the servers of a cluster tell their memory each for itself".into()));
        }
        let info = self.info().await?;
        let used = field(&info, "used_memory").and_then(|used| used.parse().ok());
        used.ok_or_else(|| Missing("the server does not tell used_memory: its user may not call INFO".into()))
    }

    async fn facts(&self) -> Vec<String> {
        let mut facts = vec!["redis-benchmark calls a script of TIME, HSET and HGET, without a pipeline".to_owned()];
        let info = self.info().await.unwrap_or_default();
        let setting = |name| field(&info, name).map(|value| format!("{name}={value}"));
        let known: Vec<_> = ["aof_enabled", "connected_slaves", "io_threads_active"].map(setting).into();
        let known: Vec<_> = known.into_iter().flatten().collect();
        if !known.is_empty() {
            facts.push(known.join(" "));
        }
        facts
    }

    fn left_behind(&self) -> Option<String> {
        let namespace = &self.namespace;
        let at = self.address.join(" ");
        Some(format!(
            "the namespace {namespace} stays in the server; remove it with: redis-cli {at} -n {db} --scan --pattern \
             'leasehold:{{{namespace}*' | xargs -r redis-cli {at} -n {db} UNLINK",
            db = self.database
        ))
    }
}

/// What the server calls itself.
fn name(info: &str) -> Option<String> {
    match field(info, "valkey_version") {
        Some(version) => Some(format!("valkey {version}")),
        None => field(info, "redis_version").map(|version| format!("redis {version}")),
    }
}

/// A field of INFO.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Calls a second, of redis-benchmark's CSV: the second field of the last line.
fn calls_a_second(csv: &str) -> Option<f64> {
    let last = csv.lines().rfind(|line| line.starts_with('"'))?;
    let figure: f64 = last.split('"').skip(1).step_by(2).nth(1)?.parse().ok()?;
    (figure > 0.0).then_some(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_a_second_are_read_from_redis_benchmark() {
        let seven = include_str!("tests/redis-benchmark-7.0.csv");
        assert_eq!(calls_a_second(seven), Some(11_357.18));
        let six = "\"EVALSHA a 1 k value\",\"59880.24\"\n";
        assert_eq!(calls_a_second(six), Some(59_880.24));
        for none in ["", "\"test\",\"rps\"\n", "Error from server: NOSCRIPT\n", "\"EVALSHA a\",\"0.00\"\n"] {
            assert_eq!(calls_a_second(none), None, "{none}");
        }
    }

    #[test]
    fn a_server_is_named_by_its_info() {
        let redis = include_str!("tests/redis-info-7.0.txt");
        assert_eq!(name(redis).as_deref(), Some("redis 7.0.15"));
        assert!(field(redis, "used_memory").unwrap().parse::<u64>().is_ok());
        let valkey = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n";
        assert_eq!(name(valkey).as_deref(), Some("valkey 8.1.1"));
    }

    #[test]
    fn a_password_is_in_no_argument() {
        let server = Server::at("redis://anna:s3cret@db.example:7000/2?wait=1", "bench-1");
        assert_eq!(server.address, ["-h", "db.example", "-p", "7000", "--user", "anna"]);
        assert_eq!((server.database.as_str(), server.password.as_deref()), ("2", Some("s3cret")));
        assert!(!server.left_behind().unwrap().contains("s3cret"));
        assert_eq!(Server::at("rediss://h", "n").address, ["-h", "h", "-p", "6379", "--tls"]);
    }
}
