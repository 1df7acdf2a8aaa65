//! Imports of the files of other programs: the body of a request is a file or a zip archive as it is delivered.
//!
//! The guard does not read such a body. Its messages are stored while it comes, so neither the server nor its client has to
//! hold it. What an import costs is bounded: the bytes of the body, those of what it decompresses to, the memory that a
//! value or a held part of a file takes, the time for the next bytes and for the whole, and the imports at a time. Only an
//! archive needs room on the disk, in a file without a name.
//!
//! An import is not one commit. If it ends early, what came before is stored, and sending the file again stores nothing
//! twice: messages have the ids of their program, or ids that are computed from their content.

use std::{
    io::{self, Read},
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension, Json,
    body::{Body, BodyDataStream, Bytes, HttpBody},
    extract::{Query, Request, State},
    http::{HeaderMap, Method, StatusCode, header},
};
use futures_util::StreamExt;
use mnemon::{
    Error, MAX_ID_BYTES, Message, Namespace, PutReport,
    format::{
        BadMessage, FORMATS, FileImport, Format, ImportReport, ImportTarget, ReadOptions, Source, SourceFile,
        decompressed,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::{runtime::Handle, time::timeout};

use super::route::{PathNamespace, Route};
use crate::{
    access::{Caller, CallerExtension, Right},
    app::App,
    guard::{self, FILE_PATHS, IsOwner},
    problem::Problem,
};

/// How many times as many bytes as the body the files may have when they are decompressed.
const MAX_EXPANSION: u64 = 8;
/// Memory that one value of a file, or what is held of one until its end, may take, estimated.
const MAX_MEMORY: usize = 256 << 20;
/// The time that an import may take.
const MAX_TIME: Duration = Duration::from_secs(3600);
/// How much of a body that is refused is taken before the answer.
const SKIPPED: usize = 64 << 20;
const MAX_NAME_BYTES: usize = 255;

pub(super) fn routes() -> Vec<Route> {
    let [anywhere, within] = FILE_PATHS;
    let here = "Stores the messages of a file that another program wrote, or of a zip archive of files, in this namespace. The format \
                is found out. To send a file again stores nothing twice.";
    let there = "Stores the messages of a file in the namespaces that it names: those of its lines, or of the folders in which a \
                 coding agent worked.";
    [
        Route::new(Method::POST, within, Right::Write, here, import_here),
        Route::new(Method::POST, anywhere, Right::Write, there, import_anywhere),
    ]
    .map(|route| route.query::<ImportQuery>().file().answer::<ImportReport>())
    .into()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ImportQuery {
    /// The name of the file. Chats of WhatsApp and logs of IRC say in it whose they are, and errors repeat it. Default: `file`.
    #[schemars(length(min = 1, max = MAX_NAME_BYTES))]
    name: Option<String>,
    /// The format. Default: the one that each file is found to have.
    #[schemars(extend("enum" = FORMATS.iter().map(|format| format.name).collect::<Vec<_>>()))]
    format: Option<String>,
    /// The session of messages whose format names none. Default: `default`.
    #[schemars(length(min = 1, max = MAX_ID_BYTES))]
    session: Option<String>,
    /// The name of the person who is the user in the chats of groups.
    #[schemars(length(min = 1, max = MAX_ID_BYTES))]
    me: Option<String>,
    /// The time zone of times that have none, such as `Europe/Berlin` or `+02:00`. Default: UTC.
    #[schemars(extend("format" = "time-zone"))]
    time_zone: Option<String>,
    /// The most bytes of each output of a tool, and of the arguments of each call, that are stored. Default: 0, they are left out.
    #[serde(default)]
    tool_output: usize,
    /// Leave out what cannot be read or stored, and count it, instead of ending at the first such message. Default: false.
    #[serde(default)]
    skip_bad: bool,
    /// Embed all pending messages before the answer, so that these are found by meaning, too. Default: false.
    #[serde(default)]
    flush: bool,
}

impl ImportQuery {
    /// Returns the format, and the options with which files are read.
    fn divide(&self, namespace: Option<Namespace>) -> Result<(Option<&'static Format>, ReadOptions), Problem> {
        for (name, value, most) in [
            ("name", &self.name, MAX_NAME_BYTES),
            ("session", &self.session, MAX_ID_BYTES),
            ("me", &self.me, MAX_ID_BYTES),
        ] {
            if value.as_ref().is_some_and(|value| !(1..=most).contains(&value.len())) {
                return Err(Problem::bad_request(format!(
                    "{name} has 1 to {most} bytes; leave it out, or give another"
                )));
            }
        }
        let named = |name: &String| Format::named(name).ok_or_else(|| unknown_format(name));
        let format = self.format.as_ref().map(named).transpose()?;
        let time_zone = self.time_zone.as_deref().map(str::parse).transpose()?;
        let (session, me) = (self.session.clone(), self.me.clone());
        let (tool_output, max_memory) = (self.tool_output, Some(MAX_MEMORY));
        let unset = ReadOptions::default();
        Ok((format, ReadOptions { tool_output, namespace, session, me, time_zone, max_memory, ..unset }))
    }
}

fn unknown_format(name: &str) -> Problem {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    Problem::bad_request(format!("there is no format {name:?}; leave it out, or give one of {}", names.join(", ")))
}

async fn import_here(
    state: State<Arc<App>>,
    caller: CallerExtension,
    PathNamespace(namespace): PathNamespace,
    query: Query<ImportQuery>,
    request: Request,
) -> Result<Json<ImportReport>, Problem> {
    import(state, caller, Some(namespace), query, request).await
}

async fn import_anywhere(
    state: State<Arc<App>>,
    caller: CallerExtension,
    query: Query<ImportQuery>,
    request: Request,
) -> Result<Json<ImportReport>, Problem> {
    import(state, caller, None, query, request).await
}

async fn import(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    namespace: Option<Namespace>,
    Query(query): Query<ImportQuery>,
    request: Request,
) -> Result<Json<ImportReport>, Problem> {
    let place = Arc::clone(&app.imports).try_acquire_owned().map_err(|_| Problem::overloaded())?;
    let _flush = app.flush_place(query.flush)?;
    let (format, mut options) = query.divide(namespace)?;
    // Only clients of the Unix socket are on this machine for sure.
    options.is_of_another_machine = request.extensions().get::<IsOwner>().is_none();
    options.edit = app.secrets.as_ref().map(|secrets| secrets.of_files());
    let is_compressed = is_compressed(request.headers())?;
    let mut body = FileBody::new(request.into_body(), app.limits.max_import, app.limits.request_timeout);
    let flush = query.flush;
    let work = {
        let app = Arc::clone(&app);
        move || {
            // The import keeps its place until it ends, even if nobody waits for it any more.
            let _running = place;
            let report = run(&app, caller, &query, (format, options), is_compressed, &mut body);
            if report.is_err() {
                body.skip();
            }
            report
        }
    };
    let report = tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(Error::Closed.into()))?;
    if flush {
        app.engine.flush().await?;
    }
    Ok(Json(report))
}

/// Whether a body is compressed once more, for its way.
fn is_compressed(headers: &HeaderMap) -> Result<bool, Problem> {
    let Some(encoding) = headers.get(header::CONTENT_ENCODING) else { return Ok(false) };
    match encoding.as_bytes() {
        b"identity" => Ok(false),
        b"gzip" | b"x-gzip" | b"zstd" => Ok(true),
        _ => {
            let detail = "the header Content-Encoding names another than gzip and zstd; send the file as it is";
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail))
        }
    }
}

fn run(
    app: &App,
    caller: Arc<Caller>,
    query: &ImportQuery,
    (format, options): (Option<&'static Format>, ReadOptions),
    is_compressed: bool,
    body: &mut FileBody,
) -> Result<ImportReport, Problem> {
    let may_forget = caller.require(Right::Forget).is_ok();
    let mut import = FileImport::new(&app.engine, options, format)?;
    let mut target =
        Target { app, caller, skip_bad: query.skip_bad, may_forget, deadline: body.deadline, kept: 0, hint: None };
    let name = query.name.as_deref().unwrap_or("file");
    let mut read = |body: &mut FileBody| {
        let failed =
            |error: io::Error| Error::InvalidFile { file: name.to_owned(), line: 0, reason: error.to_string() };
        let bytes: Box<dyn Read + '_> =
            if is_compressed { decompressed(body).map_err(failed)? } else { Box::new(body) };
        let max_bytes = app.limits.max_import.saturating_mul(MAX_EXPANSION);
        import.run(&mut Source::bounded_stream(name, bytes, max_bytes)?, &mut target)
    };
    let ended = read(body);
    let (kept, hint) = (target.kept, target.hint);
    let mut report = import.report().clone();
    if kept > 0 {
        let note = format!("{kept} messages that were taken back stay stored: this token has no right to forget");
        report.notes.push(note);
        report.note_count += 1;
    }
    match ended {
        Ok(()) if body.received == 0 => Err(Problem::bad_request("the body is empty; send the file as the body")),
        Ok(()) => Ok(report),
        Err(error) => Err(ended_early(body.fault.take().unwrap_or_else(|| error.into()), &report, hint)),
    }
}

/// Adds what is stored, and the remedy, to the problem that ended an import.
fn ended_early(mut problem: Problem, report: &ImportReport, hint: Option<String>) -> Problem {
    let stored = match report.messages() {
        0 => "nothing was stored".to_owned(),
        stored => {
            format!("the {stored} messages before it are stored, and sending the file again stores nothing twice")
        }
    };
    let hint = hint.unwrap_or_default();
    problem.detail += &format!("{hint}; {stored}");
    problem
}

/// Stores messages for a caller, where it may.
struct Target<'a> {
    app: &'a App,
    caller: Arc<Caller>,
    skip_bad: bool,
    may_forget: bool,
    deadline: Instant,
    /// Messages that were taken back and stay, because the caller may not delete them.
    kept: u64,
    /// The remedy for the message at which the import ends.
    hint: Option<String>,
}

impl Target<'_> {
    fn check_time(&self) -> mnemon::Result<()> {
        match self.deadline.checked_duration_since(Instant::now()) {
            Some(_) => Ok(()),
            None => Err(Error::InvalidFile { file: "the import".to_owned(), line: 0, reason: took_too_long() }),
        }
    }
}

fn took_too_long() -> String {
    format!("it took more than {} minutes; divide the file", MAX_TIME.as_secs() / 60)
}

impl ImportTarget for Target<'_> {
    fn put(&mut self, messages: Vec<(Namespace, Message)>) -> mnemon::Result<PutReport> {
        self.check_time()?;
        self.app.put_here(messages)
    }

    fn delete(&mut self, namespace: &Namespace, id: String) -> mnemon::Result<u64> {
        if !self.may_forget {
            self.kept += u64::from(self.app.engine.blocking().get(namespace, &id)?.is_some());
            return Ok(0);
        }
        self.app.engine.blocking().delete(namespace, vec![id])
    }

    fn bad(&mut self, bad: BadMessage) -> mnemon::Result<()> {
        if self.skip_bad || bad.is_rest_of_file {
            return Ok(());
        }
        self.hint = Some(match (bad.format.name, bad.line) {
            _ if bad.needs_namespace => "; /v1/namespaces/{namespace}/import stores all of it in one".to_owned(),
            ("mnemon", 1) => "; the file has no known format: `format` names one".to_owned(),
            _ => "; skip_bad=true leaves out what cannot be read".to_owned(),
        });
        Err(bad.error)
    }

    fn begin(&mut self, _file: &SourceFile<'_>, _format: Option<&'static Format>) -> mnemon::Result<()> {
        self.check_time()
    }

    fn may_use(&self, namespace: &Namespace) -> bool {
        self.caller.sees(namespace)
    }
}

/// The body of a request, which is read while it comes, on a thread where no request waits for it.
struct FileBody {
    chunks: Option<BodyDataStream>,
    chunk: Bytes,
    runtime: Handle,
    /// Bytes that came so far, and the most that may come.
    received: u64,
    max: u64,
    /// The most bytes that the client says will come.
    declared: u64,
    /// The longest time until the next bytes, and the end of the whole import.
    patience: Duration,
    deadline: Instant,
    /// Why the body could not be read.
    fault: Option<Problem>,
}

impl FileBody {
    fn new(body: Body, max: u64, patience: Duration) -> Self {
        let declared = body.size_hint().lower();
        FileBody {
            chunks: Some(body.into_data_stream()),
            chunk: Bytes::new(),
            runtime: Handle::current(),
            received: 0,
            max,
            declared,
            patience,
            deadline: Instant::now() + MAX_TIME,
            fault: None,
        }
    }

    /// Returns the next bytes, or `None` after the last.
    fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        if self.declared > self.max {
            return Err(Problem::file_too_large(self.max));
        }
        let Some(chunks) = &mut self.chunks else { return Ok(None) };
        let next = self.runtime.block_on(async { timeout(self.patience, chunks.next()).await });
        let next = next.map_err(|_| Problem::slow_body())?.transpose();
        let next =
            next.map_err(|error| Problem::bad_request(format!("the body was not received to its end: {error}")))?;
        self.received += next.as_ref().map_or(0, Bytes::len) as u64;
        if self.received > self.max {
            return Err(Problem::file_too_large(self.max));
        }
        if Instant::now() > self.deadline {
            return Err(Problem::bad_request(took_too_long()));
        }
        Ok(next)
    }

    /// Takes more of a body that is refused, for a client that reads no answer before it has sent all.
    fn skip(&mut self) {
        if let Some(chunks) = self.chunks.take().filter(|_| self.declared <= self.received + SKIPPED as u64) {
            self.runtime.block_on(guard::skip(chunks, SKIPPED));
        }
    }
}

impl Read for FileBody {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.next() {
                Ok(Some(chunk)) => self.chunk = chunk,
                Ok(None) => return Ok(0),
                Err(problem) => {
                    let error = io::Error::other(problem.detail.clone());
                    self.fault = Some(problem);
                    return Err(error);
                }
            }
        }
        let read = out.len().min(self.chunk.len());
        out[..read].copy_from_slice(&self.chunk.split_to(read));
        Ok(read)
    }
}
