//! What was embedded, in a file: records in a row, each behind its checksums. When the file has its full length, the older half of it
//! goes.
//!
//! Written as it comes and never synced: what a process wrote survives its kill, and what a crash of the machine tears off
//! was embedded once before. A record that is not whole is not found; where one does not even begin as one, the file ends.
//! So damage costs time, and nothing else.
//!
//! Not redb (4.4 was tried): of 4,600 copies with one bit flipped nine made it panic, as it reads pages before it checks them; a file
//! that is full gets twice as long, so that of a bound only half is of use; and each commit waits for the disk, which a cache has
//! no need of. Of others, `cacache` has a file an entry and no bound, `foyer` brings an executor, `fjall` threads and a journal.

use std::{
    collections::HashMap,
    fs::{self, File, TryLockError},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use parking_lot::{Mutex, MutexGuard};
use same_file::Handle;
use serde::Serialize;

use super::Key;
use crate::error::{Error, Result};

/// A file begins with it, then the version of its layout, u32 little endian, then [`Counts`] and their checksum.
const MAGIC: [u8; 16] = *b"mnemon embedding";
const VERSION: u32 = 1;
const VERSION_AT: usize = MAGIC.len();
const COUNTS_AT: usize = VERSION_AT + 4;
const COUNTS_BYTES: usize = 3 * 8;
const HEADER_BYTES: usize = COUNTS_AT + COUNTS_BYTES + 4;

/// A record's key, the length of its bytes, the checksum of key and bytes, and that of all these: then its bytes. Numbers are u32,
/// little endian; checksums CRC-32.
const HEAD_BYTES: usize = 32 + 4 + 4 + 4;
/// Read at once when a file is opened.
const SCAN_BYTES: usize = 1 << 20;

/// What is in a file of what was embedded, and how all runs that had it used it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheFileStats {
    /// Texts whose vectors are in it.
    pub entries: u64,
    /// The file's length.
    pub bytes: u64,
    /// Texts whose vectors these runs had, from the file or from memory.
    pub hits: u64,
    /// Texts that they embedded.
    pub misses: u64,
    /// Texts whose vectors were dropped, to keep the bound.
    pub evictions: u64,
}

/// An open file, which nobody else has open.
pub(super) struct CacheFile {
    path: PathBuf,
    max_bytes: u64,
    state: Mutex<State>,
    /// Counted, and not yet in the counts: counting waits for nobody.
    hits: AtomicU64,
    misses: AtomicU64,
}

struct State {
    file: File,
    /// Where the next record goes: the file's length.
    end: u64,
    /// The first bytes of a key, which tell nearly all apart, to its record: 30 to 60 bytes of memory each.
    places: HashMap<u64, Place>,
    counts: Counts,
}

#[derive(Clone, Copy)]
struct Place {
    begin: u64,
    /// Of the record's bytes, its head not counted.
    length: u32,
}

/// What all runs did.
#[derive(Clone, Copy, Default)]
struct Counts {
    hits: u64,
    misses: u64,
    evictions: u64,
}

impl CacheFile {
    /// Opens the file, or makes it. One of another version is begun anew, and one that is damaged ends before the damage, with a
    /// warning.
    ///
    /// Cost: a pass over the file.
    ///
    /// # Errors
    /// [`Error::DatabaseLocked`]: it is open already; [`Error::InvalidConfig`]: it is no embedding cache; [`Error::Storage`].
    pub(super) fn open(path: &Path, max_bytes: u64) -> Result<Self> {
        let failed = |error| failed(path, error);
        let file = loop {
            let file =
                File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
            locked(file.try_lock(), path)?;
            // Another may have shortened it between the two: then its name is another file's.
            let own = file.try_clone().and_then(Handle::from_file).map_err(failed)?;
            if Handle::from_path(path).is_ok_and(|named| named == own) {
                break file;
            }
        };
        // A link stays one when the file is shortened.
        let path = &path.canonicalize().map_err(failed)?;
        let mut state = match read(&file, path)? {
            Some(state) => state,
            None => begin(file.try_clone().map_err(failed)?, Counts::default()).map_err(failed)?,
        };
        let length = file.metadata().map_err(failed)?.len();
        if state.end < length {
            let bytes = length - state.end;
            tracing::warn!(path = %path.display(), bytes, "the end of an embedding cache is damaged, and dropped");
            file.set_len(state.end).map_err(failed)?;
        }
        if state.end > max_bytes {
            state.shorten(path, max_bytes).map_err(failed)?;
        }
        Ok(CacheFile { path: path.clone(), max_bytes, state: Mutex::new(state), hits: 0.into(), misses: 0.into() })
    }

    /// What is in a file that is there, and stays as it is.
    ///
    /// # Errors
    /// As [`CacheFile::open`]; [`Error::InvalidConfig`] also if it is missing, empty, or of another version.
    pub(super) fn inspect(path: &Path) -> Result<CacheFileStats> {
        let unusable = |reason| Error::InvalidConfig { reason: format!("{}: {reason}", path.display()) };
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => unusable("no such file; `mnemon ingest --embedding-cache ...` makes one"),
            _ => failed(path, error),
        })?;
        locked(file.try_lock_shared(), path)?;
        let state = read(&file, path)?.ok_or_else(|| unusable("it is empty, or of another version of mnemon"))?;
        Ok(state.stats())
    }

    /// The bytes of each key that has some; of none, if others are at the file until the deadline.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub(super) fn get(&self, keys: &[Key], deadline: Option<Instant>) -> Result<Vec<Option<Arc<[u8]>>>> {
        let Some(mut state) = self.lock(deadline) else { return Ok(vec![None; keys.len()]) };
        keys.iter().map(|key| state.get(key)).collect::<io::Result<_>>().map_err(|error| failed(&self.path, error))
    }

    /// Keeps the bytes of keys that were not found; of none, with a deadline, if others are at the file until then, or if it is full.
    ///
    /// # Errors
    /// [`Error::Storage`]; then some are not kept.
    pub(super) fn put(&self, entries: &[(Key, Arc<[u8]>)], deadline: Option<Instant>) -> Result<()> {
        let Some(mut state) = self.lock(deadline) else { return Ok(()) };
        self.write_down(&mut state.counts);
        if deadline.is_some() && !state.has_room(entries, self.max_bytes) {
            return Ok(());
        }
        state.put(entries, &self.path, self.max_bytes).map_err(|error| failed(&self.path, error))
    }

    fn lock(&self, deadline: Option<Instant>) -> Option<MutexGuard<'_, State>> {
        match deadline {
            Some(deadline) => self.state.try_lock_until(deadline),
            None => Some(self.state.lock()),
        }
    }

    /// Adds to what all runs did; it is written with what is put next, or when the file is closed.
    pub(super) fn count(&self, hits: u64, misses: u64) {
        self.hits.fetch_add(hits, Relaxed);
        self.misses.fetch_add(misses, Relaxed);
    }

    pub(super) fn stats(&self) -> CacheFileStats {
        let mut state = self.state.lock();
        self.write_down(&mut state.counts);
        state.stats()
    }

    fn write_down(&self, counts: &mut Counts) {
        counts.hits += self.hits.swap(0, Relaxed);
        counts.misses += self.misses.swap(0, Relaxed);
    }
}

impl Drop for CacheFile {
    fn drop(&mut self) {
        // Only counts: all else is written.
        let mut state = self.state.lock();
        self.write_down(&mut state.counts);
        if let Err(error) = state.write_header() {
            tracing::warn!(%error, path = %self.path.display(), "hits of an embedding cache were not counted");
        }
    }
}

impl State {
    fn get(&mut self, key: &Key) -> io::Result<Option<Arc<[u8]>>> {
        let Some(&Place { begin, length }) = self.places.get(&short(key)) else { return Ok(None) };
        let mut record = vec![0; HEAD_BYTES + length as usize];
        self.file.seek(SeekFrom::Start(begin))?;
        self.file.read_exact(&mut record)?;
        let (head, bytes) = record.split_first_chunk::<HEAD_BYTES>().expect("it has room for a head");
        // Another's, that begins alike, or bent since it was written.
        Ok((*head == self::head(key, bytes)).then(|| bytes.into()))
    }

    fn has_room(&self, entries: &[(Key, Arc<[u8]>)], max_bytes: u64) -> bool {
        let bytes = entries.iter().map(|(_, bytes)| (HEAD_BYTES + bytes.len()) as u64).sum::<u64>();
        self.end + bytes <= max_bytes
    }

    fn put(&mut self, entries: &[(Key, Arc<[u8]>)], path: &Path, max_bytes: u64) -> io::Result<()> {
        let mut records = Vec::new();
        for (key, bytes) in entries {
            let length = (HEAD_BYTES + bytes.len()) as u64;
            // Not one for which many others would have to go.
            if length > max_bytes / 8 {
                continue;
            }
            if self.end + records.len() as u64 + length > max_bytes {
                self.append(&mut records)?;
                self.shorten(path, max_bytes)?;
            }
            let place = Place { begin: self.end + records.len() as u64, length: bytes.len() as u32 };
            records.extend(head(key, bytes));
            records.extend(bytes.iter());
            self.places.insert(short(key), place);
        }
        self.append(&mut records)?;
        self.write_header()
    }

    fn append(&mut self, records: &mut Vec<u8>) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(records)?;
        self.end += records.len() as u64;
        records.clear();
        Ok(())
    }

    fn write_header(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&[&MAGIC[..], &VERSION.to_le_bytes(), &self.counts.bytes()].concat())
    }

    /// Drops the oldest, until half of the bound is left. What is left is copied, and takes the file's name once it is whole.
    fn shorten(&mut self, path: &Path, max_bytes: u64) -> io::Result<()> {
        let keep_from = self.end.saturating_sub(max_bytes / 2);
        let from = self.places.values().map(|place| place.begin).filter(|&begin| begin >= keep_from).min();
        let from = from.unwrap_or(self.end);
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let mut state = self.copy(from, Path::new(&new)).inspect_err(|_| drop(fs::remove_file(&new)))?;
        fs::rename(&new, path)?;
        state.places = std::mem::take(&mut self.places);
        state.places.retain(|_, place| place.begin >= from);
        state.places.values_mut().for_each(|place| place.begin = place.begin - from + HEADER_BYTES as u64);
        *self = state;
        Ok(())
    }

    /// A file with the records from this place on; the others are counted as dropped.
    fn copy(&self, from: u64, new: &Path) -> io::Result<State> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(new)?;
        // Before it has the name: who opens that finds one of both, and locked.
        file.lock()?;
        file.set_permissions(self.file.metadata()?.permissions())?;
        let mut counts = self.counts;
        counts.evictions += self.places.values().filter(|place| place.begin < from).count() as u64;
        let mut state = begin(file, counts)?;
        let mut left = &self.file;
        left.seek(SeekFrom::Start(from))?;
        state.end += io::copy(&mut left.take(self.end - from), &mut state.file)?;
        Ok(state)
    }

    fn stats(&self) -> CacheFileStats {
        let Counts { hits, misses, evictions } = self.counts;
        CacheFileStats { entries: self.places.len() as u64, bytes: self.end, hits, misses, evictions }
    }
}

/// An empty cache, in this file.
fn begin(file: File, counts: Counts) -> io::Result<State> {
    file.set_len(0)?;
    let mut state = State { file, end: HEADER_BYTES as u64, places: HashMap::new(), counts };
    state.write_header()?;
    Ok(state)
}

/// What is in a file, up to where it is damaged; `None` if it is empty, or of another version.
fn read(file: &File, path: &Path) -> Result<Option<State>> {
    let failed = |error| failed(path, error);
    let mut reader = BufReader::with_capacity(SCAN_BYTES, file);
    let mut header = Vec::new();
    reader.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut header).map_err(failed)?;
    if header.iter().all(|&byte| byte == 0) {
        // What a crash of the machine left of one that was made; another file has something in it.
        let rest = reader.by_ref().bytes().find(|byte| !matches!(byte, Ok(0)));
        if rest.transpose().map_err(failed)?.is_none() {
            return Ok(None);
        }
    }
    // A byte of the magic number may be damaged too. Other files have none of it, and must not be written over.
    let other = header.iter().zip(MAGIC).filter(|(byte, magic)| *byte != magic).count();
    if other > usize::from(header.len() >= MAGIC.len()) {
        let reason = format!("{}: it is no embedding cache; give another path", path.display());
        return Err(Error::InvalidConfig { reason });
    }
    let Ok(header) = <[u8; HEADER_BYTES]>::try_from(header) else { return Ok(None) };
    if header[VERSION_AT..COUNTS_AT] != VERSION.to_le_bytes() {
        tracing::warn!(path = %path.display(), "the embedding cache is of another version of mnemon");
        return Ok(None);
    }
    let length = file.metadata().map_err(failed)?.len();
    let counts = Counts::read(&header[COUNTS_AT..]).unwrap_or_default();
    let file = file.try_clone().map_err(failed)?;
    let mut state = State { file, end: HEADER_BYTES as u64, places: HashMap::new(), counts };
    let mut head = [0; HEAD_BYTES];
    loop {
        match reader.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(failed(error)),
        }
        let Some((key, bytes)) = read_head(&head) else { break };
        let next = state.end + HEAD_BYTES as u64 + u64::from(bytes);
        if next > length {
            break;
        }
        reader.seek_relative(i64::from(bytes)).map_err(failed)?;
        state.places.insert(key, Place { begin: state.end, length: bytes });
        state.end = next;
    }
    Ok(Some(state))
}

impl Counts {
    /// And their checksum.
    fn bytes(self) -> [u8; COUNTS_BYTES + 4] {
        let mut bytes = [0; COUNTS_BYTES + 4];
        for (bytes, count) in bytes.chunks_exact_mut(8).zip([self.hits, self.misses, self.evictions]) {
            bytes.copy_from_slice(&count.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let [hits, misses, evictions] = *unseal(bytes)?.as_chunks::<8>().0 else { return None };
        let [hits, misses, evictions] = [hits, misses, evictions].map(u64::from_le_bytes);
        Some(Counts { hits, misses, evictions })
    }
}

fn head(key: &Key, bytes: &[u8]) -> [u8; HEAD_BYTES] {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(key);
    checksum.update(bytes);
    let mut head = [0; HEAD_BYTES];
    head[..32].copy_from_slice(key);
    head[32..36].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    head[36..40].copy_from_slice(&checksum.finalize().to_le_bytes());
    seal(&mut head);
    head
}

/// The first bytes of the key, and how many bytes follow.
fn read_head(head: &[u8; HEAD_BYTES]) -> Option<(u64, u32)> {
    let (key, rest) = unseal(head)?.split_first_chunk::<32>()?;
    Some((short(key), u32::from_le_bytes(*rest.first_chunk()?)))
}

/// Writes the checksum of bytes into the last four of them.
fn seal(bytes: &mut [u8]) {
    let (bytes, checksum) = bytes.split_last_chunk_mut::<4>().expect("they have room for it");
    *checksum = crc32fast::hash(bytes).to_le_bytes();
}

/// The bytes before a checksum, if it is theirs.
fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (bytes, checksum) = bytes.split_last_chunk::<4>()?;
    (crc32fast::hash(bytes) == u32::from_le_bytes(*checksum)).then_some(bytes)
}

fn short(key: &Key) -> u64 {
    u64::from_le_bytes(*key.first_chunk().expect("a key has 32 bytes"))
}

fn locked(lock: std::result::Result<(), TryLockError>, path: &Path) -> Result<()> {
    match lock {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::DatabaseLocked { path: path.to_path_buf() }),
        Err(TryLockError::Error(error)) => Err(failed(path, error)),
    }
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::Storage(format!("{}: {error}", path.display()).into())
}
