//! Redis Cluster: three masters, each with a third of the slots.

use std::time::Duration;

use super::{Redis, RedisKind, RedisOptions, command};
use crate::ServerError;
use crate::port::Port;

/// The slots of each master.
const SLOTS: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];
/// How long the masters may take to agree.
const LIMIT: Duration = Duration::from_secs(30);

/// A private cluster of three masters without replicas.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
    _bus: Vec<Port>,
}

impl RedisCluster {
    /// Starts one in which all masters know each other and all slots are served.
    ///
    /// # Errors
    ///
    /// [`ServerError::Missing`] where it is not installed; others where it does not get ready.
    pub async fn start(kind: RedisKind) -> Result<RedisCluster, ServerError> {
        let (mut nodes, mut bus) = (Vec::new(), Vec::new());
        for (first, last) in SLOTS {
            let port = Port::reserve()?;
            let settings = [
                ("cluster-enabled", "yes"),
                // Its own default, the port and ten thousand, may be somebody's outgoing connection.
                ("cluster-port", &port.number().to_string()),
                // A killed master is missed after this many ms, not the fifteen seconds of the default.
                ("cluster-node-timeout", "2000"),
            ];
            let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
            let node = Redis::start_with(kind, RedisOptions { settings, ..RedisOptions::default() }).await?;
            expect_ok(&node, &format!("CLUSTER ADDSLOTSRANGE {first} {last}")).await?;
            nodes.push(node);
            bus.push(port);
        }
        for (node, port) in nodes.iter().zip(&bus).skip(1) {
            expect_ok(&nodes[0], &format!("CLUSTER MEET 127.0.0.1 {} {}", node.port(), port.number())).await?;
        }
        let cluster = RedisCluster { nodes, _bus: bus };
        cluster.wait_complete().await?;
        Ok(cluster)
    }

    /// The address of each master.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::url).collect()
    }

    /// The masters, to be killed, frozen and restarted one by one.
    pub fn nodes(&mut self) -> &mut [Redis] {
        &mut self.nodes
    }

    /// Waits until every master serves all slots and has met the others.
    ///
    /// # Errors
    ///
    /// Where they do not agree in time.
    pub async fn wait_complete(&self) -> Result<(), ServerError> {
        for node in &self.nodes {
            let complete = async {
                while !is_complete(node).await {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(LIMIT, complete).await.map_err(|_| node.process.late("part of the cluster", LIMIT))?;
        }
        Ok(())
    }
}

async fn is_complete(node: &Redis) -> bool {
    let info = command::send(node.port(), None, "CLUSTER INFO").await.unwrap_or_default();
    ["cluster_state:ok", "cluster_known_nodes:3", "cluster_slots_ok:16384"]
        .iter()
        .all(|line| info.lines().any(|found| found == *line))
}

async fn expect_ok(node: &Redis, line: &str) -> Result<(), ServerError> {
    let answer = command::send(node.port(), None, line).await.unwrap_or_else(|error| error.to_string());
    if answer.starts_with("+OK") {
        return Ok(());
    }
    Err(ServerError::Command { server: node.process.server(), command: line.to_owned(), answer })
}
