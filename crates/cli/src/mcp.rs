//! `mnemon mcp`: connects a client's stdio to the server of a database, and starts the server if there is none.
//!
//! Lines pass through unchanged. So that the client outlives a server, its introduction is kept and repeated to the next
//! server, and its requests are kept until they are answered: those that change nothing are asked again. A line that is
//! no message of the protocol is answered here, with an error: the server would not answer it, or would answer without
//! its id.

use std::{collections::VecDeque, time::Duration};

use anyhow::bail;
use mnemon_server::json_rpc;
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Split, Stdin, Stdout},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
};

use crate::{
    local_server::{LocalServer, ServerArgs},
    usage::Status,
};

/// How long to wait for a line that the client has sent already.
const WAITING: Duration = Duration::from_millis(100);
/// The largest number of restarts of the server without an answer between them.
const MAX_RESTARTS: u32 = 5;

/// Give an MCP client the memory of a database, over stdio.
///
/// Any number of clients share one server for each database. It is started when the first client comes, and ends some
/// time after the last has gone. A running `mnemon serve` of the same database is used instead. Put this command into
/// the configuration of an editor or an assistant.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Status> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(Shim::new(args)?.run());
    // A thread may wait for stdin.
    runtime.shutdown_background();
    result.map(|()| Status::SUCCESS)
}

/// The two directions of a connection to the server.
struct Server {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

/// The fields that tell a request, a notification and an answer apart.
#[derive(Deserialize)]
struct Head {
    id: Option<Value>,
    method: Option<String>,
}

struct Request {
    id: Value,
    method: String,
    line: String,
}

/// The client's end of the connection.
struct Shim {
    server: LocalServer,
    stdout: Stdout,
    /// The client's introduction, if it was answered: the request `initialize`, and the notification that follows it.
    introduction: Vec<String>,
    /// Requests that are not answered yet, in order.
    unanswered: VecDeque<Request>,
}

impl Shim {
    fn new(args: Args) -> anyhow::Result<Self> {
        let (introduction, unanswered) = Default::default();
        let server = LocalServer::new(args.server);
        Ok(Shim { server, stdout: tokio::io::stdout(), introduction, unanswered })
    }

    async fn run(mut self) -> anyhow::Result<()> {
        // Lines of bytes: one that is not UTF-8 is answered with an error, and does not end the stream.
        let mut stdin = BufReader::new(tokio::io::stdin()).split(b'\n');
        let mut server = self.connect().await?;
        let mut restarts = 0;
        loop {
            let alive = tokio::select! {
                line = stdin.next_segment() => match line? {
                    None => break,
                    Some(line) => match json_rpc::message(&line) {
                        Ok(line) => self.ask(&mut server, line).await,
                        Err(error) => {
                            self.write(&error.to_string()).await?;
                            true
                        }
                    },
                },
                line = server.lines.next_line() => match line {
                    Ok(Some(line)) => {
                        restarts = 0;
                        self.answered(&line);
                        self.write(&line).await?;
                        true
                    }
                    _ => false,
                },
            };
            if !alive {
                restarts += 1;
                self.fail_calls().await?;
                if restarts > MAX_RESTARTS {
                    self.take_waiting(&mut stdin).await;
                    self.fail_all().await?;
                    bail!(
                        "the server of {} ends again and again; run `mnemon verify` on it",
                        self.server.args.db.display()
                    );
                }
                server = match self.connect().await {
                    Ok(server) => server,
                    Err(error) => {
                        self.take_waiting(&mut stdin).await;
                        self.fail_all().await?;
                        return Err(error);
                    }
                };
            }
        }
        // The client sends no more, and still gets the answers.
        while !self.unanswered.is_empty() {
            let Ok(Some(line)) = server.lines.next_line().await else {
                self.fail_calls().await?;
                return self.fail_all().await;
            };
            self.answered(&line);
            self.write(&line).await?;
        }
        Ok(())
    }

    /// Passes a line of the client on. Returns false if the server is gone.
    async fn ask(&mut self, server: &mut Server, line: &str) -> bool {
        self.note(line);
        send(server, line).await
    }

    /// Keeps a line for the next server, if that must be told it.
    fn note(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(Head { id: Some(id), method: Some(method) }) => {
                self.unanswered.push_back(Request { id, method, line: line.to_owned() });
            }
            Ok(Head { id: None, method: Some(method) }) if method == "notifications/initialized" => {
                self.introduction.push(line.to_owned());
            }
            _ => {}
        }
    }

    fn answered(&mut self, line: &str) {
        let Ok(Head { id: Some(id), method: None }) = serde_json::from_str(line) else { return };
        let Some(at) = self.unanswered.iter().position(|request| request.id == id) else { return };
        let request = self.unanswered.remove(at).expect("it was found there");
        if request.method == "initialize" {
            self.introduction = vec![request.line];
        }
    }

    /// Answers calls of tools that the server left without an answer, with an error. Other requests change nothing: the
    /// next server is asked them.
    async fn fail_calls(&mut self) -> anyhow::Result<()> {
        let (calls, others) =
            self.unanswered.drain(..).partition::<Vec<_>, _>(|request| request.method == "tools/call");
        self.unanswered = others.into();
        for call in calls {
            let message = "the memory server ended before it had answered; what was to change is stored or not, so look before \
                you repeat it";
            self.write(&json_rpc::error(&call.id, json_rpc::INTERNAL_ERROR, message).to_string()).await?;
        }
        Ok(())
    }

    /// Takes the requests that the client sent while there was no server.
    async fn take_waiting(&mut self, stdin: &mut Split<BufReader<Stdin>>) {
        while let Ok(Ok(Some(line))) = tokio::time::timeout(WAITING, stdin.next_segment()).await {
            if let Ok(line) = json_rpc::message(&line) {
                self.note(line);
            }
        }
    }

    /// Answers all requests that no server will answer any more, with an error.
    async fn fail_all(&mut self) -> anyhow::Result<()> {
        for request in std::mem::take(&mut self.unanswered) {
            let message = "the memory server ended before it had answered, and there is no other";
            self.write(&json_rpc::error(&request.id, json_rpc::INTERNAL_ERROR, message).to_string()).await?;
        }
        Ok(())
    }

    async fn write(&mut self, line: &str) -> anyhow::Result<()> {
        self.stdout.write_all(line.as_bytes()).await?;
        self.stdout.write_all(b"\n").await?;
        Ok(self.stdout.flush().await?)
    }

    /// Connects to the server, and introduces the client to it again.
    async fn connect(&mut self) -> anyhow::Result<Server> {
        let deadline = LocalServer::deadline();
        loop {
            let (reader, writer) = self.server.connect(deadline).await?.into_split();
            let mut server = Server { lines: BufReader::new(reader).lines(), writer };
            if self.introduce(&mut server).await {
                return Ok(server);
            }
            self.server.pause(deadline).await?;
        }
    }

    /// Repeats the client's introduction, whose answer the client has had already, and the requests without an answer.
    /// Returns false if the server is gone.
    async fn introduce(&self, server: &mut Server) -> bool {
        for (at, line) in self.introduction.iter().enumerate() {
            if !send(server, line).await || at == 0 && !matches!(server.lines.next_line().await, Ok(Some(_))) {
                return false;
            }
        }
        for request in &self.unanswered {
            if !send(server, &request.line).await {
                return false;
            }
        }
        true
    }
}

/// Sends a line. Returns false if the server is gone.
async fn send(server: &mut Server, line: &str) -> bool {
    let sent = async {
        server.writer.write_all(line.as_bytes()).await?;
        server.writer.write_all(b"\n").await
    };
    sent.await.is_ok()
}
