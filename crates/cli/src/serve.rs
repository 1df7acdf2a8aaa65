//! `mnemon serve` and `mnemon token`: the command line of the server, which is the crate `mnemon-server`.

use std::{
    ffi::{OsStr, OsString},
    net::SocketAddr,
    num::NonZeroU32,
    path::PathBuf,
    time::Duration,
};

use mnemon::{Durability, Namespace};
use mnemon_server::{Limits, Llm, NewToken, Notice, Right, Server, Settings, json_rpc};
use serde_json::json;

use crate::{
    database,
    output::{self, Format},
    signals,
    usage::{self, MemoryOptions, Status},
};

/// Serve a database over HTTP and MCP until a signal stops it.
///
/// The server listens on loopback, without tokens, unless told otherwise: /v1 is documented at /v1/openapi.json, MCP is
/// at /mcp, and /health, /ready and /metrics say how it is. On Unix it also listens on a socket of its own, where
/// `mnemon mcp` finds it. SIGTERM, SIGINT and SIGHUP let it finish what it took, and close the database.
///
/// Another address than a loopback one needs --tokens, because everyone who reaches it could read all memories.
/// docs/server.md has the routes, the file of tokens, and examples.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database. It is created if it is missing.
    #[arg(long, value_name = "FILE", required_unless_present = "check")]
    db: Option<PathBuf>,
    /// The model of a new database, a folder or a name; or given:NAME:DIMENSION, if clients give the vectors of documents, which the
    /// model NAME makes. Default: that of the database, or else static-en-256.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    /// The address and port to listen on. Port 0 takes a free one, which is printed.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411", conflicts_with = "private")]
    listen: SocketAddr,
    /// Listen on the Unix socket alone, for `mnemon mcp` of this user.
    #[arg(long)]
    private: bool,
    /// End after so many seconds without a connection. Default: never.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    idle: Option<u64>,
    #[command(flatten)]
    formation: FormationArgs,
    /// Print what the configuration means, in words, and exit: with status 1 if it is not valid.
    #[arg(long)]
    check: bool,
    /// The file of tokens, in TOML. With it every request needs a token. `mnemon token` makes one.
    #[arg(long, value_name = "FILE", conflicts_with = "private")]
    tokens: Option<PathBuf>,
    /// A name under which clients reach this server, beside its address and localhost; any number of times. Requests
    /// that name another host are refused, so that a page in a browser cannot reach the server by a name of its own.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// The origin of pages in browsers that may call the server, such as https://app.example; any number of times. Without
    /// --tokens such a page may do everything.
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Replace keys, tokens, passwords in addresses and card numbers in requests by marks such as [key removed], and count
    /// them in /metrics. Known forms alone are found; see docs/server.md.
    #[arg(long)]
    remove_secrets: bool,
    /// The folder of a cross-encoder. Recalls over HTTP are reranked if they ask for it, searches over MCP always.
    #[arg(long, value_name = "DIR")]
    rerank: Option<PathBuf>,
    /// The certificate chain, in PEM. With --tls-key, connections are encrypted.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Connections at a time. For another, the one is closed that has waited for a request the longest.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = usage::within(1..=65_536))]
    max_connections: usize,
    /// Requests at a time. Others are answered with 503, and are to be repeated. Slow requests, such as a forget, have
    /// a quarter as many places of their own.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = usage::within(1..=65_536))]
    max_requests: usize,
    /// Bytes of the body of a request. Default: 8388608; with --private 33554432, in which a message of the greatest size fits.
    #[arg(long, value_name = "BYTES", value_parser = usage::within(1024..=1 << 30))]
    max_body: Option<usize>,
    /// Bytes of a file that a client imports. Decompressed, it may have eight times as many.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30, value_parser = clap::value_parser!(u64).range(1024..=1 << 40))]
    max_import: u64,
    /// Seconds that the body of a request may take, and then the request itself. A reindex, a backup and a forget may
    /// take longer.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    request_timeout: u64,
    /// Requests that a token may make each second, unless its line in the file of tokens says otherwise. More are
    /// answered with 429.
    #[arg(long, value_name = "N", default_value = "1000")]
    rate: NonZeroU32,
    #[command(flatten)]
    memory: MemoryOptions,
    /// The failures that stored messages survive: with `disk` power failures too, with `process` only kills of the server.
    /// With `process` a put takes a third of the time, and a power failure may lose the last messages or damage the file.
    #[arg(long, value_name = "disk|process", default_value = "disk")]
    durability: Durability,
    /// Note recalls in the journal, which keeps the last N. `why` explains them.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = usage::within(0..=10_000_000))]
    journal: usize,
    /// Keep what messages were before they are changed, with the times of the changes: /v1 returns versions, mem0's history
    /// has the texts, and recalls as of a time find messages as they were.
    #[arg(long)]
    keep_versions: bool,
    /// Serve the fixture of MCP's conformance suite at /mcp instead of the memory. Only debug builds have this.
    #[cfg(debug_assertions)]
    #[arg(long, hide = true)]
    conformance_fixture: bool,
}

/// The language model that forms memories, and what it forms.
#[derive(clap::Args)]
pub(crate) struct FormationArgs {
    /// The server of a language model that forms memories from what is said, in the background: any with OpenAI's
    /// protocol, such as http://localhost:11434/v1 of Ollama. Without --config each namespace gets a collection of facts.
    #[arg(long, value_name = "URL", requires = "llm_model")]
    llm: Option<String>,
    /// The name of the language model there.
    #[arg(long, value_name = "NAME", requires = "llm")]
    llm_model: Option<String>,
    /// The file of the key of that server, if it wants one.
    #[arg(long, value_name = "FILE", requires = "llm")]
    llm_key_file: Option<PathBuf>,
    /// Seconds that a request to the language model may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    llm_timeout: u64,
    /// The file that says which memory blocks the sessions of namespaces have, in TOML; see docs/server.md.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl FormationArgs {
    /// Returns the arguments that give these to another process.
    pub(crate) fn to_arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        let mut add = |name: &str, value: &OsStr| arguments.extend([name.into(), value.to_owned()]);
        if let Some((llm, model)) = self.llm.as_ref().zip(self.llm_model.as_ref()) {
            add("--llm", llm.as_ref());
            add("--llm-model", model.as_ref());
            add("--llm-timeout", self.llm_timeout.to_string().as_ref());
        }
        for (name, file) in [("--llm-key-file", &self.llm_key_file), ("--config", &self.config)] {
            if let Some(file) = file {
                add(name, file.as_ref());
            }
        }
        arguments
    }
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    usage::ensure(
        args.private || args.listen.ip().is_loopback() || args.tokens.is_some(),
        format!("{} is not a loopback address: give --tokens, or whoever reaches it reads all memories", args.listen),
    )?;
    let FormationArgs { llm, llm_model, llm_key_file, llm_timeout, config } = args.formation;
    let settings = Settings {
        listen: (!args.private).then_some(args.listen),
        idle: args.idle.map(Duration::from_secs),
        ends_at_hang_up: !signals::ignores_hang_up(),
        llm: llm.zip(llm_model).map(|(url, model)| Llm {
            url,
            model,
            key_file: llm_key_file,
            timeout: Duration::from_secs(llm_timeout),
        }),
        config,
        tokens: args.tokens,
        hosts: args.host,
        origins: args.allow_origin,
        remove_secrets: args.remove_secrets,
        reranks: args.rerank.is_some(),
        tls: args.tls_cert.zip(args.tls_key),
        limits: Limits {
            max_connections: args.max_connections,
            max_requests: args.max_requests,
            max_body: args.max_body.unwrap_or(if args.private { json_rpc::MAX_LINE } else { 8 << 20 }),
            max_import: args.max_import,
            request_timeout: Duration::from_secs(args.request_timeout),
            rate: args.rate,
        },
        is_replica: database::shared_address().is_some(),
        json_log: matches!(format, Format::Json),
        #[cfg(debug_assertions)]
        conformance_fixture: args.conformance_fixture,
        #[cfg(not(debug_assertions))]
        conformance_fixture: false,
    };
    let Some(db) = args.db.filter(|_| !args.check) else {
        let meaning = mnemon_server::check(&settings)?;
        match format {
            Format::Json => output::json(&json!({ "meaning": meaning }))?,
            Format::Text => output::text(&meaning)?,
        }
        return Ok(Status::SUCCESS);
    };
    let mut server = Server::new(settings, notify)?;
    server.claim(&db)?;
    let mut config = database::config()?.journal(args.journal).durability(args.durability);
    config.keep_versions = args.keep_versions;
    // It ends in time, and hands the batches over when it is started again.
    config.block_close_wait = Duration::ZERO;
    args.memory.set(&mut config);
    let engine = database::to_serve(&db, args.model.as_deref(), args.rerank.as_deref(), config)?;
    server.run(engine, &db)?;
    Ok(Status::SUCCESS)
}

fn notify(notice: &Notice) {
    match notice {
        Notice::Note(text) => output::note(text),
        Notice::Listening(address) => output::on_stderr(&notice.to_string(), || json!({ "listening": address })),
        Notice::Warning(text) => output::on_stderr(&notice.to_string(), || json!({ "warning": text })),
        other => output::note(other),
    }
}

/// Make a token for `mnemon serve`, and the entry for the file of tokens that allows it.
///
/// The token is printed once. The entry has its hash alone; append it to the file that `mnemon serve --tokens` reads
/// when it starts.
#[derive(clap::Args)]
pub(crate) struct TokenArgs {
    /// A name for the entry.
    #[arg(long, default_value = "token")]
    name: String,
    /// The namespaces that the token may see: this one and those under it. Default: all.
    #[arg(long, value_name = "NAMESPACE")]
    prefix: Option<Namespace>,
    /// The rights of the token, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "read,write")]
    rights: Vec<RightName>,
    /// Requests a second. Default: that of the server's --rate.
    #[arg(long, value_name = "N")]
    rate: Option<NonZeroU32>,
    /// Tokens that the server's language model may take in a day (UTC) to form memories in those namespaces, whoever wrote
    /// the messages. What is over it waits for the next day. Default: as many as it takes.
    #[arg(long, value_name = "N")]
    llm_tokens_per_day: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum RightName {
    /// Reading memories.
    Read,
    /// Putting and replacing them.
    Write,
    /// Deleting and forgetting them.
    Forget,
    /// Everything about the whole database: its audit, backups, reindex and statistics.
    Admin,
}

impl From<RightName> for Right {
    fn from(name: RightName) -> Self {
        match name {
            RightName::Read => Right::Read,
            RightName::Write => Right::Write,
            RightName::Forget => Right::Forget,
            RightName::Admin => Right::Admin,
        }
    }
}

pub(crate) fn make_token(args: TokenArgs, format: Format) -> anyhow::Result<Status> {
    let TokenArgs { name, prefix, rights, rate, llm_tokens_per_day } = args;
    let rights = rights.into_iter().map(Right::from).collect();
    let made = NewToken::make(name, prefix, rights, rate, llm_tokens_per_day)?;
    match format {
        Format::Json => output::json(&json!({ "token": made.token, "entry": made.entry() }))?,
        Format::Text => {
            output::text(&format!("# The token, which is shown only now:\n# {}\n", made.token))?;
            output::text(made.lines().trim_end())?;
        }
    }
    Ok(Status::SUCCESS)
}
