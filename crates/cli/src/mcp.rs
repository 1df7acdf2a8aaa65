//! `mnemon mcp`: connects a client's stdio to the server of a database, and starts the server if there is none.
//!
//! Lines pass through unchanged. So that the client outlives a server, its introduction is kept and repeated to the next
//! server, and its requests are kept until they are answered or cancelled: those that change nothing are asked again. A
//! line that the server would not answer, or would answer without its id, is answered here, with an error: one that is no
//! message of the protocol, one that is too long, and a request with the id of another.
//!
//! No request waits for ever. A server that says nothing is asked whether it lives, and is given up if it does not say so.

use std::{collections::VecDeque, os::unix::process::parent_id, time::Duration};

use anyhow::bail;
use mnemon_server::json_rpc::{self, INTERNAL_ERROR, INVALID_REQUEST, MAX_LINE};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Split, Stdin, Stdout},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    time::{Instant, sleep, timeout},
};

use crate::{
    local_server::{LocalServer, ServerArgs},
    usage::Status,
};

/// How long to wait for a line that the client has sent already.
const WAITING: Duration = Duration::from_millis(100);
/// The largest number of restarts of the server without an answer between them.
const MAX_RESTARTS: u32 = 5;
/// The time between two looks at the server, and at the program that started this one.
const LOOK: Duration = Duration::from_secs(1);
/// How long a server that has requests may say nothing before it is asked whether it lives.
const SILENCE: Duration = Duration::from_secs(5);
/// How long it may say nothing before it is given up.
const MAX_SILENCE: Duration = Duration::from_secs(15);
/// How long the last answers are waited for, when the client says no more.
const LAST_ANSWERS: Duration = Duration::from_secs(60);
/// The id of the requests that ask the server whether it lives.
const PING: &str = "mnemon-mcp-ping";
/// The part of an error that says which effects of an unanswered call are unknown.
const STORED_OR_NOT: &str = "what was to change is stored or not, so look before you repeat it";

/// Give an MCP client the memory of a database, over stdio.
///
/// Any number of clients share one server for each database. It is started when the first client comes, and ends some
/// time after the last has gone. A running `mnemon serve` of the same database is used instead. Put this command into
/// the configuration of an editor or an assistant. It ends when its input ends, or the program that started it.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Status> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        tokio::select! {
            result = Shim::new(args)?.run() => result,
            () = parent_ends() => Ok(()),
        }
    });
    // A thread may wait for stdin.
    runtime.shutdown_background();
    result.map(|()| Status::SUCCESS)
}

/// Waits for the end of the program that started this one. Stdin need not end with it: another process may have its pipe.
async fn parent_ends() {
    let parent = parent_id();
    while parent_id() == parent {
        sleep(LOOK).await;
    }
}

/// The two directions of a connection to the server.
struct Server {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
    process: Option<i32>,
}

/// Why a server has not taken or answered a line.
enum Fault {
    /// It has ended.
    Gone,
    /// It is stopped, or hangs.
    Silent,
}

/// The fields that tell a request, a notification and an answer apart.
#[derive(Deserialize)]
struct Head {
    id: Option<Value>,
    method: Option<String>,
}

/// The notification that the client needs no answer any more.
#[derive(Deserialize)]
struct Cancelled {
    params: CancelledParams,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelledParams {
    request_id: Value,
}

struct Request {
    id: Value,
    method: String,
    line: String,
}

/// The next event that the shim acts on.
enum Event {
    /// The client said a line, or says no more.
    Said(Option<Vec<u8>>),
    /// The server answered a line, or has ended.
    Answered(Option<String>),
    /// It is time to look at the server.
    Look,
}

/// The client's end of the connection.
struct Shim {
    server: LocalServer,
    /// `None`: the server was given up, and the next line of the client looks for one again.
    connection: Option<Server>,
    stdout: Stdout,
    /// The client's introduction, if it was answered: the request `initialize`, and the notification that follows it.
    introduction: Vec<String>,
    /// Requests that are neither answered nor cancelled, in order.
    unanswered: VecDeque<Request>,
    /// True when the client has sent a request. A server closes a connection that begins with a notification.
    has_begun: bool,
    /// Restarts of the server since its last answer.
    restarts: u32,
    /// The last time at which the server said something or had nothing to answer.
    heard: Instant,
    /// True if the server was asked since then whether it lives.
    is_asked: bool,
    /// When the client has said all: until when the answers are waited for.
    end: Option<Instant>,
}

impl Shim {
    fn new(args: Args) -> anyhow::Result<Self> {
        Ok(Shim {
            server: LocalServer::new(args.server),
            connection: None,
            stdout: tokio::io::stdout(),
            introduction: Vec::new(),
            unanswered: VecDeque::new(),
            has_begun: false,
            restarts: 0,
            heard: Instant::now(),
            is_asked: false,
            end: None,
        })
    }

    async fn run(mut self) -> anyhow::Result<()> {
        // Lines of bytes: one that is not UTF-8 is answered with an error, and does not end the stream.
        let mut stdin = BufReader::new(tokio::io::stdin()).split(b'\n');
        let result = self.pass_lines(&mut stdin).await;
        if let Err(error) = &result {
            self.take_waiting(&mut stdin).await;
            self.fail_all(&format!("there is no memory server: {error:#}")).await?;
        }
        result
    }

    /// Passes lines in both directions until the client has said all and has its answers.
    ///
    /// # Errors
    /// There is no server, and none can be started.
    async fn pass_lines(&mut self, stdin: &mut Split<BufReader<Stdin>>) -> anyhow::Result<()> {
        self.connect().await?;
        let mut looks = tokio::time::interval(LOOK);
        while self.end.is_none() || !self.unanswered.is_empty() {
            let answer = async {
                match &mut self.connection {
                    Some(server) => server.lines.next_line().await.unwrap_or_default(),
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                line = stdin.next_segment(), if self.end.is_none() => Event::Said(line?),
                line = answer => Event::Answered(line),
                _ = looks.tick() => Event::Look,
            };
            match event {
                Event::Said(None) => self.end = Some(Instant::now() + LAST_ANSWERS),
                Event::Said(Some(line)) => match self.note(&line) {
                    Ok(Some(line)) => self.ask(line).await?,
                    Ok(None) => {}
                    Err(error) => self.write(&error.to_string()).await?,
                },
                Event::Answered(Some(line)) => self.answer(&line).await?,
                Event::Answered(None) => self.replace_server().await?,
                Event::Look => self.look().await?,
            }
        }
        Ok(())
    }

    /// Keeps what the next server must be told of a line of the client. Returns the line if the server is to be sent it.
    ///
    /// # Errors
    /// The server would not answer it. The error is the answer.
    fn note<'a>(&mut self, line: &'a [u8]) -> Result<Option<&'a str>, Value> {
        if line.len() > MAX_LINE {
            let reason = format!("a message has at most {MAX_LINE} bytes, and this one has {}", line.len());
            return Err(json_rpc::refusal(line, INVALID_REQUEST, &reason));
        }
        let line = json_rpc::message(line)?;
        let Ok(Head { id, method }) = serde_json::from_str(line) else { return Ok(None) };
        match (id.map(canonical), method.as_deref()) {
            (Some(id), Some(_)) if self.unanswered.iter().any(|request| request.id == id) => {
                let reason = "a request with this id has no answer yet; give each request an id of its own";
                return Err(json_rpc::error(&id, INVALID_REQUEST, reason));
            }
            (Some(id), Some(method)) => {
                if self.unanswered.is_empty() {
                    self.hear();
                }
                self.has_begun = true;
                self.unanswered.push_back(Request { id, method: method.to_owned(), line: line.to_owned() });
            }
            (None, Some("notifications/initialized")) if !self.introduction.is_empty() => {
                self.introduction.truncate(1);
                self.introduction.push(line.to_owned());
            }
            (None, Some("notifications/cancelled")) => {
                if let Ok(Cancelled { params }) = serde_json::from_str(line) {
                    let id = canonical(params.request_id);
                    // Nobody can cancel an introduction: it is answered.
                    self.unanswered.retain(|request| request.id != id || request.method == "initialize");
                }
            }
            _ => {}
        }
        Ok(self.has_begun.then_some(line))
    }

    /// Passes a line of the client on.
    async fn ask(&mut self, line: &str) -> anyhow::Result<()> {
        match &mut self.connection {
            None if self.unanswered.is_empty() => Ok(()),
            // A new connection begins with all requests without an answer.
            None => self.connect().await,
            Some(server) => match server.send(line).await {
                Err(Fault::Silent) => self.give_up().await,
                // The connection's end is read next.
                Ok(()) | Err(Fault::Gone) => Ok(()),
            },
        }
    }

    /// Passes an answer of the server on.
    async fn answer(&mut self, line: &str) -> anyhow::Result<()> {
        self.restarts = 0;
        self.hear();
        if let Ok(Head { id: Some(id), method: None }) = serde_json::from_str(line) {
            if id == PING {
                return Ok(());
            }
            let id = canonical(id);
            if let Some(at) = self.unanswered.iter().position(|request| request.id == id) {
                let request = self.unanswered.remove(at).expect("it was found there");
                if request.method == "initialize" {
                    self.introduction = vec![request.line];
                }
            }
        }
        self.write(line).await
    }

    fn hear(&mut self) {
        (self.heard, self.is_asked) = (Instant::now(), false);
    }

    /// Asks a silent server whether it lives, gives it up after more silence, and ends the wait for last answers.
    async fn look(&mut self) -> anyhow::Result<()> {
        if self.end.is_some_and(|end| Instant::now() > end) {
            let seconds = LAST_ANSWERS.as_secs();
            return self
                .fail_all(&format!(
                    "the memory server has not answered {seconds} s after the end of the input; {STORED_OR_NOT}"
                ))
                .await;
        }
        let Some(server) = self.connection.as_mut().filter(|_| !self.unanswered.is_empty()) else { return Ok(()) };
        let silence = self.heard.elapsed();
        if silence > MAX_SILENCE {
            return self.give_up().await;
        }
        if silence > SILENCE && !self.is_asked {
            self.is_asked = true;
            let ping = json!({ "jsonrpc": "2.0", "id": PING, "method": "ping" });
            if let Err(Fault::Silent) = server.send(&ping.to_string()).await {
                return self.give_up().await;
            }
        }
        Ok(())
    }

    /// Answers all requests of a server that does not answer, and ends its connection.
    async fn give_up(&mut self) -> anyhow::Result<()> {
        let process = self.connection.take().and_then(|server| server.process);
        let process = process.map(|process| format!(" (process {process})")).unwrap_or_default();
        let db = self.server.args.db.display();
        let message = format!(
            "the memory server of {db}{process} has said nothing for {} s: it is stopped, hangs, or has no room for a connection; \
             {STORED_OR_NOT}. If it does not go on, end it: the next call starts another",
            MAX_SILENCE.as_secs()
        );
        self.fail_all(&message).await
    }

    /// Connects to the next server after one has ended.
    async fn replace_server(&mut self) -> anyhow::Result<()> {
        self.connection = None;
        self.fail_calls().await?;
        if self.end.is_some() {
            return self.fail_all("the memory server ended before it had answered").await;
        }
        self.restarts += 1;
        if self.restarts > MAX_RESTARTS {
            let db = self.server.args.db.display();
            bail!("the server of {db} ends again and again; run `mnemon verify` on it");
        }
        self.connect().await
    }

    /// Answers calls of tools that the server left without an answer, with an error. Other requests change nothing: the
    /// next server is asked them.
    async fn fail_calls(&mut self) -> anyhow::Result<()> {
        let (calls, others) =
            self.unanswered.drain(..).partition::<VecDeque<_>, _>(|request| request.method == "tools/call");
        self.unanswered = others;
        self.fail(calls, &format!("the memory server ended before it had answered; {STORED_OR_NOT}")).await
    }

    async fn fail_all(&mut self, message: &str) -> anyhow::Result<()> {
        let requests = std::mem::take(&mut self.unanswered);
        self.fail(requests, message).await
    }

    /// Answers requests that no server will answer any more, with an error.
    async fn fail(&mut self, requests: VecDeque<Request>, message: &str) -> anyhow::Result<()> {
        for request in requests {
            self.write(&json_rpc::error(&request.id, INTERNAL_ERROR, message).to_string()).await?;
        }
        Ok(())
    }

    /// Takes the requests that the client sent while there was no server.
    async fn take_waiting(&mut self, stdin: &mut Split<BufReader<Stdin>>) {
        while let Ok(Ok(Some(line))) = timeout(WAITING, stdin.next_segment()).await {
            let _ = self.note(&line);
        }
    }

    async fn write(&mut self, line: &str) -> anyhow::Result<()> {
        self.stdout.write_all(line.as_bytes()).await?;
        self.stdout.write_all(b"\n").await?;
        Ok(self.stdout.flush().await?)
    }

    /// Connects to the server, introduces the client to it again, and asks it the requests without an answer. A server that
    /// is silent is given up.
    async fn connect(&mut self) -> anyhow::Result<()> {
        let deadline = LocalServer::deadline();
        loop {
            let stream = self.server.connect(deadline).await?;
            let process = stream.peer_cred().ok().and_then(|peer| peer.pid());
            let (reader, writer) = stream.into_split();
            let mut server = Server { lines: BufReader::new(reader).lines(), writer, process };
            self.hear();
            let introduced = server.introduce(&self.introduction, &self.unanswered).await;
            self.connection = Some(server);
            match introduced {
                Ok(()) => return Ok(()),
                Err(Fault::Silent) => return self.give_up().await,
                Err(Fault::Gone) => self.server.pause(deadline).await?,
            }
        }
    }
}

impl Server {
    /// Sends a line.
    async fn send(&mut self, line: &str) -> Result<(), Fault> {
        let sent = async {
            self.writer.write_all(line.as_bytes()).await?;
            self.writer.write_all(b"\n").await
        };
        match timeout(MAX_SILENCE, sent).await {
            Ok(sent) => sent.map_err(|_| Fault::Gone),
            Err(_) => Err(Fault::Silent),
        }
    }

    /// Repeats the client's introduction, whose answer the client has had already, and the requests without an answer.
    async fn introduce(&mut self, introduction: &[String], unanswered: &VecDeque<Request>) -> Result<(), Fault> {
        for (at, line) in introduction.iter().enumerate() {
            self.send(line).await?;
            if at == 0 {
                match timeout(MAX_SILENCE, self.lines.next_line()).await {
                    Ok(Ok(Some(_))) => {}
                    Ok(_) => return Err(Fault::Gone),
                    Err(_) => return Err(Fault::Silent),
                }
            }
        }
        for request in unanswered {
            self.send(&request.line).await?;
        }
        Ok(())
    }
}

/// Returns an id as the server writes it in its answer: 1.0 is 1.
fn canonical(id: Value) -> Value {
    /// Below it a number tells which whole number is meant.
    const EXACT: f64 = (1_u64 << 53) as f64;
    match id.as_f64() {
        Some(number) if id.is_f64() && number.fract() == 0.0 && number.abs() < EXACT => json!(number as i64),
        _ => id,
    }
}
