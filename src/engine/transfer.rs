//! Exports of namespaces as JSON Lines, and imports of them.

use std::{
    io::{BufRead, Read, Write},
    sync::mpsc,
};

use super::{core::Core, executor::Lane, handle::Engine, writer::Commit};
use crate::{
    calls::block_on,
    documents::check_imported,
    error::{Error, Result},
    ids::Namespace,
    message::{ttl_micros, ttl_minutes},
    store::{DocumentLine, ExportHeader, ExportLine, NamespaceLine, Transaction, TransferReport},
};

/// The most bytes of a line: more than any line of an export has.
const MAX_LINE_BYTES: u64 = 32 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Lines are handed to the writer in parts of about so many bytes.
const PART_BYTES: usize = 256 << 10;
/// The most parts that wait for the writer.
const WAITING_PARTS: usize = 4;

/// Numbered lines, or the error of the next one.
type Part = Vec<Result<(u64, ExportLine)>>;

impl Engine {
    /// Writes everything of a namespace as JSON Lines, in the state of one moment: messages, sessions with their
    /// buffers, windows and batches, block states, checkpoints, and documents with their indexed texts. Vectors are
    /// left out, because the importing engine makes its own. Other calls go on meanwhile. Returns the output with the
    /// counts; a namespace that does not exist has nothing.
    ///
    /// [`Engine::import`] makes the same of it, in this version of mnemon and in later ones.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`], also for errors of the output.
    pub async fn export<W: Write + Send + 'static>(
        &self,
        namespace: &Namespace,
        mut output: W,
    ) -> Result<(W, TransferReport)> {
        refresh(self.core(), Some(namespace)).await?;
        let namespace = namespace.clone();
        let work = move |core: &Core| {
            let report = export(core, Some(&namespace), &mut output)?;
            Ok((output, report))
        };
        self.core().run(Lane::Long, work).await
    }

    /// Same as [`Engine::export`], for all namespaces.
    ///
    /// # Errors
    /// Those of [`Engine::export`].
    pub async fn export_all<W: Write + Send + 'static>(&self, mut output: W) -> Result<(W, TransferReport)> {
        refresh(self.core(), None).await?;
        let work = move |core: &Core| {
            let report = export(core, None, &mut output)?;
            Ok((output, report))
        };
        self.core().run(Lane::Long, work).await
    }

    /// Stores what [`Engine::export`] or [`Engine::export_all`] wrote, in the namespaces that it was written from. The
    /// messages and the texts of documents are pending afterwards, as after a [`put`](Engine::put), and are embedded by
    /// this engine's model. A document keeps its times; if it expired meanwhile, it is deleted at once.
    ///
    /// An import of any size is one commit: all of it is stored, or nothing. Memory does not grow with the size, apart
    /// from some bytes a message. Puts and other writes wait until it ends, also while it waits for its input.
    ///
    /// # Errors
    /// [`Error::NamespaceNotEmpty`]; [`Error::InvalidImport`] with the number of the line; [`Error::Storage`], also for
    /// errors of the input.
    pub async fn import<R: BufRead + Send + 'static>(&self, input: R) -> Result<TransferReport> {
        self.core().run(Lane::Long, move |core| import(core, None, input)).await
    }

    /// Same as [`Engine::import`], for an export of one namespace, which gets this name.
    ///
    /// # Errors
    /// Those of [`Engine::import`]; [`Error::InvalidImport`] if the export has another number of namespaces.
    pub async fn import_as<R: BufRead + Send + 'static>(
        &self,
        namespace: &Namespace,
        input: R,
    ) -> Result<TransferReport> {
        let namespace = namespace.clone();
        self.core().run(Lane::Long, move |core| import(core, Some(namespace), input)).await
    }
}

/// Makes what is to be exported as fresh as the engine was opened for.
async fn refresh(core: &Core, only: Option<&Namespace>) -> Result<()> {
    match only {
        Some(namespace) => core.refresh(namespace, None).await,
        None => core.refresh_under(None, None).await,
    }
}

/// Writes an export, of one namespace or of all, on the calling thread.
pub(super) fn export_now(core: &Core, only: Option<&Namespace>, output: impl Write) -> Result<TransferReport> {
    block_on(refresh(core, only))?;
    export(core, only, output)
}

/// Writes what is here as an export.
fn export(core: &Core, only: Option<&Namespace>, output: impl Write) -> Result<TransferReport> {
    core.shared.store.read()?.export().write_lines(only, output)
}

/// Imports an export. Its lines are parsed on the calling thread.
pub(super) fn import(core: &Core, into: Option<Namespace>, input: impl BufRead) -> Result<TransferReport> {
    let (sender, parts) = mpsc::sync_channel::<Part>(WAITING_PARTS);
    // Applied once, because the parts are read once.
    let apply = move |transaction: &Transaction| transaction.import(into.as_ref(), parts.iter().flatten());
    let importing = core.writer.commit(Commit::Alone, apply);
    let mut reader = ExportReader { input, number: 0, header: None };
    loop {
        let (part, is_last) = reader.part();
        // The writer stops listening after a line that is invalid, and its answer says why.
        if sender.send(part).is_err() || is_last {
            break;
        }
    }
    // The last line was read.
    drop(sender);
    importing.wait()
}

struct ExportReader<R> {
    input: R,
    /// The number of the last line.
    number: u64,
    header: Option<ExportHeader>,
}

impl<R: BufRead> ExportReader<R> {
    /// Reads the next lines. Returns true with the last ones.
    fn part(&mut self) -> (Part, bool) {
        let (mut part, mut bytes) = (Part::new(), 0);
        while bytes < PART_BYTES {
            match self.next() {
                Ok(Some((line, length))) => {
                    part.push(Ok((self.number, line)));
                    bytes += length;
                }
                Ok(None) => return (part, true),
                Err(error) => {
                    part.push(Err(error));
                    return (part, true);
                }
            }
        }
        (part, false)
    }

    /// Reads the next line after the header, and its length; `None` at the end. Blank lines are skipped.
    fn next(&mut self) -> Result<Option<(ExportLine, usize)>> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = self.input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes).map_err(failed)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.number == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
                bytes.drain(..BYTE_ORDER_MARK.len());
            }
            if read as u64 == MAX_LINE_BYTES {
                return Err(self.fault(format!("it has more than {MAX_LINE_BYTES} bytes")));
            }
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            let text = str::from_utf8(&bytes).map_err(|error| self.fault(format!("it is not UTF-8: {error}")))?;
            let line = ExportLine::parse(text, self.header.as_ref()).map_err(|reason| self.fault(reason))?;
            match line {
                ExportLine::Header(header) if self.header.is_none() => {
                    header.check().map_err(|reason| self.fault(reason))?;
                    self.header = Some(header);
                    continue;
                }
                ExportLine::Namespace(NamespaceLine { ttl_micros: Some(ttl), .. }) => {
                    ttl_micros(ttl_minutes(ttl)).map_err(|reason| self.fault(reason))?;
                    return Ok(Some((line, read)));
                }
                ExportLine::Document(document) => {
                    let DocumentLine { key, value, texts, vectors, expiry, .. } = &*document;
                    let ttl = expiry.as_ref().map(|expiry| expiry.ttl_micros);
                    check_imported(key, value, texts, vectors, ttl).map_err(|error| self.fault(error.to_string()))?;
                    return Ok(Some((ExportLine::Document(document), read)));
                }
                line => return Ok(Some((line, read))),
            }
        }
    }

    fn fault(&self, reason: String) -> Error {
        Error::InvalidImport { line: self.number, reason }
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::Storage(format!("reading the export: {error}").into())
}
