//! What a job asks for beside its own code. Whether it is granted is the operator's to say.

use std::fmt::Display;

use leasehold_sandbox::Origin;

use crate::config::reader::{Section, Wrong, text};
use crate::config::tree::Node;
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
        _ => Err(Wrong::new("it is no key").hint(KEY_HINT)),
    };
    Wishes {
        http: job.take_list("http", "a list of origins", WISHES_MAX, wish(|node| origin(&text(node)?))),
        config: job.take_list("config", "a list of keys", WISHES_MAX, wish(key)),
    }
}

/// One entry, which is not to be among those before it.
fn wish<T: PartialEq + Display>(
    read: impl Fn(&Node) -> Result<T, Wrong>,
) -> impl Fn(&Node, &[Wish<T>]) -> Result<Wish<T>, Wrong> {
    move |node, before| {
        let what = read(node)?;
        if before.iter().any(|wish| wish.what == what) {
            return Err(Wrong::new(format!("{what} is listed twice")));
        }
        Ok(Wish { what, place: node.place.clone() })
    }
}
