//! Opens files of a tenant beneath its own folder: no path and no link leads out of it, and nothing is read that is not
//! a regular file. Errors never quote a file's content.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// What tells one version of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Device and inode: a file renamed into place is another one.
    id: (i128, i128),
    /// Bytes.
    pub(super) size: u64,
    /// When the content changed, in ns since the Unix epoch.
    modified: i128,
    /// When content or metadata changed. No program can set it, so it also shows a copy that kept its old times.
    changed: i128,
}

impl Stamp {
    /// The last time that anything about the file changed, in ns since the Unix epoch.
    pub(super) fn touched(&self) -> i128 {
        self.modified.max(self.changed)
    }

    /// When its content changed, in ns since the Unix epoch. Whoever writes a file can set it, and a copy may keep it.
    pub(super) fn modified(&self) -> i128 {
        self.modified
    }

    /// Whether both are of one file, which was written in place between them.
    pub(super) fn is_same_file(&self, other: &Stamp) -> bool {
        self.id == other.id
    }

    /// A stamp without a file.
    #[cfg(test)]
    pub(super) fn made(inode: i128, size: u64, modified: i128) -> Stamp {
        Stamp { id: (0, inode), size, modified, changed: modified }
    }
}

/// Why a path is not opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum Denied {
    #[error("there is no such file")]
    Missing,
    #[error("the path or a link in it leads out of the tenant's folder")]
    Outside,
    #[error("the path has links that go in a circle, or one that is not followed")]
    Link,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is larger than {max} bytes")]
    TooLarge { max: u64 },
    #[error("it changed while it was read")]
    Changed,
    #[error("it cannot be opened: {0}")]
    Io(#[from] io::Error),
}

/// A folder that is held open, so that nobody can put another one in its place.
#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    /// The plugin directory itself: its visible folders belong to other tenants.
    shared: bool,
}

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

impl Folder {
    /// Opens the plugin directory. Its path is the operator's, who may use links.
    pub(super) fn open(path: &Path) -> io::Result<Folder> {
        let fd = rustix::fs::open(path, OPEN | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Folder { fd, shared: true })
    }

    /// Opens a tenant's folder in it. A link may lead to a dot-folder, where Kubernetes keeps what it mounts, but not to
    /// the folder of another tenant.
    pub(super) fn tenant(&self, name: &str) -> Result<Folder, Denied> {
        let fd = open_beneath(&self.fd, Path::new(name), OPEN | OFlags::DIRECTORY)?;
        if !self.is_own(&fd, Path::new(name))? {
            return Err(Denied::Outside);
        }
        Ok(Folder { fd, shared: false })
    }

    /// The names in it, sorted, without `.` and `..`; none when there are more than `most`.
    pub(super) fn names(&self, most: usize) -> io::Result<Option<Vec<String>>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
            if names.len() > most {
                return Ok(None);
            }
        }
        names.sort();
        Ok(Some(names))
    }

    /// Device and inode: whether it is still the folder that was watched.
    pub(super) fn id(&self) -> io::Result<(i128, i128)> {
        let stat = rustix::fs::fstat(&self.fd)?;
        Ok((i128::from(stat.st_dev), i128::from(stat.st_ino)))
    }

    /// Is `name` a folder, or a link to one?
    pub(super) fn is_folder(&self, name: &str) -> bool {
        open_beneath(&self.fd, Path::new(name), OPEN | OFlags::DIRECTORY).is_ok()
    }

    /// The stamp of a regular file.
    pub(super) fn stamp(&self, path: &Path) -> Result<Stamp, Denied> {
        self.open_file(path).map(|(_, stamp)| stamp)
    }

    /// The content of a regular file of at most `max` bytes, and the stamp it had before and after it was read.
    pub(super) fn read(&self, path: &Path, max: u64) -> Result<(Vec<u8>, Stamp), Denied> {
        let (mut file, stamp) = self.open_file(path)?;
        if stamp.size > max {
            return Err(Denied::TooLarge { max });
        }
        let mut bytes = Vec::new();
        (&mut file).take(max + 1).read_to_end(&mut bytes)?;
        if stamp_of(&file)? != stamp || bytes.len() as u64 != stamp.size {
            return Err(Denied::Changed);
        }
        Ok((bytes, stamp))
    }

    fn open_file(&self, path: &Path) -> Result<(File, Stamp), Denied> {
        let file = File::from(open_beneath(&self.fd, path, OPEN)?);
        let stamp = stamp_of(&file)?;
        if self.shared && !self.is_own(&file, path)? {
            return Err(Denied::Outside);
        }
        Ok((file, stamp))
    }

    /// The tenant of the plugin directory itself owns what lies directly in it or in a dot-folder (Kubernetes keeps the
    /// files there), but not the folders of the other tenants. A tenant's folder is its own under its own name.
    #[cfg(target_os = "linux")]
    fn is_own(&self, opened: &impl AsFd, path: &Path) -> io::Result<bool> {
        use std::os::fd::AsRawFd;
        // The kernel's own word on where it lies, whatever links led there.
        let lies = |fd: i32| std::fs::read_link(format!("/proc/self/fd/{fd}"));
        let (root, lies_at) = (lies(self.fd.as_raw_fd())?, lies(opened.as_fd().as_raw_fd())?);
        let found = FileType::from_raw_mode(rustix::fs::fstat(opened)?.st_mode);
        let is_folder = found == FileType::Directory;
        Ok(lies_at
            .strip_prefix(&root)
            .is_ok_and(|lies_at| is_own_path(lies_at) && (!is_folder || is_named(lies_at, path))))
    }

    /// Without openat2 no link is followed, so the path says where it lies.
    #[cfg(not(target_os = "linux"))]
    fn is_own(&self, _opened: &impl AsFd, path: &Path) -> io::Result<bool> {
        Ok(is_own_path(path))
    }
}

/// Whether a folder lies where its name says, or in a dot-folder.
#[cfg(target_os = "linux")]
fn is_named(lies_at: &Path, path: &Path) -> bool {
    lies_at == path || lies_at.to_string_lossy().starts_with('.')
}

fn is_own_path(path: &Path) -> bool {
    let mut parts = path.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => true,
        (Some(Component::Normal(folder)), Some(_)) => folder.to_string_lossy().starts_with('.'),
        _ => false,
    }
}

fn stamp_of(file: &File) -> Result<Stamp, Denied> {
    let stat = rustix::fs::fstat(file).map_err(io::Error::from)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Denied::NotAFile);
    }
    let ns = |seconds: i128, nanos: i128| seconds * 1_000_000_000 + nanos;
    Ok(Stamp {
        id: (i128::from(stat.st_dev), i128::from(stat.st_ino)),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: ns(i128::from(stat.st_mtime), i128::from(stat.st_mtime_nsec)),
        changed: ns(i128::from(stat.st_ctime), i128::from(stat.st_ctime_nsec)),
    })
}

#[cfg(target_os = "linux")]
fn open_beneath(folder: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Denied> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut opened = openat2(folder, path, flags, Mode::empty(), resolve);
    // The kernel gives up when a rename anywhere races with a `..` of a link, and asks to try again.
    for _ in 0..8 {
        match opened {
            Err(Errno::AGAIN | Errno::INTR) => opened = openat2(folder, path, flags, Mode::empty(), resolve),
            _ => break,
        }
    }
    match opened {
        Err(Errno::NOSYS) => open_without_links(folder, path, flags),
        other => other.map_err(denied),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(folder: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Denied> {
    open_without_links(folder, path, flags)
}

/// Where the kernel cannot keep a path beneath a folder: goes part by part and follows no link at all.
fn open_without_links(folder: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Denied> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            _ => return Err(Denied::Outside),
        }
    }
    let (last, folders) = parts.split_last().ok_or(Denied::NotAFile)?;
    let mut held: Option<OwnedFd> = None;
    for part in folders {
        let from = held.as_ref().unwrap_or(folder).as_fd();
        let flags = OPEN | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        held = Some(rustix::fs::openat(from, *part, flags, Mode::empty()).map_err(denied)?);
    }
    let from = held.as_ref().unwrap_or(folder).as_fd();
    rustix::fs::openat(from, *last, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(denied)
}

fn denied(error: Errno) -> Denied {
    match error {
        Errno::NOENT | Errno::NOTDIR => Denied::Missing,
        Errno::XDEV => Denied::Outside,
        Errno::LOOP => Denied::Link,
        // A socket, or a device without a driver.
        Errno::NXIO | Errno::NODEV => Denied::NotAFile,
        other => Denied::Io(other.into()),
    }
}

/// A path in the plugin directory, for people.
pub(super) fn shown(root: &Path, folder: Option<&str>, name: &str) -> PathBuf {
    folder.map_or_else(|| root.to_owned(), |folder| root.join(folder)).join(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// plugins/ with the tenants a and b, and a file beside it.
    fn tree() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("plugins");
        for folder in ["a/sub", "b", "..v1"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (file, text) in
            [("../outside", "secret"), ("a/f", "a's"), ("a/sub/g", "g"), ("b/f", "b's"), ("..v1/h", "h")]
        {
            std::fs::write(root.join(file), text).unwrap();
        }
        let folder = Folder::open(&root).unwrap();
        (dir, folder)
    }

    fn text(folder: &Folder, path: &str) -> Result<String, String> {
        let read = folder.read(Path::new(path), 100);
        read.map(|(bytes, _)| String::from_utf8(bytes).unwrap()).map_err(|denied| denied.to_string())
    }

    #[test]
    fn nothing_outside_a_tenants_folder_can_be_read() {
        let (dir, plugins) = tree();
        let folder = plugins.tenant("a").unwrap();
        let root = dir.path().join("plugins/a");
        symlink("../../outside", root.join("up")).unwrap();
        symlink(dir.path().join("outside"), root.join("absolute")).unwrap();
        symlink("../b/f", root.join("neighbour")).unwrap();
        symlink("sub/../../b/f", root.join("winding")).unwrap();
        for path in
            ["../b/f", "../../outside", "/etc/passwd", "up", "absolute", "neighbour", "winding", "sub/../../b/f"]
        {
            let error = text(&folder, path).unwrap_err();
            assert!(error.contains("leads out of the tenant's folder"), "{path}: {error}");
        }
        symlink("/proc/self/root", root.join("magic")).unwrap();
        assert!(text(&folder, "magic/etc/passwd").is_err());
        symlink("circle", root.join("circle")).unwrap();
        assert!(text(&folder, "circle").unwrap_err().contains("circle"));
    }

    #[test]
    fn links_that_stay_inside_are_followed() {
        let (dir, plugins) = tree();
        let folder = plugins.tenant("a").unwrap();
        symlink("sub/g", dir.path().join("plugins/a/link")).unwrap();
        assert_eq!(text(&folder, "link").unwrap(), "g");
        assert_eq!(text(&folder, "sub/../f").unwrap(), "a's");
    }

    #[test]
    fn the_directory_itself_does_not_own_the_tenants_folders() {
        let (dir, plugins) = tree();
        let root = dir.path().join("plugins");
        symlink("..v1", root.join("..data")).unwrap();
        symlink("..data/h", root.join("h")).unwrap();
        symlink("b/f", root.join("theft")).unwrap();
        assert_eq!(text(&plugins, "h").unwrap(), "h");
        assert!(text(&plugins, "theft").unwrap_err().contains("leads out"));
        assert!(text(&plugins, "b/f").unwrap_err().contains("leads out"));
    }

    #[test]
    fn a_folder_that_is_a_link_to_elsewhere_is_not_a_tenants() {
        let (dir, plugins) = tree();
        let root = dir.path().join("plugins");
        symlink("/etc", root.join("c")).unwrap();
        symlink("b", root.join("d")).unwrap();
        symlink("a/sub", root.join("e")).unwrap();
        for name in ["c", "d", "e"] {
            assert!(matches!(plugins.tenant(name), Err(Denied::Outside)), "{name}");
        }
        // As Kubernetes mounts a folder.
        std::fs::create_dir(root.join("..v1/f")).unwrap();
        symlink("..v1", root.join("..data")).unwrap();
        symlink("..data/f", root.join("f")).unwrap();
        assert!(plugins.tenant("f").is_ok());
    }

    #[test]
    fn only_regular_files_of_bounded_size_are_read_and_a_pipe_does_not_block() {
        let (dir, plugins) = tree();
        let folder = plugins.tenant("a").unwrap();
        let pipe = dir.path().join("plugins/a/pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert!(text(&folder, "pipe").unwrap_err().contains("not a regular file"));
        assert!(text(&folder, "sub").unwrap_err().contains("not a regular file"));
        assert!(text(&folder, "none").unwrap_err().contains("no such file"));
        std::fs::write(dir.path().join("plugins/a/big"), [0; 101]).unwrap();
        assert_eq!(text(&folder, "big").unwrap_err(), "it is larger than 100 bytes");
    }

    #[test]
    fn where_the_kernel_cannot_help_no_link_is_followed() {
        let (dir, plugins) = tree();
        symlink("a/f", dir.path().join("plugins/link")).unwrap();
        symlink("a", dir.path().join("plugins/folder")).unwrap();
        let open = |path: &str| open_without_links(&plugins.fd, Path::new(path), OPEN);
        assert!(open("a/sub/g").is_ok());
        for path in ["link", "folder/f", "../outside", "/etc/passwd", "a/../../outside"] {
            assert!(open(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_stamp_changes_with_content_and_with_the_file_itself() {
        let (dir, plugins) = tree();
        let folder = plugins.tenant("a").unwrap();
        let stamp = || folder.stamp(Path::new("f")).unwrap();
        let first = stamp();
        assert_eq!(first, stamp());
        let other = dir.path().join("plugins/a/.other");
        std::fs::write(&other, "a's").unwrap();
        std::fs::rename(&other, dir.path().join("plugins/a/f")).unwrap();
        assert_ne!(first, stamp());
    }
}
