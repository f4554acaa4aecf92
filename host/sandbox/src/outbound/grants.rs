//! Where a job's requests may go.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::address;
use super::origin::Origin;

/// The origins that both the operator and the job's manifest list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpGrants {
    origins: BTreeMap<Origin, Vec<IpNet>>,
    /// Why there can be none.
    never: Option<&'static str>,
}

impl HttpGrants {
    /// Nothing is granted, and nothing could be: `why` is what a guest is told.
    pub fn never(why: &'static str) -> HttpGrants {
        HttpGrants { never: Some(why), ..HttpGrants::default() }
    }

    /// Grants an origin. A name may lead to global unicast addresses and to those of `addresses` besides; an origin that
    /// is an address is granted with it, whatever it is.
    pub fn allow(&mut self, origin: Origin, addresses: &[IpNet]) {
        let mut granted = addresses.to_vec();
        granted.extend(origin.address().map(IpNet::from));
        self.origins.insert(origin, granted);
    }

    /// The origins, in order.
    pub fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.origins.keys()
    }

    /// Why an origin is not granted, and what to do about it.
    pub(crate) fn denial(&self) -> &'static str {
        self.never.unwrap_or(
            "the job's manifest must list it, and so must the operator's configuration, which a host reads when it starts",
        )
    }

    pub(crate) fn allows(&self, origin: &Origin) -> bool {
        self.origins.contains_key(origin)
    }

    /// Whether a request to this origin may go to this address.
    pub(crate) fn allows_address(&self, origin: &Origin, address: IpAddr) -> bool {
        self.origins
            .get(origin)
            .is_some_and(|granted| address::is_global(address) || granted.iter().any(|range| range.contains(&address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_granted_for_its_origin_only() {
        let origin = |text: &str| text.parse::<Origin>().expect("an origin");
        let (public, inside, literal) =
            (origin("https://api.example.com"), origin("http://inside.example"), origin("http://127.0.0.1:81"));
        let mut grants = HttpGrants::default();
        grants.allow(public.clone(), &[]);
        grants.allow(inside.clone(), &["10.0.0.0/8".parse().expect("a range")]);
        grants.allow(literal.clone(), &[]);
        let allows =
            |origin: &Origin, address: &str| grants.allows_address(origin, address.parse().expect("an address"));
        assert!(allows(&public, "1.1.1.1") && !allows(&public, "10.0.0.1") && !allows(&public, "127.0.0.1"));
        assert!(allows(&inside, "10.0.0.1") && allows(&inside, "1.1.1.1") && !allows(&inside, "192.168.0.1"));
        assert!(!allows(&inside, "::ffff:10.0.0.1"), "an address in disguise is another one");
        assert!(allows(&literal, "127.0.0.1") && !allows(&literal, "127.0.0.2"));
        assert!(
            !allows(&origin("http://127.0.0.1:82"), "127.0.0.1") && !allows(&origin("http://x.example"), "1.1.1.1")
        );
    }
}
