//! What a job asks for beside its own code. Whether it is granted is the operator's to say.

use std::fmt::Display;

use leasehold_sandbox::Origin;

use crate::config::reader::{Section, Wrong, text};
use crate::config::tree::{Node, Value};
use crate::config::{KEY_HINT, Place, is_key, origin};

/// Origins or keys one job may ask for.
const WISHES_MAX: usize = 100;

/// What a job asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Origins of its requests.
    pub http: Vec<Wish<Origin>>,
    /// Keys of settings and secrets.
    pub config: Vec<Wish<String>>,
}

/// One of them, and where the manifest says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish<T> {
    /// What is asked for.
    pub what: T,
    /// Where.
    pub place: Place,
}

/// Reads the keys `http` and `config`.
pub(super) fn read(job: &mut Section) -> Wishes {
    let key = |node: &Node| match text(node)? {
        key if is_key(&key) => Ok(key),
        _ => Err(Wrong::new("it holds what is no key").hint(KEY_HINT)),
    };
    Wishes {
        http: job.take("http", |node| list(node, |item| origin(&text(item)?))).unwrap_or_default(),
        config: job.take("config", |node| list(node, key)).unwrap_or_default(),
    }
}

fn list<T: PartialEq + Display>(node: &Node, read: impl Fn(&Node) -> Result<T, Wrong>) -> Result<Vec<Wish<T>>, Wrong> {
    let Value::Array(items) = &node.value else {
        return Err(Wrong::new(format!("expected a list, found {}", node.kind())));
    };
    if items.len() > WISHES_MAX {
        return Err(Wrong::new(format!("it has {} entries, more than {WISHES_MAX}", items.len())));
    }
    let mut found: Vec<Wish<T>> = Vec::new();
    for item in items {
        let what = read(item)?;
        if found.iter().any(|wish| wish.what == what) {
            return Err(Wrong::new(format!("{what} is listed twice")));
        }
        found.push(Wish { what, place: item.place.clone() });
    }
    Ok(found)
}
