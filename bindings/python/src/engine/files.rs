//! Files of other programs: imported into the engine, or only read.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
};

use mnemon::{
    Error, Namespace, PutReport,
    format::{
        BadMessage, FORMATS, FileImport, FileReader, Format, ImportReport, ImportTarget, MessageEdit, ReadOptions,
        Source,
    },
    message::TimeZone,
};
use mnemon_secrets::Secrets;
use pyo3::prelude::*;

use super::Engine;
use crate::{
    errors::{of_class, of_file, raised},
    message::Message,
    shared::lock,
    values::{FilePath, Space, Text, count, switch, to_python},
    wait::SLICE,
};

/// Messages that are handed from the thread that reads to Python at a time, and how often that thread is ahead.
const PART: usize = 64;
const PARTS_AHEAD: usize = 4;

/// The options that `import_files` and `read_files` have in common.
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
fn options(
    py: Python<'_>,
    namespace: Option<Space>,
    format: Option<Text>,
    session: Option<Text>,
    me: Option<Text>,
    time_zone: Option<Text>,
    tool_output: usize,
    remove_secrets: bool,
) -> PyResult<(Option<&'static Format>, ReadOptions)> {
    let format = format.map(|name| Format::named(&name.0).ok_or_else(|| unknown_format(py, &name.0))).transpose()?;
    let time_zone = time_zone.map(|zone| zone.parse::<TimeZone>()).transpose().map_err(|error| raised(py, error))?;
    let options = ReadOptions {
        tool_output,
        namespace: namespace.map(|namespace| namespace.0),
        session: session.map(|session| session.0),
        me: me.map(|me| me.0),
        time_zone,
        edit: remove_secrets.then(without_secrets),
        ..ReadOptions::default()
    };
    Ok((format, options))
}

fn unknown_format(py: Python<'_>, name: &str) -> PyErr {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    let reason = format!("there is no format {name:?}; leave format out, or give one of {}", names.join(", "));
    of_class(py, "InvalidArgumentError", reason)
}

/// Raises the error of the system if there is nothing at a path.
fn check_there(py: Python<'_>, path: &Path) -> PyResult<()> {
    path.metadata().map(drop).map_err(|error| of_file(py, path, &error))
}

fn without_secrets() -> MessageEdit {
    let secrets = Secrets::new();
    MessageEdit::new(move |message| {
        secrets
            .replace_in_message(message)
            .map(drop)
            .map_err(|error| Error::InvalidMessage { reason: format!("it is no message without its secrets: {error}") })
    })
}

#[pymethods]
impl Engine {
    /// Stores the messages of a file that another program wrote, or of a folder or zip archive of them, and returns a report as
    /// a dict. The format of each file is found out: `formats` in the report says how many were read in which.
    ///
    /// `namespace` is that of all messages; without it those of transcripts of coding agents go to that of the agent's folder,
    /// and others need it. `session` is that of messages whose format names none. `me` is the name of the user in chats of
    /// groups, `time_zone` that of times which have none, such as `"Europe/Berlin"`; default: UTC. `tool_output` is the most
    /// bytes that are kept of each output of a tool; default: 0, calls and outputs are left out. `remove_secrets` replaces
    /// keys, tokens and card numbers by marks.
    ///
    /// A message that cannot be read raises `InvalidMessageError`; with `skip_bad` it is left out and counted as `skipped`. The
    /// messages before it are stored. To import a file again stores nothing twice, and deletes what its author took back
    /// since. Ctrl-C ends the import between two commits.
    #[pyo3(signature = (path, *, namespace = None, format = None, session = None, me = None, time_zone = None, tool_output = 0,
        remove_secrets = false, skip_bad = false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn import_files<'py>(
        &self,
        py: Python<'py>,
        path: FilePath,
        namespace: Option<Space>,
        format: Option<Text>,
        session: Option<Text>,
        me: Option<Text>,
        time_zone: Option<Text>,
        #[pyo3(from_py_with = count)] tool_output: usize,
        #[pyo3(from_py_with = switch)] remove_secrets: bool,
        #[pyo3(from_py_with = switch)] skip_bad: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = options(py, namespace, format, session, me, time_zone, tool_output, remove_secrets)?;
        check_there(py, &path.0)?;
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let report = self.shared.run_apart(py, move |engine| import(engine, &path.0, options, skip_bad, stopped));
        to_python(py, &report.inspect_err(|_| stop.store(true, SeqCst))?)
    }
}

fn import(
    engine: &mnemon::Engine,
    path: &Path,
    (format, options): (Option<&'static Format>, ReadOptions),
    skip_bad: bool,
    stopped: Arc<AtomicBool>,
) -> mnemon::Result<ImportReport> {
    let mut import = FileImport::new(engine, options, format)?;
    import.run(&mut Source::open(path)?, &mut Target { engine, skip_bad, stopped })?;
    Ok(import.report().clone())
}

/// Stores messages in an engine, until a signal.
struct Target<'e> {
    engine: &'e mnemon::Engine,
    skip_bad: bool,
    stopped: Arc<AtomicBool>,
}

impl ImportTarget for Target<'_> {
    fn put(&mut self, messages: Vec<(Namespace, mnemon::Message)>) -> mnemon::Result<PutReport> {
        // Nobody sees the error: the handler of the signal has raised one.
        if self.stopped.load(SeqCst) { Err(Error::Closed) } else { self.engine.blocking().put_all(messages) }
    }

    fn delete(&mut self, namespace: &Namespace, id: String) -> mnemon::Result<u64> {
        self.engine.blocking().delete(namespace, vec![id])
    }

    fn bad(&mut self, bad: BadMessage) -> mnemon::Result<()> {
        if self.skip_bad || bad.is_rest_of_file { Ok(()) } else { Err(bad.error) }
    }
}

/// A message that was read, with its namespace if the file names one; or why the reading ends.
type Part = mnemon::Result<Vec<(Option<Namespace>, mnemon::Message)>>;

/// The messages of files, one after the other: an iterator that `mnemon.read_files` returns.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct FileMessages {
    parts: Mutex<Receiver<Part>>,
    part: Mutex<std::vec::IntoIter<(Option<Namespace>, mnemon::Message)>>,
    notes: Arc<Mutex<Vec<String>>>,
}

#[pymethods]
impl FileMessages {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(Option<String>, Message)>> {
        loop {
            if let Some((namespace, message)) = lock(&self.part).next() {
                return Ok(Some((namespace.map(String::from), Message(message))));
            }
            match py.detach(|| lock(&self.parts).recv_timeout(SLICE)) {
                Ok(Ok(part)) => *lock(&self.part) = part.into_iter(),
                Ok(Err(error)) => return Err(raised(py, error)),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                // The reader has ended.
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// The notes of what was left out so far, each with the reason.
    #[getter]
    fn notes(&self) -> Vec<String> {
        lock(&self.notes).clone()
    }
}

/// Reads the messages of a file that another program wrote, or of a folder or zip archive of them, and stores nothing. Returns
/// an iterator of pairs: the namespace that the file names, or `None`, and the message. The files are read while it is
/// iterated. The keywords are those of `Engine.import_files`. A message has the id with which `import_files` stores it.
#[pyfunction]
#[pyo3(signature = (path, *, namespace = None, format = None, session = None, me = None, time_zone = None, tool_output = 0,
    remove_secrets = false, skip_bad = false))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn read_files(
    py: Python<'_>,
    path: FilePath,
    namespace: Option<Space>,
    format: Option<Text>,
    session: Option<Text>,
    me: Option<Text>,
    time_zone: Option<Text>,
    #[pyo3(from_py_with = count)] tool_output: usize,
    #[pyo3(from_py_with = switch)] remove_secrets: bool,
    #[pyo3(from_py_with = switch)] skip_bad: bool,
) -> PyResult<FileMessages> {
    let options = options(py, namespace, format, session, me, time_zone, tool_output, remove_secrets)?;
    check_there(py, &path.0)?;
    let (parts, receiver) = mpsc::sync_channel(PARTS_AHEAD);
    let notes = Arc::<Mutex<Vec<String>>>::default();
    let (format, options) = options;
    let reading = Reading { path: path.0, format, options, skip_bad, parts, notes: Arc::clone(&notes) };
    thread::Builder::new().name("mnemon-files".into()).spawn(move || reading.run())?;
    let (parts, part) = (Mutex::new(receiver), Mutex::new(Vec::new().into_iter()));
    Ok(FileMessages { parts, part, notes })
}

/// Files that are read on a thread, until the iterator is dropped.
struct Reading {
    path: PathBuf,
    format: Option<&'static Format>,
    options: ReadOptions,
    skip_bad: bool,
    parts: SyncSender<Part>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Reading {
    fn run(self) {
        if let Err(error) = self.read() {
            let _ = self.parts.send(Err(error));
        }
    }

    fn note(&self, note: impl ToString) {
        lock(&self.notes).push(note.to_string());
    }

    fn read(&self) -> mnemon::Result<()> {
        let mut source = Source::open(&self.path)?;
        let (is_single, mut files) = (source.is_single(), FileReader::new(self.options.clone()).format(self.format));
        while let Some(mut file) = source.next_file()? {
            let name = file.name.clone();
            let Some(format) = files.format_of(&mut file, is_single)? else {
                self.note(format!("{name}: it has no known format, or another than was asked for"));
                continue;
            };
            let mut part = Vec::with_capacity(PART);
            for found in files.read(format, file) {
                let found = match found {
                    Ok(found) => found,
                    Err(error) if is_single => return Err(error),
                    Err(error) => {
                        self.note(error);
                        continue;
                    }
                };
                found.notes.iter().for_each(|note| self.note(format!("{name}: {note}")));
                for line in found.messages {
                    match line {
                        Ok(line) => part.push((line.namespace, line.message)),
                        Err(error) if self.skip_bad => self.note(error),
                        Err(error) => {
                            let _ = self.parts.send(Ok(part));
                            return Err(error);
                        }
                    }
                }
                if part.len() >= PART && self.parts.send(Ok(std::mem::take(&mut part))).is_err() {
                    return Ok(());
                }
            }
            if self.parts.send(Ok(part)).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}
