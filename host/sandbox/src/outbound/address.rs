//! Which addresses a name may lead to.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

/// Ranges that are not global unicast, or lead to such in disguise. IPv6 besides these is global only within 2000::/3.
const NOT_GLOBAL: &[(&str, &str)] = &[
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by carriers, and metadata of some clouds"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "metadata of a cloud, on an address that looks public"),
    ("169.254.0.0/16", "link-local, and metadata of most clouds"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "protocol assignments, and metadata of a cloud"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "name servers for private addresses"),
    ("192.52.193.0/24", "multicast tunnels"),
    ("192.88.99.0/24", "relays of 6to4"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "name servers for private addresses"),
    ("198.18.0.0/15", "benchmarks"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved, and broadcast"),
    ("2001::/23", "protocol assignments, Teredo among them, which carries IPv4"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4, which carries IPv4"),
    ("2620:4f:8000::/48", "name servers for private addresses"),
    ("3fff::/20", "documentation"),
];

/// The only IPv6 space that is global unicast. Outside lie loopback, v4-mapped and v4-compatible addresses, NAT64
/// (64:ff9b::/96, 64:ff9b:1::/48), discard (100::/64), unique local (fc00::/7), link-local (fe80::/10), site-local
/// (fec0::/10), segment routing (5f00::/16) and multicast (ff00::/8).
const GLOBAL_V6: Ipv6Addr = Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0);

/// Whether the address is global unicast: reachable by everyone, and by nothing but itself.
pub(crate) fn is_global(address: IpAddr) -> bool {
    let in_global_space = match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => v6.segments()[0] & 0xe000 == GLOBAL_V6.segments()[0] && !carries_v4(v6),
    };
    in_global_space && !not_global().iter().any(|range| range.contains(&address))
}

/// ISATAP: an interface identifier that names an IPv4 address.
fn carries_v4(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    matches!(segments[4], 0x0000 | 0x0200) && segments[5] == 0x5efe
}

fn not_global() -> &'static [IpNet] {
    static RANGES: std::sync::LazyLock<Vec<IpNet>> = std::sync::LazyLock::new(|| {
        NOT_GLOBAL.iter().map(|(range, _)| range.parse().expect("the table holds ranges")).collect()
    });
    &RANGES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_of_every_refused_range_are_refused() {
        for (text, why) in NOT_GLOBAL {
            let range: IpNet = text.parse().expect("a range");
            assert!(!is_global(range.network()), "{text}: {why}");
            assert!(!is_global(range.broadcast()), "{text}: {why}");
        }
        for address in [
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:0:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "ffff::1",
            "5f00::1",
            "4000::1",
            "1fff::1",
            "2606:4700::5efe:10.0.0.1",
            "2606:4700::200:5efe:10.0.0.1",
            "2001:0:1::1",
            "2001:1ff::1",
            "255.255.255.255",
            "169.254.169.254",
            "100.100.100.200",
            "192.0.0.192",
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert!(!is_global(address), "{address}");
        }
    }

    #[test]
    fn addresses_beside_the_ranges_are_global() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.15",
            "2000::1",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2003::1",
            "2606:4700::1111",
            "3ffe:ffff::1",
            "3fff:1000::1",
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert!(is_global(address), "{address}");
        }
    }
}
