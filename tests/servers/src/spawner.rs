//! Starts programs that die with this process.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use crate::ServerError;
use crate::account::Account;
use crate::program;

/// What becomes of a program when this process dies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DeathSignal {
    /// It is killed.
    Kill,
    /// PostgreSQL ends at once, but tidies the System V memory that would otherwise stay until the machine restarts.
    Quit,
}

/// A program to be started as `account` (`None`: whoever runs the tests) in a process group of its own.
///
/// The caller adds arguments and files. `setpriv` asks the system for the signal at our death after it has changed the
/// account, which would clear the wish. Should we have died before that, `sh` sees another parent and starts nothing.
pub(crate) fn command(program: &Path, account: Option<Account>, signal: DeathSignal) -> Command {
    let signal = match signal {
        DeathSignal::Kill => "KILL",
        DeathSignal::Quit => "QUIT",
    };
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", signal]);
    if let Some(Account { uid, gid }) = account {
        command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".into()]);
    }
    let parent = std::process::id().to_string();
    let only_if_alive = r#"[ "$PPID" = "$0" ] && exec "$@""#;
    let arguments: [OsString; 5] = ["sh".into(), "-c".into(), only_if_alive.into(), parent.into(), program.into()];
    command.args(arguments).process_group(0).current_dir("/");
    command
}

/// Starts it on a thread that lives as long as the process.
///
/// The death signal comes when the *thread* ends that started the program, and a test's thread ends with the test.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: LazyLock<Sender<Order>> = LazyLock::new(|| {
        let (orders, inbox) = mpsc::channel();
        thread::spawn(move || carry_out(&inbox));
        orders
    });
    let (answer, result) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts servers has ended");
    SPAWNER.send(Order { command, answer }).map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}

/// Fails where `setpriv` is missing, which starts every server.
pub(crate) fn need_setpriv() -> Result<(), ServerError> {
    program::find("setpriv of util-linux", "setpriv", &[]).map(|_| ())
}

struct Order {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

fn carry_out(inbox: &Receiver<Order>) {
    // The backends of a killed PostgreSQL become our children and not those of the machine's first process, which in a
    // container may never ask how they ended. Where that cannot be had, they stay in its list, and do nothing there.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    for mut order in inbox {
        // A caller that does not wait any more has been dropped; its program ends with the process.
        let _ = order.answer.send(order.command.spawn());
    }
}
