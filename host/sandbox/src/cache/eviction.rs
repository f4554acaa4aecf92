//! What goes when compiled code takes more room than it may: of the tenant that keeps most, what was used longest ago. So one
//! tenant's many plugins push out nobody else's, as long as those keep less.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

/// A file of compiled code that may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) path: PathBuf,
    /// Bytes.
    pub(super) size: u64,
    pub(super) used: Option<SystemTime>,
    /// Who used it last; none where that was not noted.
    pub(super) tenant: Option<String>,
}

/// What one tenant keeps.
#[derive(Default)]
struct Share {
    /// Bytes, what may not go included.
    size: u64,
    /// What may go, the one that was used longest ago at the end.
    kept: Vec<Kept>,
}

/// What has to go so that the rest keeps the limit together with what was just written: this many bytes, which stay, for this
/// tenant.
pub(super) fn surplus(all: Vec<Kept>, tenant: &str, newest: u64, limit: u64) -> Vec<Kept> {
    let mut total = newest + all.iter().map(|kept| kept.size).sum::<u64>();
    let mut shares = BTreeMap::<Option<String>, Share>::new();
    shares.entry(Some(tenant.to_owned())).or_default().size = newest;
    for kept in all {
        let share = shares.entry(kept.tenant.clone()).or_default();
        share.size += kept.size;
        share.kept.push(kept);
    }
    for share in shares.values_mut() {
        share.kept.sort_by(|a, b| (b.used, &b.path).cmp(&(a.used, &a.path)));
    }
    let mut surplus = Vec::new();
    while total > limit {
        let may_go = shares.values_mut().filter(|share| !share.kept.is_empty());
        let Some(share) = may_go.max_by_key(|share| share.size) else { break };
        let Some(oldest) = share.kept.pop() else { break };
        share.size -= oldest.size;
        total -= oldest.size;
        surplus.push(oldest);
    }
    surplus
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A file of this tenant's, used this many seconds after others.
    fn kept(tenant: &str, used: u64, size: u64) -> Kept {
        Kept {
            path: format!("{tenant}-{used}").into(),
            size,
            used: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(used)),
            tenant: (!tenant.is_empty()).then(|| tenant.to_owned()),
        }
    }

    /// Names of what goes when this many bytes were written for this tenant and 100 may be kept.
    fn gone(all: &[Kept], tenant: &str, newest: u64) -> Vec<String> {
        let gone = surplus(all.to_vec(), tenant, newest, 100);
        gone.iter().map(|kept| kept.path.display().to_string()).collect()
    }

    #[test]
    fn nothing_goes_while_there_is_room() {
        assert_eq!(gone(&[kept("a", 1, 60)], "b", 40), [""; 0]);
    }

    #[test]
    fn of_one_tenant_what_was_used_longest_ago_goes() {
        let all = [kept("a", 3, 30), kept("a", 1, 30), kept("a", 2, 30)];
        assert_eq!(gone(&all, "a", 40), ["a-1"]);
        assert_eq!(gone(&all, "a", 41), ["a-1", "a-2"]);
    }

    #[test]
    fn who_keeps_most_makes_room_for_others_however_long_they_have_not_used_theirs() {
        let all = [kept("quiet", 1, 20), kept("greedy", 8, 40), kept("greedy", 9, 40)];
        assert_eq!(gone(&all, "new", 10), ["greedy-8"]);
        assert_eq!(gone(&all, "greedy", 40), ["greedy-8"], "and for its own");
        assert_eq!(gone(&all, "quiet", 10), ["greedy-8"]);
    }

    #[test]
    fn whoever_has_come_to_keep_most_is_next() {
        let all = [kept("a", 1, 45), kept("a", 2, 5), kept("b", 3, 25), kept("b", 4, 24)];
        assert_eq!(gone(&all, "c", 60), ["a-1", "b-3"]);
    }

    #[test]
    fn what_was_just_written_stays_and_counts_for_its_tenant() {
        let all = [kept("a", 1, 20), kept("b", 2, 30)];
        assert_eq!(gone(&all, "a", 60), ["a-1"]);
        assert_eq!(gone(&all, "a", 1_000), ["a-1", "b-2"]);
    }

    #[test]
    fn what_nobody_is_known_to_use_counts_as_one_tenant_s() {
        let all = [kept("", 1, 40), kept("", 2, 30), kept("a", 0, 30)];
        assert_eq!(gone(&all, "a", 20), ["-1"]);
    }
}
