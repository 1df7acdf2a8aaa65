//! The server of a database on this machine, for commands that share it: found at its socket, or started.

use std::{
    path::PathBuf,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use mnemon_server::socket;
use tokio::net::UnixStream;

use crate::{database, serve::FormationArgs, usage};

/// How long a server may take to open its database and listen.
const START: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Time from one start to the next, of servers that end at once.
const RESTART: Duration = Duration::from_secs(1);

/// The database of a server, and how the server is started.
#[derive(clap::Args)]
pub(crate) struct ServerArgs {
    /// The database. It is created if it is missing.
    #[arg(long, value_name = "FILE")]
    pub(crate) db: PathBuf,
    /// The model of a new database, a folder or a name; or given:NAME:DIMENSION, if clients give the vectors of documents, which the
    /// model NAME makes. Default: that of the database, or else static-en-256.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    /// Seconds without a client after which a server that this command started ends.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    idle: u64,
    /// Start the server so that it replaces keys, tokens and card numbers by marks, as `mnemon serve --remove-secrets` does.
    /// A server that runs already goes on as it is.
    #[arg(long)]
    remove_secrets: bool,
    /// The language model with which the server is started. A server that runs already goes on as it is.
    #[command(flatten)]
    formation: FormationArgs,
}

/// The server of a database. A running `mnemon serve` is used, or else one is started, which outlives this process.
pub(crate) struct LocalServer {
    pub(crate) args: ServerArgs,
    socket: PathBuf,
    /// The servers that this process started, to be reaped.
    children: Vec<Child>,
    /// When the next one may be started.
    next_start: Instant,
}

impl LocalServer {
    pub(crate) fn new(args: ServerArgs) -> anyhow::Result<Self> {
        Ok(LocalServer { socket: socket::path(&args.db)?, args, children: Vec::new(), next_start: Instant::now() })
    }

    /// Returns until when a server must have answered.
    pub(crate) fn deadline() -> Instant {
        Instant::now() + START
    }

    /// Connects to the server, and starts one if there is none.
    pub(crate) async fn connect(&mut self, deadline: Instant) -> anyhow::Result<UnixStream> {
        loop {
            if let Ok(stream) = UnixStream::connect(&self.socket).await {
                return Ok(stream);
            }
            self.children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            if self.children.is_empty() && Instant::now() >= self.next_start {
                self.start()?;
                self.next_start = Instant::now() + RESTART;
            }
            self.pause(deadline).await?;
        }
    }

    /// Waits a little before the next attempt.
    pub(crate) async fn pause(&self, deadline: Instant) -> anyhow::Result<()> {
        if Instant::now() > deadline {
            let db = self.args.db.display();
            let model = self.args.model.as_ref().map(|model| format!(" --model {model}")).unwrap_or_default();
            bail!(
                "no server of {db} answers after {} s: is it open in another program? `mnemon serve --db {db}{model}` says why",
                START.as_secs()
            );
        }
        tokio::time::sleep(POLL).await;
        Ok(())
    }

    /// Starts a server that outlives this process. If another was faster, the new one finds the database open, and
    /// ends.
    fn start(&mut self) -> anyhow::Result<()> {
        use std::os::unix::process::CommandExt;
        // Nobody sees what the server says of its arguments.
        self.args.model.as_deref().map_or(Ok(()), database::check_model)?;
        let formation = self.args.formation.to_arguments();
        if !formation.is_empty() {
            let checked = usage::this_program()?.args(["serve", "--check"]).args(&formation).output()?;
            let said = String::from_utf8_lossy(&checked.stderr);
            ensure!(checked.status.success(), "{}", said.trim().trim_start_matches("error: "));
        }
        let mut command = usage::this_program()?;
        command
            .arg("serve")
            .arg("--db")
            .arg(&self.args.db)
            .arg("--private")
            .arg("--idle")
            .arg(self.args.idle.to_string())
            .args(formation);
        if let Some(model) = &self.args.model {
            command.arg("--model").arg(model);
        }
        if self.args.remove_secrets {
            command.arg("--remove-secrets");
        }
        if let Some(file) = database::key_file() {
            command.arg("--key-file").arg(file);
        }
        if let Some(address) = database::shared_address() {
            command.env("MNEMON_SHARED", address);
            if let Some(freshness) = database::freshness() {
                command.arg("--freshness").arg(freshness);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        self.children.push(command.spawn().context("starting the server")?);
        Ok(())
    }
}
