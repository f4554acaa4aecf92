//! Which time zone data a host uses: the system's, or those compiled into the program when they are newer.
//!
//! Governments change their clocks at short notice. A system that is kept up to date knows before the program does; a
//! container image that is never touched knows less. The version in use is logged at start.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use jiff::tz::TimeZoneDatabase;
use leasehold_lease::schedule::Zones;

/// Where systems keep their zone data. Fixed, so that no environment variable changes when jobs are due.
const SYSTEM_DATA: &str = "/usr/share/zoneinfo";

/// How much of a file is read to find a version in its first line.
const VERSION_LINE_LIMIT: u64 = 200;

/// The newer one of the system's zone data and the program's own. [`Zones::source`] says which it is and why, for the
/// log.
pub fn load() -> Zones {
    load_from(Path::new(SYSTEM_DATA))
}

fn load_from(folder: &Path) -> Zones {
    let system = match system_version(folder) {
        Ok(version) => version,
        Err(error) => return bundled(&format!("{} has no readable version: {error}", folder.display())),
    };
    if !is_newer(&system, Zones::bundled_version()) {
        return bundled(&format!("{} has {system}, which is not newer", folder.display()));
    }
    match TimeZoneDatabase::from_dir(folder) {
        Ok(database) if has_a_zone(&database) => {
            Zones::from_database(database, system, format!("from {}", folder.display()))
        }
        Ok(_) => bundled(&format!("{} says {system} and has no zones", folder.display())),
        Err(error) => bundled(&format!("{} says {system} and cannot be read: {error}", folder.display())),
    }
}

/// The library opens any folder; only reading a zone shows that there is one.
fn has_a_zone(database: &TimeZoneDatabase) -> bool {
    database.available().any(|name| database.get(name.as_str()).is_ok())
}

fn bundled(reason: &str) -> Zones {
    let zones = Zones::bundled();
    let (version, source) = (zones.version().to_owned(), format!("{} ({reason})", zones.source()));
    Zones::from_database(TimeZoneDatabase::bundled(), version, source)
}

/// The version of a folder of compiled zones: `+VERSION` holds it on BSD and macOS, `tzdata.zi` begins with
/// `# version 2025b` on Linux.
fn system_version(folder: &Path) -> io::Result<String> {
    let line = first_line(&folder.join("tzdata.zi")).or_else(|_| first_line(&folder.join("+VERSION")))?;
    let version = line.strip_prefix("# version").unwrap_or(&line).trim();
    if release(version).is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("`{}`", version.escape_default())));
    }
    Ok(version.to_owned())
}

fn first_line(path: &Path) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(File::open(path)?.take(VERSION_LINE_LIMIT)).read_line(&mut line)?;
    Ok(line)
}

/// Whether the system's zone data are a later release than the program's. A version that cannot be read is not newer;
/// nor is an equal one, so that most hosts of a cluster agree.
fn is_newer(system: &str, bundled: Option<&str>) -> bool {
    match (release(system), bundled.and_then(release)) {
        (Some(system), Some(bundled)) => system > bundled,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// A release such as `2025b`, comparable: the year, then the letters, of which `z` is followed by `za`. What follows,
/// such as `-rearguard`, tells apart forms of the same release.
fn release(version: &str) -> Option<(u16, usize, &str)> {
    let (year, rest) = version.split_at_checked(4)?;
    let letters = rest.split(|c: char| !c.is_ascii_lowercase()).next()?;
    let is_year = year.bytes().all(|byte| byte.is_ascii_digit());
    (is_year && !letters.is_empty()).then(|| Some((year.parse().ok()?, letters.len(), letters))).flatten()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_newer_release_wins_and_a_tie_goes_to_the_program() {
        for (system, bundled, newer) in [
            ("2026a", "2025b", true),
            ("2025c", "2025b", true),
            ("2025za", "2025z", true),
            ("2026a-rearguard", "2025b", true),
            ("2025b", "2025b", false),
            ("2025b-rearguard", "2025b", false),
            ("2025a", "2025b", false),
            ("2024z", "2025a", false),
            ("unknown", "2025b", false),
            ("", "2025b", false),
            ("2026", "2025b", false),
        ] {
            assert_eq!(is_newer(system, Some(bundled)), newer, "{system} over {bundled}");
        }
        assert!(is_newer("2024a", None), "a known version is better than none");
    }

    /// A folder with one zone, Europe/Berlin, in which the clock is always six hours ahead.
    fn folder(version_file: &str, version: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("Europe")).unwrap();
        fs::write(folder.path().join(version_file), version).unwrap();
        let mut data = b"TZif2".to_vec();
        // Version 2: the same block twice, each with a header; one type (offset, no DST, first name), four letters.
        let block = |data: &mut Vec<u8>| {
            data.extend([0; 15]);
            for count in [0u32, 0, 0, 0, 1, 4] {
                data.extend(count.to_be_bytes());
            }
            data.extend(21_600i32.to_be_bytes());
            data.extend([0, 0]);
            data.extend(b"SIX\0");
        };
        block(&mut data);
        data.extend(b"TZif2");
        block(&mut data);
        data.extend(b"\nSIX-6\n");
        fs::write(folder.path().join("Europe/Berlin"), data).unwrap();
        folder
    }

    fn berlin_at_epoch(zones: &Zones) -> i32 {
        zones.get("Europe/Berlin").unwrap().tz().to_offset(jiff::Timestamp::UNIX_EPOCH).seconds()
    }

    #[test]
    fn newer_system_data_are_used_and_named() {
        for (file, content) in [("tzdata.zi", "# version 2999a\n# more\n"), ("+VERSION", "2999a\n")] {
            let folder = folder(file, content);
            let zones = load_from(folder.path());
            assert_eq!(zones.version(), "2999a");
            assert!(zones.source().contains(folder.path().to_str().unwrap()), "{}", zones.source());
            assert_eq!(berlin_at_epoch(&zones), 21_600);
        }
    }

    #[test]
    fn older_or_unreadable_system_data_are_left_and_the_reason_is_told() {
        for (content, reason) in [
            ("# version 1999a\n", "not newer"),
            ("# something else\n", "no readable version"),
            ("", "no readable version"),
            (&"x".repeat(100_000), "no readable version"),
        ] {
            let zones = load_from(folder("tzdata.zi", content).path());
            assert_eq!(Some(zones.version()), Zones::bundled_version());
            assert!(zones.source().contains(reason), "{}", zones.source());
            assert_eq!(berlin_at_epoch(&zones), 3_600);
        }
        let zones = load_from(Path::new("/nonexistent"));
        assert!(zones.source().contains("/nonexistent"), "{}", zones.source());
    }

    #[test]
    fn a_newer_version_without_zones_is_left() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tzdata.zi"), "# version 2999a\n").unwrap();
        let zones = load_from(folder.path());
        assert_eq!(Some(zones.version()), Zones::bundled_version(), "{}", zones.source());
        assert!(zones.source().contains("has no zones"), "{}", zones.source());
    }

    #[test]
    fn this_system_has_zone_data_for_berlin() {
        assert_eq!(berlin_at_epoch(&load()), 3_600);
    }
}
