//! Imports of the files of other programs: what a [`FileReader`] finds is stored, batch by batch.
//!
//! This module owns the choice of the format of each file, the batches, the namespaces of folders that are gone, and the
//! report. Who imports decides how messages are stored and what becomes of bad ones: an [`ImportTarget`].

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
};

use serde::Serialize;

use super::{Engine, PutReport};
use crate::{
    error::{Error, Result},
    formats::{FileReader, Format, Found, ReadOptions, Source, SourceFile},
    ids::Namespace,
    message::{Message, MessageLine},
};

/// Messages per commit.
const BATCH: usize = 512;
/// Bytes of a file after which its messages are stored even if they are fewer.
const BATCH_BYTES: u64 = 8 << 20;
/// The most namespaces, and notes, in a report, and the most bytes of a note.
const REPORTED: usize = 100;
const NOTE_BYTES: usize = 500;

/// How an import stores messages, and what it does about bad ones. Each method may end the import by an error.
pub trait ImportTarget {
    /// Stores messages, in one commit.
    ///
    /// # Errors
    /// They are not stored.
    fn put(&mut self, messages: Vec<(Namespace, Message)>) -> Result<PutReport>;

    /// Deletes a message that its author took back since an earlier import. Returns the number of messages deleted.
    ///
    /// # Errors
    /// The message is not deleted.
    fn delete(&mut self, namespace: &Namespace, id: String) -> Result<u64>;

    /// Called for a message that cannot be stored, or for a file of several that cannot be read to its end. `Ok` leaves it
    /// out.
    ///
    /// # Errors
    /// The import ends.
    fn bad(&mut self, bad: BadMessage) -> Result<()> {
        if bad.is_rest_of_file { Ok(()) } else { Err(bad.error) }
    }

    /// Is told of a file that is about to be read, and of its format. `None`: it has no known one, or not the one that was
    /// asked for, and is left out.
    ///
    /// # Errors
    /// The import ends.
    fn begin(&mut self, _file: &SourceFile<'_>, _format: Option<&'static Format>) -> Result<()> {
        Ok(())
    }

    /// Is told what was left out of a file and why.
    fn note(&mut self, _file: &str, _note: &str) {}

    /// Is told how many messages were stored so far, and how many bytes of the present file are behind them.
    fn progress(&mut self, _messages: u64, _bytes_read: u64) {}

    /// Returns true if messages may be stored in a namespace.
    fn may_use(&self, _namespace: &Namespace) -> bool {
        true
    }
}

/// A message that cannot be stored, or the rest of a file that cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub struct BadMessage {
    /// The reason, with its place.
    pub error: Error,
    /// The format in which the file is read.
    pub format: &'static Format,
    /// The number of the line, if the format has lines.
    pub line: u64,
    /// Whether it has no namespace.
    pub needs_namespace: bool,
    /// Whether the rest of the file cannot be read. The other files are no worse for it.
    pub is_rest_of_file: bool,
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ImportReport {
    /// Messages whose id was new.
    pub new: u64,
    /// Messages that replaced a different one with the same id.
    pub replaced: u64,
    /// Messages that were stored already.
    pub unchanged: u64,
    /// Messages of an earlier import that their author took back since.
    pub removed: u64,
    /// Messages that could not be read or stored and were left out, and files that could not be read to their end.
    pub skipped: u64,
    /// Number of files that were read in each format.
    pub formats: BTreeMap<String, u64>,
    /// Files of a folder or an archive that have no known format and were left out.
    pub unknown_files: u64,
    /// The namespaces in which messages were stored or found, at most 100 of them.
    pub namespaces: Vec<Namespace>,
    /// What was left out and why, at most 100 notes of 500 bytes.
    pub notes: Vec<String>,
    /// Number of all notes.
    pub note_count: u64,
}

impl ImportReport {
    /// Returns the number of messages that are stored: new ones, replaced ones and those that were stored already.
    pub fn messages(&self) -> u64 {
        self.new + self.replaced + self.unchanged
    }

    fn note(&mut self, note: &str) {
        self.note_count += 1;
        if self.notes.len() < REPORTED {
            self.notes.push(note[..note.floor_char_boundary(NOTE_BYTES)].to_owned());
        }
    }
}

/// An import of files into an engine. It may be of several [`Source`]s, which it counts together.
///
/// Messages are stored while their files are read, some hundred in each commit, so memory does not grow with the files. If
/// the import ends early, what it has stored stays stored; to import a file again stores nothing twice, because the messages
/// have the same ids each time.
#[derive(Debug)]
pub struct FileImport<'e> {
    engine: &'e Engine,
    options: ReadOptions,
    format: Option<&'static Format>,
    report: ImportReport,
    /// The namespaces in which the sessions of folders are stored.
    places: HashMap<(Namespace, String), Namespace>,
}

impl<'e> FileImport<'e> {
    /// Begins an import of files in one format, or with `None` in those that they are found to have.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub fn new(engine: &'e Engine, options: ReadOptions, format: Option<&'static Format>) -> Result<Self> {
        engine.core().check_writable()?;
        Ok(FileImport { engine, options, format, report: ImportReport::default(), places: HashMap::new() })
    }

    /// Returns what the import did so far.
    pub fn report(&self) -> &ImportReport {
        &self.report
    }

    /// Imports files, on the calling thread. A single file is read to its end or its first error, and of a folder or an
    /// archive files of other formats are left out.
    ///
    /// # Errors
    /// Those of the target and of the source. Messages that were found before are stored.
    pub fn run(&mut self, source: &mut Source<'_>, target: &mut impl ImportTarget) -> Result<()> {
        let mut files = FileReader::new(self.options.clone()).format(self.format);
        let is_single = source.is_single();
        while let Some(mut file) = source.next_file()? {
            let format = match files.format_of(&mut file, is_single) {
                Ok(format) => format,
                Err(error) if is_single => return Err(error),
                Err(error) => {
                    self.note(target, &file.name, &error.to_string());
                    None
                }
            };
            target.begin(&file, format)?;
            match format {
                Some(format) => self.file(file, format, &mut files, is_single, target)?,
                None => self.report.unknown_files += 1,
            }
        }
        Ok(())
    }

    fn note(&mut self, target: &mut impl ImportTarget, file: &str, note: &str) {
        target.note(file, note);
        self.report.note(&format!("{file}: {note}"));
    }

    /// Imports one file, up to its end or the first error.
    fn file(
        &mut self,
        file: SourceFile<'_>,
        format: &'static Format,
        files: &mut FileReader,
        is_single: bool,
        target: &mut impl ImportTarget,
    ) -> Result<()> {
        *self.report.formats.entry(format.name.to_owned()).or_default() += 1;
        let name = file.name.clone();
        let mut batch = Batch { name: &name, format, messages: Vec::with_capacity(BATCH), bytes_read: 0, stored_at: 0 };
        let stopped = files.read(format, file).try_for_each(|found| match found {
            Ok(found) => self.take(found, &mut batch, target),
            Err(error) if is_single => Err(error),
            Err(error) => {
                let bad = BadMessage { error, format, line: 0, needs_namespace: false, is_rest_of_file: true };
                self.skip(bad, target)
            }
        });
        // After a bad line too.
        self.put(&mut batch, target)?;
        stopped
    }

    /// Takes all messages that were found together, or none if the import ends at one of them.
    fn take(&mut self, found: Found, batch: &mut Batch<'_>, target: &mut impl ImportTarget) -> Result<()> {
        for note in &found.notes {
            self.note(target, batch.name, note);
        }
        let mut messages = Vec::with_capacity(found.messages.len());
        for line in found.messages {
            let needs_namespace = line.as_ref().is_ok_and(|line| line.namespace.is_none());
            match line.and_then(|line| self.placed(line, batch, found.line, target)) {
                Ok(message) => messages.push(message),
                // The engine's.
                Err(error) if !matches!(error, Error::InvalidFile { .. }) => return Err(error),
                Err(error) => {
                    let (format, line) = (batch.format, found.line);
                    self.skip(BadMessage { error, format, line, needs_namespace, is_rest_of_file: false }, target)?;
                }
            }
        }
        batch.messages.append(&mut messages);
        batch.bytes_read = batch.bytes_read.max(found.bytes_read);
        for line in found.removed {
            match self.placed(line, batch, found.line, target) {
                Ok((namespace, message)) => self.report.removed += target.delete(&namespace, message.id)?,
                // It could not be stored either.
                Err(Error::InvalidFile { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let is_full = batch.messages.len() >= BATCH || batch.bytes_read - batch.stored_at >= BATCH_BYTES;
        if is_full { self.put(batch, target) } else { Ok(()) }
    }

    /// Leaves out a message, or the rest of a file, unless the target ends the import.
    fn skip(&mut self, bad: BadMessage, target: &mut impl ImportTarget) -> Result<()> {
        let text = bad.error.to_string();
        target.bad(bad)?;
        self.report.skipped += 1;
        self.report.note(&text);
        Ok(())
    }

    /// Returns a message with its namespace.
    fn placed(
        &mut self,
        line: MessageLine,
        batch: &Batch<'_>,
        number: u64,
        target: &impl ImportTarget,
    ) -> Result<(Namespace, Message)> {
        let fault = |reason: String| Error::file(batch.name, number, reason);
        let own = line.namespace.as_ref().ok_or_else(|| {
            fault("no namespace: the message names none, and none was given for the whole file".to_owned())
        })?;
        let namespace = self.kept_place(own, &line.message, batch.format, target)?;
        match target.may_use(&namespace) {
            true => Ok((namespace, line.message)),
            false => Err(fault(format!("no such namespace: {:?}", namespace.to_string()))),
        }
    }

    /// Returns the namespace of a message. In that of a folder that is gone it stays where it is stored already: while the folder was
    /// there, it said which repository it was in.
    fn kept_place(
        &mut self,
        own: &Namespace,
        message: &Message,
        format: &Format,
        target: &impl ImportTarget,
    ) -> Result<Namespace> {
        if !format.is_log() || self.options.namespace.is_some() {
            return Ok(own.clone());
        }
        let key = (own.clone(), message.session.clone());
        if let Some(place) = self.places.get(&key) {
            return Ok(place.clone());
        }
        let labels: Vec<String> = own.labels().map(|label| label.into_owned()).collect();
        let folder: PathBuf = std::iter::once("/".to_owned()).chain(labels.iter().skip(1).cloned()).collect();
        let mut place = own.clone();
        if self.options.is_of_another_machine || !folder.exists() {
            for end in (2..labels.len()).rev() {
                let ancestor = Namespace::from_labels(&labels[..end])?;
                if target.may_use(&ancestor) && self.engine.blocking().get(&ancestor, &message.id)?.is_some() {
                    place = ancestor;
                    break;
                }
            }
        }
        self.places.insert(key, place.clone());
        Ok(place)
    }

    /// Stores the batch, in one commit.
    fn put(&mut self, batch: &mut Batch<'_>, target: &mut impl ImportTarget) -> Result<()> {
        let messages = std::mem::take(&mut batch.messages);
        batch.stored_at = batch.bytes_read;
        if messages.is_empty() {
            return Ok(());
        }
        let namespaces: BTreeSet<&Namespace> = messages.iter().map(|(namespace, _)| namespace).collect();
        for namespace in namespaces {
            if self.report.namespaces.len() < REPORTED && !self.report.namespaces.contains(namespace) {
                self.report.namespaces.push(namespace.clone());
            }
        }
        let PutReport { new, replaced, unchanged } = target.put(messages)?;
        self.report.new += new;
        self.report.replaced += replaced;
        self.report.unchanged += unchanged;
        target.progress(self.report.messages(), batch.bytes_read);
        Ok(())
    }
}

/// Messages of one file that are not stored yet.
struct Batch<'f> {
    name: &'f str,
    format: &'static Format,
    messages: Vec<(Namespace, Message)>,
    /// Bytes of the file up to the last message, and up to the last one that is stored.
    bytes_read: u64,
    stored_at: u64,
}
