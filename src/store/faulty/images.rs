//! The files that a power failure may leave: all that was synced, and of the writes since then any part.

use std::path::{Path, PathBuf};

/// What happened to a file, or to the test that writes it.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Write(u64, Vec<u8>),
    Len(u64),
    Sync,
    /// The test began this step.
    Begun(usize),
    /// The step was acknowledged.
    Acknowledged(usize),
}

/// The events of one file, in their order.
#[derive(Debug)]
pub(crate) struct Log {
    pub(super) path: PathBuf,
    /// The file when it was opened first.
    base: Option<Vec<u8>>,
    pub(crate) events: Vec<Event>,
}

impl Log {
    pub(super) fn new(path: &Path) -> Self {
        Log { path: path.to_path_buf(), base: None, events: Vec::new() }
    }

    pub(super) fn start(&mut self, file: &[u8]) {
        self.base.get_or_insert_with(|| file.to_vec());
    }

    /// Returns the file after a power failure just after the first `cut` events. Of each write that was not synced,
    /// `below(4)` chooses: it is lost, it is there, or of its sectors of 512 or of 4,096 bytes some are.
    pub(crate) fn image(&self, cut: usize, below: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
        let mut file = self.base.clone().expect("the file was opened");
        let synced = self.events[..cut].iter().rposition(|event| matches!(event, Event::Sync)).unwrap_or(0);
        for (at, event) in self.events[..cut].iter().enumerate() {
            let kept = if at < synced { 1 } else { below(4) };
            match (event, kept) {
                (_, 0) | (Event::Sync | Event::Begun(_) | Event::Acknowledged(_), _) => {}
                (Event::Len(len), _) => file.resize(*len as usize, 0),
                (Event::Write(offset, data), 1) => write(&mut file, *offset, data),
                (Event::Write(offset, data), sectors) => {
                    let sector = if sectors == 2 { 512 } else { 4096 };
                    let begins = (0..data.len()).step_by(sector);
                    for begin in begins.filter(|_| below(2) == 0).collect::<Vec<_>>() {
                        let end = (begin + sector).min(data.len());
                        write(&mut file, offset + begin as u64, &data[begin..end]);
                    }
                }
            }
        }
        file
    }
}

fn write(file: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let begin = offset as usize;
    if file.len() < begin + data.len() {
        file.resize(begin + data.len(), 0);
    }
    file[begin..begin + data.len()].copy_from_slice(data);
}
