//! The server of a database on this machine, for commands that share it: found by its note beside the database, or started.

use std::{
    fs::File,
    io::{Read, Seek},
    path::PathBuf,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use mnemon_server::socket;
use serde_json::Value;
use tokio::net::UnixStream;

use crate::{database, serve::FormationArgs, usage};

/// How long a server may take to open its database and listen.
const START: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Time from one start to the next, of servers that end at once.
const RESTART: Duration = Duration::from_millis(500);
/// In the error of a server that is not the first one: the other one will answer, or end.
const OTHER_SERVER: &str = "another server of it";
/// In the error of a server that finds the database open: a program has it open, or a server whose file was moved there.
const OPEN_ELSEWHERE: &str = "already open";
/// How long such a server may take to see that its file was moved, and to end.
const PATIENCE: Duration = Duration::from_millis(1500);

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
    /// A server that runs already and does not is refused.
    #[arg(long)]
    remove_secrets: bool,
    /// The language model with which the server is started. A server that runs already goes on as it is.
    #[command(flatten)]
    formation: FormationArgs,
}

/// The server of a database. A running `mnemon serve` is used, or else one is started, which outlives this process.
pub(crate) struct LocalServer {
    pub(crate) args: ServerArgs,
    /// The server that this process started, to be reaped.
    child: Option<Child>,
    /// The file without a name into which that server writes what it says, until it answers. No pipe, which would end with this process.
    said: Option<File>,
    /// Why the last one could not be started.
    refusal: Option<String>,
    /// Since when the database is open elsewhere.
    open_elsewhere: Option<Instant>,
    /// When the next one may be started.
    next_start: Instant,
}

impl LocalServer {
    pub(crate) fn new(args: ServerArgs) -> Self {
        let (child, said, refusal, open_elsewhere) = Default::default();
        LocalServer { args, child, said, refusal, open_elsewhere, next_start: Instant::now() }
    }

    /// Returns until when a server must have answered.
    pub(crate) fn deadline() -> Instant {
        Instant::now() + START
    }

    /// Connects to the server, and starts one if there is none.
    ///
    /// # Errors
    /// None can be started, as when a program has the database open; or none answers until the deadline.
    pub(crate) async fn connect(&mut self, deadline: Instant) -> anyhow::Result<UnixStream> {
        loop {
            if let Some(stream) = socket::connect(&self.args.db).await?
                && (!self.args.remove_secrets || self.removes_secrets().await?)
            {
                (self.said, self.refusal, self.open_elsewhere) = (None, None, None);
                return Ok(stream);
            }
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                self.child = None;
                if status.code().is_some_and(|code| code != 0) {
                    self.note_refusal()?;
                }
            }
            if self.child.is_none() && Instant::now() >= self.next_start {
                self.start()?;
                self.next_start = Instant::now() + RESTART;
            }
            self.pause(deadline).await?;
        }
    }

    /// Returns true if the server that runs removes secrets, and false if it went away.
    ///
    /// # Errors
    /// It stays, and would store secrets as they are.
    async fn removes_secrets(&self) -> anyhow::Result<bool> {
        let asked = async {
            let stream = socket::connect(&self.args.db).await?.context("no server answers")?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            let request = Request::get("/health").header("host", "localhost").body(Empty::<Bytes>::new())?;
            anyhow::Ok(sender.send_request(request).await?.into_body().collect().await?.to_bytes())
        };
        let Ok(answer) = asked.await else { return Ok(false) };
        let health: Value = serde_json::from_slice(&answer).unwrap_or_default();
        ensure!(
            health["removes_secrets"] == true,
            "the server of {} runs without --remove-secrets and would store secrets as they are: end it, and this command starts one \
             that removes them, or start it with that option",
            self.args.db.display()
        );
        Ok(true)
    }

    /// Reads why the server ended, if it has never answered.
    ///
    /// # Errors
    /// The reason, unless another server may answer or may be ending.
    fn note_refusal(&mut self) -> anyhow::Result<()> {
        let Some(mut file) = self.said.take() else { return Ok(()) };
        let mut said = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut said)).context("reading what the server says")?;
        let said = String::from_utf8_lossy(&said);
        let refusal = said.trim().trim_start_matches("mnemon: ");
        let is_waited_for = match refusal.contains(OPEN_ELSEWHERE) {
            true => self.open_elsewhere.get_or_insert_with(Instant::now).elapsed() < PATIENCE,
            false => refusal.contains(OTHER_SERVER),
        };
        if !is_waited_for {
            bail!("no server of {} can be started: {refusal}", self.args.db.display());
        }
        self.refusal = Some(refusal.to_owned());
        Ok(())
    }

    /// Waits a little before the next attempt.
    pub(crate) async fn pause(&self, deadline: Instant) -> anyhow::Result<()> {
        if Instant::now() > deadline {
            let db = self.args.db.display();
            let reason = self.refusal.clone().unwrap_or_else(|| format!("`mnemon serve --db {db}` says why"));
            bail!("no server of {db} answers after {} s: {reason}", START.as_secs());
        }
        tokio::time::sleep(POLL).await;
        Ok(())
    }

    /// Starts a server that outlives this process. If another was faster, the new one finds the database open, and
    /// ends.
    fn start(&mut self) -> anyhow::Result<()> {
        use std::os::unix::process::CommandExt;
        let mut command = usage::this_program()?;
        command
            .arg("serve")
            .arg("--db")
            .arg(&self.args.db)
            .arg("--private")
            .arg("--idle")
            .arg(self.args.idle.to_string())
            .args(self.args.formation.to_arguments());
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
        let folder = std::env::temp_dir();
        let said = tempfile::tempfile_in(&folder).with_context(|| format!("making a file in {}", folder.display()))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone()?).process_group(0);
        self.child = Some(command.spawn().context("starting the server")?);
        self.said = Some(said);
        Ok(())
    }
}
