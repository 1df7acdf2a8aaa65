//! PgBouncer and Pgpool in front of a PostgreSQL server: `make poolers` brings them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::{
    postgres::{Server, command_of_nobody, folder_of_nobody, free_port, spawn_until_exit, try_query},
    root, skipped,
};

/// A running pooler.
pub(crate) struct Pooler {
    folder: PathBuf,
    port: u16,
    process: Child,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PgBouncer {
    /// 1.24, which keeps prepared statements by itself.
    New,
    /// The one of Debian 12, which knows none in transaction mode.
    Old,
}

impl PgBouncer {
    fn program(self) -> PathBuf {
        match self {
            PgBouncer::New => root(".poolers/pgbouncer"),
            PgBouncer::Old => "/usr/sbin/pgbouncer".into(),
        }
    }
}

impl Pooler {
    /// Starts PgBouncer in front of a server, for these roles and with these settings.
    pub(crate) fn pgbouncer(which: PgBouncer, server: &Server, roles: &[&str], settings: &[&str]) -> Option<Self> {
        let program = which.program();
        let version = Command::new(&program).arg("--version").output();
        let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        // The distribution's may be new, too.
        let is_new = |version: &str| version.starts_with("PgBouncer 1.2");
        if !version.starts_with("PgBouncer ") || is_new(&version) != (which == PgBouncer::New) {
            skipped(&format!("{which:?} PgBouncer: it is not there; `make poolers` brings it"));
            return None;
        }
        let (folder, port) = (folder_of_nobody(), free_port());
        let users: String = roles.iter().map(|role| format!("\"{role}\" \"\"\n")).collect();
        fs::write(folder.join("users"), users).unwrap();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\n{}\n",
            server.port(),
            folder.join("users").display(),
            settings.join("\n")
        );
        Some(Self::start(&program, folder, port, "pgbouncer.ini", &settings, |command, file| {
            command.arg("-q").arg(file)
        }))
    }

    /// Starts Pgpool in front of a primary and its standby, to which it sends reads.
    pub(crate) fn pgpool(primary: &Server, standby: &Server) -> Option<Self> {
        let program = PathBuf::from("/usr/sbin/pgpool");
        if !program.exists() {
            skipped("Pgpool: it is not there; `make poolers` brings it");
            return None;
        }
        let (folder, port) = (folder_of_nobody(), free_port());
        let place = folder.display();
        let mut settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{place}'\nsocket_dir = '{place}'\n\
             pcp_port = {}\npcp_socket_dir = '{place}'\npcp_listen_addresses = '127.0.0.1'\nwork_dir = '{place}'\nlogdir = '{place}'\n\
             pid_file_name = '{place}/pgpool.pid'\nbackend_clustering_mode = 'streaming_replication'\n\
             load_balance_mode = on\nnum_init_children = 32\nsr_check_user = 'owner'\nsr_check_database = 'postgres'\n\
             sr_check_period = 1\nenable_pool_hba = off\n",
            free_port()
        );
        for (at, server) in [primary, standby].into_iter().enumerate() {
            // All reads go to the standby that may.
            let (port, data) = (server.port(), server.data());
            settings.push_str(&format!(
                "backend_hostname{at} = '127.0.0.1'\nbackend_port{at} = {port}\nbackend_weight{at} = {at}\n\
                 backend_data_directory{at} = '{}'\nbackend_flag{at} = 'ALLOW_TO_FAILOVER'\n",
                data.display()
            ));
        }
        Some(Self::start(&program, folder, port, "pgpool.conf", &settings, |command, file| {
            command.args(["-n", "-f"]).arg(file)
        }))
    }

    fn start(
        program: &Path,
        folder: PathBuf,
        port: u16,
        name: &str,
        settings: &str,
        arguments: impl FnOnce(&mut Command, PathBuf) -> &mut Command,
    ) -> Self {
        // The user that runs it may not be allowed to read the repository.
        let own = folder.join(program.file_name().unwrap());
        fs::copy(program, &own).unwrap();
        fs::write(folder.join(name), settings).unwrap();
        let log = fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
        let mut command = command_of_nobody(&own, &folder);
        arguments(&mut command, folder.join(name));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let pooler = Pooler { folder, port, process: spawn_until_exit(command) };
        let began = Instant::now();
        while try_query(&pooler.address("postgres"), "SELECT 1", &[]).is_err() {
            let log = || fs::read_to_string(pooler.folder.join("log")).unwrap();
            assert!(began.elapsed() < Duration::from_secs(30), "{name}: no connection: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        pooler
    }

    pub(crate) fn address(&self, database: &str) -> String {
        format!("postgres://owner@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // Pgpool ends its children then.
        let _ = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
