//! How much memory this machine, or the control group that the host runs in, has.

use std::fs;
use std::path::Path;

/// What is taken for a machine that does not say.
const UNKNOWN: u64 = 2 << 30;

/// Bytes that guests may hold together where the configuration says nothing: half of what there is.
pub fn for_guests() -> u64 {
    let machine = machine().unwrap_or(UNKNOWN);
    control_group().map_or(machine, |limit| limit.min(machine)) / 2
}

#[cfg(target_os = "linux")]
fn machine() -> Option<u64> {
    let system = rustix::system::sysinfo();
    system.totalram.checked_mul(u64::from(system.mem_unit))
}

#[cfg(not(target_os = "linux"))]
fn machine() -> Option<u64> {
    None
}

/// The least limit of the control groups that this process is in, where there is one.
fn control_group() -> Option<u64> {
    // Not there on other systems, and not readable in some containers: then the machine's memory counts.
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_of(&groups, Path::new("/sys/fs/cgroup"))
}

/// `groups` is what /proc/self/cgroup says: "0::/path" (version 2) or "9:memory:/path" (version 1). A group is bound by all
/// groups above it. In a container the path may be the one outside, which is not there: then the root is the container's.
fn limit_of(groups: &str, root: &Path) -> Option<u64> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        let group = root.join(path.trim_start_matches('/'));
        let above = group.ancestors().take_while(|folder| folder.starts_with(&root));
        // "max" is no number, and no limit.
        let limit = |folder: &Path| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
        limits.extend(above.filter_map(limit));
    }
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(root: &Path, folder: &str, file: &str, limit: &str) {
        fs::create_dir_all(root.join(folder)).unwrap();
        fs::write(root.join(folder).join(file), limit).unwrap();
    }

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
        let root = tempfile::tempdir().unwrap();
        group(root.path(), "a/b", "memory.max", "max\n");
        group(root.path(), "a", "memory.max", "1000\n");
        group(root.path(), "", "memory.max", "5000\n");
        assert_eq!(limit_of("0::/a/b\n", root.path()), Some(1_000));
        assert_eq!(limit_of("0::/not/there\n", root.path()), Some(5_000), "the container's own root");
    }

    #[test]
    fn both_versions_of_control_groups_are_read() {
        let root = tempfile::tempdir().unwrap();
        group(root.path(), "memory/a", "memory.limit_in_bytes", "2000\n");
        assert_eq!(limit_of("10:cpu,cpuacct:/a\n9:memory:/a\n1:name=systemd:/a\n", root.path()), Some(2_000));
        assert_eq!(limit_of("0::/a\n", root.path()), None);
        assert_eq!(limit_of("nonsense\n\n", root.path()), None);
    }

    #[test]
    fn this_machine_has_some() {
        assert!(for_guests() > 1 << 20);
    }
}
