//! Whether a file of compiled code is as it was written.
//!
//! Reading all of it costs more than everything else that a start from compiled code needs, so it is done once after each start
//! of the machine: what a power cut leaves is found by the first host that runs after it. From then on a file counts as whole
//! while the system says that nothing has written to it: its device, inode, size and times are noted beside it, with the name
//! that the kernel gives to this run of the machine. Nobody can set the time of a file's last change (ctime), except by setting
//! the machine's clock. What a disk does later to what was read before is as little noticed as in the code of a host that runs.
//!
//! The note is written at each use, so that its own time says when that was, and names the tenant that it was for.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Unusable;
use crate::text;

/// A CRC-32, little end first.
type Checksum = [u8; 4];

/// Bytes of what stands behind an artifact in its file.
pub(super) const TRAILER: u64 = size_of::<Checksum>() as u64;

/// What stands behind an artifact in its file.
pub(crate) fn checksum(artifact: &[u8]) -> u32 {
    crc32fast::hash(artifact)
}

/// Compares the artifact with the checksum behind it. wasmtime itself checks no more than the structure: damaged machine code
/// would be executed.
///
/// The file is read and not mapped, so that what the disk cannot read is an error and not a signal that ends the host.
pub(super) fn verify(mut file: File) -> Result<(), Unusable> {
    // Fits the processor's cache, so that bytes are summed where they were just copied to.
    const PIECE: usize = 64 * 1024;
    let size = file.metadata()?.len();
    let Some(artifact_size) = size.checked_sub(TRAILER) else {
        return Err(Unusable::Because(format!("it is cut off: {size} bytes are left")));
    };
    let mut hasher = crc32fast::Hasher::new();
    let mut piece = vec![0; PIECE];
    let mut left = artifact_size;
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        file.read_exact(&mut piece[..wanted])?;
        hasher.update(&piece[..wanted]);
        left -= wanted as u64;
    }
    let mut kept = Checksum::default();
    file.read_exact(&mut kept)?;
    let (kept, found) = (u32::from_le_bytes(kept), hasher.finalize());
    if kept != found {
        let problem = format!("it is damaged or cut off: its checksum is {kept:08x}, but its content has {found:08x}");
        return Err(Unusable::Because(problem));
    }
    Ok(())
}

/// The times of files are as coarse as the kernel's tick: of what happened closer together, nobody can tell the order.
const TICK: Duration = Duration::from_millis(100);

/// Bytes of a tenant's name in a note, beyond every name that a host takes.
const MAX_TENANT: usize = 256;
/// No note of this version is longer.
const MAX_NOTE: u64 = 1024;

/// Whether the file was found to be whole since the machine was started, and has not been written to after that.
pub(super) fn is_known(path: &Path, found: &Metadata) -> bool {
    let Some(boot) = this_boot() else { return false };
    let noted = read_note(path).is_some_and(|note| note.stamp == stamp(boot, found));
    let changed = Duration::new(found.ctime().try_into().unwrap_or(0), found.ctime_nsec().try_into().unwrap_or(0));
    noted && noted_at(path).is_some_and(|noted| noted > UNIX_EPOCH + changed + TICK)
}

/// Notes that the file is whole as it is, and used now for this tenant. Half a note is none.
pub(super) fn note(path: &Path, file: &Metadata, tenant: &str) -> io::Result<()> {
    let stamp = stamp(this_boot().unwrap_or_default(), file);
    let mut note = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(beside(path))?;
    note.write_all(format!("{stamp}\n{}\n", noted_name(tenant)).as_bytes())
}

/// For whom the file was used last, by its [`noted_name`], where that was noted.
pub(super) fn noted_tenant(path: &Path) -> Option<String> {
    read_note(path).map(|note| note.tenant)
}

/// A tenant's name as it stands in a note, on one line.
pub(super) fn noted_name(tenant: &str) -> String {
    text::bound(&tenant.escape_debug().to_string(), MAX_TENANT)
}

/// When the file was used last, where that was noted.
pub(super) fn noted_at(path: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(beside(path)).and_then(|note| note.modified()).ok()
}

/// Removes the note of a file that is about to go.
pub(super) fn forget(path: &Path) {
    match fs::remove_file(beside(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::debug!(path = %path.display(), %error, "the note beside compiled code stays behind");
        }
        _ => {}
    }
}

struct Note {
    stamp: String,
    tenant: String,
}

/// None where there is none, or not one of this version's.
fn read_note(path: &Path) -> Option<Note> {
    let mut text = String::new();
    File::open(beside(path)).ok()?.take(MAX_NOTE).read_to_string(&mut text).ok()?;
    let (stamp, tenant) = text.strip_suffix('\n')?.split_once('\n')?;
    (!tenant.contains('\n')).then(|| Note { stamp: stamp.to_owned(), tenant: tenant.to_owned() })
}

/// What changes when a file does.
fn stamp(boot: &str, file: &Metadata) -> String {
    let (modified, changed) = ((file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec()));
    let id = (file.dev(), file.ino());
    format!("{boot} {id:?} {} {modified:?} {changed:?}", file.len())
}

/// None where the system does not tell one run of the machine from another.
fn this_boot() -> Option<&'static str> {
    static BOOT: OnceLock<Option<String>> = OnceLock::new();
    let read = || Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned());
    BOOT.get_or_init(read).as_deref()
}

fn beside(path: &Path) -> PathBuf {
    path.with_extension("whole")
}
