//! The tier of the cache that is in a file: a sequence of records, each preceded by its checksums. When the file
//! reaches its maximum length, its older half is dropped.
//!
//! Records are written as they arrive and never synced: they survive a killed process, and records lost in a crash of
//! the machine can be computed again. A record with a wrong checksum is not found; a record with a damaged head ends
//! the file. So damage costs time and nothing else.
//!
//! redb is not used (4.4 was tried). Of 4,600 copies with one flipped bit, nine made it panic, because it reads pages
//! before it checks them; a full file doubles in length, so that only half of the bound is usable; and each commit
//! waits for the disk, which a cache does not need. Alternatives: `cacache` has a file for each entry and no bound,
//! `foyer` brings an executor, `fjall` threads and a journal.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{File, TryLockError},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use super::entry::{ENCRYPTED_SECRET_BYTES, Key, Origin, RecordCipher, first_bytes};
use crate::{
    encryption::Cipher,
    error::{Error, Result},
    lock,
    new_file::{NewFile, irregular, remove_leftovers, set_private},
};

/// The first bytes of a cache file. The version of its layout follows (u32, little endian), then [`Counts`] with their
/// checksum.
const MAGIC: [u8; 16] = *b"mnemon embedding";
const VERSION: u32 = 3;
/// The version of a file whose records are encrypted. The encrypted secret of its [`RecordCipher`] is at the end of its
/// header.
const ENCRYPTED_VERSION: u32 = 4;
const VERSION_AT: usize = MAGIC.len();
const COUNTS_AT: usize = VERSION_AT + 4;
const COUNTS_BYTES: usize = 3 * 8;
const HEADER_BYTES: usize = COUNTS_AT + COUNTS_BYTES + 4;

/// Length of a key: the origin (u64, little endian), and the hash.
const KEY_BYTES: usize = 8 + 32;
/// Length of a record's head: the key, the length of the value, the checksum of key and value, and the checksum of the
/// head. The value follows. Numbers are u32, little endian; checksums are CRC-32.
const HEAD_BYTES: usize = KEY_BYTES + 4 + 4 + 4;
/// The key of a record that was removed, whose value consists of zeros. No hash is equal to it.
const WIPED: Key = Key { origin: 0, hash: [0; 32] };
/// Bytes read at a time when a file is opened.
const SCAN_BYTES: usize = 1 << 20;

/// The contents of a cache file, and its usage by all processes that ever had it open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheFileStats {
    /// Texts whose vectors are in the file.
    pub entries: u64,
    /// The file's length.
    pub bytes: u64,
    /// Texts whose vectors were found, in the file or in memory.
    pub hits: u64,
    /// Texts that were embedded.
    pub misses: u64,
    /// Texts whose vectors were dropped to keep the maximum length.
    pub evictions: u64,
}

/// An open cache file, locked against other processes.
pub(super) struct CacheFile {
    path: PathBuf,
    max_bytes: u64,
    state: Mutex<State>,
    /// Hits not yet added to the counts in `state`: counting takes no lock.
    hits: AtomicU64,
    misses: AtomicU64,
}

struct State {
    file: File,
    /// Position of the next record, which is the length of the file.
    end: u64,
    /// Maps the beginning of a key, which is nearly always unique, to the position of its record. 30 to 60 bytes of
    /// memory each. Those of an origin are neighbors.
    locations: BTreeMap<ShortKey, Location>,
    counts: Counts,
    /// `None`: the file is not encrypted, or it is only inspected.
    cipher: Option<RecordCipher>,
}

/// The origin of a key, and the first bytes of its hash.
type ShortKey = (Origin, u64);

#[derive(Clone, Copy)]
struct Location {
    begin: u64,
    /// Length of the value, without the head.
    length: u32,
}

/// Counters over all processes that had the file open.
#[derive(Clone, Copy, Default)]
struct Counts {
    hits: u64,
    misses: u64,
    evictions: u64,
}

impl CacheFile {
    /// Opens the file, or creates it. A file of another version, or one that is not encrypted with this key, is
    /// emptied, and a damaged file is cut off before the damage, with a warning in the log.
    ///
    /// Cost: a pass over the file.
    ///
    /// # Errors
    /// [`Error::DatabaseLocked`]: the file is open already. [`Error::InvalidConfig`]: it is not an embedding cache.
    /// [`Error::Storage`].
    pub(super) fn open(path: &Path, max_bytes: u64, cipher: Option<&Cipher>) -> Result<Self> {
        check_kind(path)?;
        let failed = |error| failed(path, error);
        let mut options = File::options();
        set_private(options.read(true).write(true).create(true).truncate(false));
        // A process that compacts the file gives its name to a new file, so the lock is checked against the name.
        let file = locked(lock::open(path, &options), path)?;
        // The canonical path, so that a symbolic link stays one when the file is replaced.
        let path = &path.canonicalize().map_err(failed)?;
        remove_leftovers(path, |file| file.try_lock().ok().map(|()| file));
        let mut state = match read(&file, path)?.map(|found| with_key(found, cipher)) {
            Some(Some((mut state, outdated))) => {
                outdated.into_iter().try_for_each(|older| state.wipe(older)).map_err(failed)?;
                state
            }
            found => {
                if found.is_some() {
                    tracing::warn!(path = %path.display(), "the embedding cache file has another key and is emptied");
                }
                let cipher = cipher.map(RecordCipher::new).transpose().map_err(failed)?;
                begin(file.try_clone().map_err(failed)?, Counts::default(), cipher).map_err(failed)?
            }
        };
        let length = file.metadata().map_err(failed)?.len();
        if state.end < length {
            let bytes = length - state.end;
            tracing::warn!(path = %path.display(), bytes, "the end of an embedding cache file was damaged and is cut off");
            file.set_len(state.end).map_err(failed)?;
        }
        if state.end > max_bytes {
            state.shorten(path, max_bytes).map_err(failed)?;
        }
        Ok(CacheFile { path: path.clone(), max_bytes, state: Mutex::new(state), hits: 0.into(), misses: 0.into() })
    }

    /// Reads the statistics of an existing file, and does not change it.
    ///
    /// # Errors
    /// Same as [`CacheFile::open`]; [`Error::InvalidConfig`] also if the file is missing, empty, or of another version.
    pub(super) fn inspect(path: &Path) -> Result<CacheFileStats> {
        check_kind(path)?;
        let unusable = |reason| Error::InvalidConfig { reason: format!("{}: {reason}", path.display()) };
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => unusable("no such file; it is made when texts are embedded with it"),
            _ => failed(path, error),
        })?;
        locked(file.try_lock_shared(), path)?;
        let (state, ..) = read(&file, path)?
            .ok_or_else(|| unusable("the file is empty, or was written by another version of mnemon"))?;
        Ok(state.stats())
    }

    /// Returns the value of each key that has one. If other threads use the file until the deadline, no value is
    /// returned.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub(super) fn get(&self, keys: &[Key], deadline: Option<Instant>) -> Result<Vec<Option<Arc<[u8]>>>> {
        let Some(mut state) = self.lock(deadline) else { return Ok(vec![None; keys.len()]) };
        keys.iter().map(|key| state.get(key)).collect::<io::Result<_>>().map_err(|error| failed(&self.path, error))
    }

    /// Appends entries. With a deadline, nothing is appended if other threads use the file until then, or if the file
    /// is full.
    ///
    /// # Errors
    /// [`Error::Storage`]: some of the entries may be missing.
    pub(super) fn put(&self, entries: &[(Key, Arc<[u8]>)], deadline: Option<Instant>) -> Result<()> {
        let Some(mut state) = self.lock(deadline) else { return Ok(()) };
        self.write_down(&mut state.counts);
        if deadline.is_some() && !state.has_room(entries, self.max_bytes) {
            return Ok(());
        }
        state.put(entries, &self.path, self.max_bytes).map_err(|error| failed(&self.path, error))
    }

    /// Overwrites the records of these origins with zeros, durably if asked to. Returns their number.
    ///
    /// # Errors
    /// [`Error::Storage`]: some may still be there.
    pub(super) fn remove(&self, origins: &HashSet<Origin>, durably: bool) -> Result<u64> {
        let mut state = self.state.lock();
        state.remove(origins, durably).map_err(|error| failed(&self.path, error))
    }

    fn lock(&self, deadline: Option<Instant>) -> Option<MutexGuard<'_, State>> {
        match deadline {
            Some(deadline) => self.state.try_lock_until(deadline),
            None => Some(self.state.lock()),
        }
    }

    /// Adds to the counters. They are written with the next entries, or when the file is closed.
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
        // Only the counters: entries are written already.
        let mut state = self.state.lock();
        self.write_down(&mut state.counts);
        if let Err(error) = state.write_header() {
            tracing::warn!(%error, path = %self.path.display(), "the counters of an embedding cache file were not written");
        }
    }
}

impl State {
    fn get(&mut self, key: &Key) -> io::Result<Option<Arc<[u8]>>> {
        let key = &self.cipher.as_ref().map_or(*key, |cipher| cipher.key(key));
        let Some(&Location { begin, length }) = self.locations.get(&short(key)) else { return Ok(None) };
        let mut record = vec![0; HEAD_BYTES + length as usize];
        self.file.seek(SeekFrom::Start(begin))?;
        self.file.read_exact(&mut record)?;
        let (head, bytes) = record.split_first_chunk::<HEAD_BYTES>().expect("the record has room for a head");
        // Otherwise the record is of another key with the same first bytes, or was damaged.
        if *head != self::head(key, bytes) {
            return Ok(None);
        }
        Ok(self.cipher.as_ref().map_or_else(|| Some(bytes.into()), |cipher| cipher.decrypt(key, bytes)))
    }

    fn remove(&mut self, origins: &HashSet<Origin>, durably: bool) -> io::Result<u64> {
        let mut removed = 0;
        for &origin in origins {
            let stored = self.cipher.as_ref().map_or(origin, |cipher| cipher.origin(origin));
            let found = self.locations.range((stored, 0)..=(stored, u64::MAX));
            for (short, location) in found.map(|(short, location)| (*short, *location)).collect::<Vec<_>>() {
                self.wipe(location)?;
                self.locations.remove(&short);
                removed += 1;
            }
        }
        if durably && removed > 0 {
            self.file.sync_data()?;
        }
        Ok(removed)
    }

    /// Overwrites a record with one of a key and a value of zeros, which takes the same place.
    fn wipe(&mut self, Location { begin, length }: Location) -> io::Result<()> {
        let zeros = vec![0; length as usize];
        self.file.seek(SeekFrom::Start(begin))?;
        self.file.write_all(&head(&WIPED, &zeros))?;
        self.file.write_all(&zeros)
    }

    fn has_room(&self, entries: &[(Key, Arc<[u8]>)], max_bytes: u64) -> bool {
        let bytes = entries.iter().map(|(_, bytes)| (HEAD_BYTES + bytes.len()) as u64).sum::<u64>();
        self.end + bytes <= max_bytes
    }

    fn put(&mut self, entries: &[(Key, Arc<[u8]>)], path: &Path, max_bytes: u64) -> io::Result<()> {
        let (mut records, mut outdated) = (Vec::new(), Vec::new());
        for (key, bytes) in entries {
            let encrypted = self.cipher.as_ref().map(|cipher| {
                let key = cipher.key(key);
                cipher.encrypt(&key, bytes).map(|bytes| (key, bytes))
            });
            let encrypted = encrypted.transpose()?;
            let (key, bytes) = encrypted.as_ref().map_or((key, bytes), |(key, bytes)| (key, bytes));
            let length = (HEAD_BYTES + bytes.len()) as u64;
            // A huge entry is not cached: many others would be dropped for it.
            if length > max_bytes / 8 {
                continue;
            }
            if self.end + records.len() as u64 + length > max_bytes {
                self.append(&mut records)?;
                // Records move when the file is shortened.
                for older in std::mem::take(&mut outdated) {
                    self.wipe(older)?;
                }
                self.shorten(path, max_bytes)?;
            }
            let location = Location { begin: self.end + records.len() as u64, length: bytes.len() as u32 };
            records.extend(head(key, bytes));
            records.extend(bytes.iter());
            // Nobody would find the older record of the same key to remove it.
            if let Some(older) = self.locations.insert(short(key), location) {
                outdated.push(older);
            }
        }
        self.append(&mut records)?;
        for older in outdated {
            self.wipe(older)?;
        }
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
        let (version, secret) = match &self.cipher {
            Some(cipher) => (ENCRYPTED_VERSION, cipher.encrypted_secret()),
            None => (VERSION, &[][..]),
        };
        self.file.write_all(&[&MAGIC[..], &version.to_le_bytes(), &self.counts.bytes(), secret].concat())
    }

    /// Drops the oldest records until half of the maximum length is left. The others are copied to a new file, which is
    /// renamed to the old name when it is complete.
    fn shorten(&mut self, path: &Path, max_bytes: u64) -> io::Result<()> {
        if path.exists() && !lock::has_name(&self.file, path)? {
            // The file was moved, and another one has the name: the cache begins anew in its own.
            let mut counts = self.counts;
            counts.evictions += self.locations.len() as u64;
            *self = begin(self.file.try_clone()?, counts, self.cipher.clone())?;
            return Ok(());
        }
        let keep_from = self.end.saturating_sub(max_bytes / 2);
        let from = self.locations.values().map(|location| location.begin).filter(|&begin| begin >= keep_from).min();
        let from = from.unwrap_or(self.end);
        let old = self.file.metadata()?;
        let mut new = NewFile::beside(path)?;
        let mut state = self.copy(from, new.temporary())?;
        new.replace(&old)?;
        let header_bytes = header_bytes(state.cipher.is_some());
        state.locations = std::mem::take(&mut self.locations);
        state.locations.retain(|_, location| location.begin >= from);
        state.locations.values_mut().for_each(|location| location.begin = location.begin - from + header_bytes);
        *self = state;
        Ok(())
    }

    /// Fills a new file with the records from position `from` on; the others are counted as evicted.
    fn copy(&self, from: u64, new: &Path) -> io::Result<State> {
        let file = File::options().read(true).write(true).open(new)?;
        // Locked before it is renamed, so that the name always refers to a locked file.
        file.lock()?;
        let mut counts = self.counts;
        counts.evictions += self.locations.values().filter(|location| location.begin < from).count() as u64;
        let mut state = begin(file, counts, self.cipher.clone())?;
        let mut left = &self.file;
        left.seek(SeekFrom::Start(from))?;
        state.end += io::copy(&mut left.take(self.end - from), &mut state.file)?;
        Ok(state)
    }

    fn stats(&self) -> CacheFileStats {
        let Counts { hits, misses, evictions } = self.counts;
        CacheFileStats { entries: self.locations.len() as u64, bytes: self.end, hits, misses, evictions }
    }
}

/// Makes the file an empty cache.
fn begin(file: File, counts: Counts, cipher: Option<RecordCipher>) -> io::Result<State> {
    file.set_len(0)?;
    let mut state = State { file, end: header_bytes(cipher.is_some()), locations: BTreeMap::new(), counts, cipher };
    state.write_header()?;
    Ok(state)
}

fn header_bytes(is_encrypted: bool) -> u64 {
    (HEADER_BYTES + if is_encrypted { ENCRYPTED_SECRET_BYTES } else { 0 }) as u64
}

/// The contents of a file, the records in it that a later one of the same key replaces, and its encrypted secret if it
/// is encrypted.
type Found = (State, Vec<Location>, Option<[u8; ENCRYPTED_SECRET_BYTES]>);

/// Opens what was found with the key. `None`: it has another key, or none, or needs none.
fn with_key((mut state, outdated, encrypted_secret): Found, cipher: Option<&Cipher>) -> Option<(State, Vec<Location>)> {
    state.cipher = match (encrypted_secret, cipher) {
        (None, None) => None,
        (Some(encrypted_secret), Some(cipher)) => Some(RecordCipher::open_file(cipher, encrypted_secret)?),
        _ => return None,
    };
    Some((state, outdated))
}

/// Reads the heads of the records of a file up to the first damage. `None`: the file is empty, or of another version.
fn read(file: &File, path: &Path) -> Result<Option<Found>> {
    let failed = |error| failed(path, error);
    let mut reader = BufReader::with_capacity(SCAN_BYTES, file);
    let mut header = Vec::new();
    reader.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut header).map_err(failed)?;
    if header.iter().all(|&byte| byte == 0) {
        // A crash of the machine may leave a new file with zeros. A file of another kind has other bytes.
        let rest = reader.by_ref().bytes().find(|byte| !matches!(byte, Ok(0)));
        if rest.transpose().map_err(failed)?.is_none() {
            return Ok(None);
        }
    }
    // One byte of the magic number may be damaged. A file of another kind differs in more, and must not be overwritten.
    let other = header.iter().zip(MAGIC).filter(|(byte, magic)| *byte != magic).count();
    if other > usize::from(header.len() >= MAGIC.len()) {
        let reason = format!("{}: the file is not an embedding cache; give another path", path.display());
        return Err(Error::InvalidConfig { reason });
    }
    let Ok(header) = <[u8; HEADER_BYTES]>::try_from(header) else { return Ok(None) };
    let version = u32::from_le_bytes(*header[VERSION_AT..].first_chunk().expect("the header has room for a number"));
    let mut encrypted_secret = None;
    if version == ENCRYPTED_VERSION {
        let mut bytes = Vec::new();
        reader.by_ref().take(ENCRYPTED_SECRET_BYTES as u64).read_to_end(&mut bytes).map_err(failed)?;
        let Ok(bytes) = bytes.try_into() else { return Ok(None) };
        encrypted_secret = Some(bytes);
    } else if version != VERSION {
        tracing::warn!(path = %path.display(), "the embedding cache file was written by another version of mnemon");
        return Ok(None);
    }
    let length = file.metadata().map_err(failed)?.len();
    let counts = Counts::read(&header[COUNTS_AT..]).unwrap_or_default();
    let file = file.try_clone().map_err(failed)?;
    let end = header_bytes(encrypted_secret.is_some());
    let mut state = State { file, end, locations: BTreeMap::new(), counts, cipher: None };
    let (mut head, mut outdated) = ([0; HEAD_BYTES], Vec::new());
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
        if key != short(&WIPED)
            && let Some(older) = state.locations.insert(key, Location { begin: state.end, length: bytes })
        {
            outdated.push(older);
        }
        state.end = next;
    }
    Ok(Some((state, outdated, encrypted_secret)))
}

impl Counts {
    fn bytes(self) -> [u8; COUNTS_BYTES + 4] {
        let mut bytes = [0; COUNTS_BYTES + 4];
        for (bytes, count) in bytes.chunks_exact_mut(8).zip([self.hits, self.misses, self.evictions]) {
            bytes.copy_from_slice(&count.to_le_bytes());
        }
        put_checksum(&mut bytes);
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let [hits, misses, evictions] = *checked(bytes)?.as_chunks::<8>().0 else { return None };
        let [hits, misses, evictions] = [hits, misses, evictions].map(u64::from_le_bytes);
        Some(Counts { hits, misses, evictions })
    }
}

fn head(key: &Key, bytes: &[u8]) -> [u8; HEAD_BYTES] {
    let mut checksum = crc32fast::Hasher::new();
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&key.origin.to_le_bytes());
    head[8..KEY_BYTES].copy_from_slice(&key.hash);
    checksum.update(&head[..KEY_BYTES]);
    checksum.update(bytes);
    head[KEY_BYTES..KEY_BYTES + 4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    head[KEY_BYTES + 4..KEY_BYTES + 8].copy_from_slice(&checksum.finalize().to_le_bytes());
    put_checksum(&mut head);
    head
}

/// Returns the beginning of the key, and the length of the value. `None`: the head is damaged.
fn read_head(head: &[u8; HEAD_BYTES]) -> Option<(ShortKey, u32)> {
    let (origin, rest) = checked(head)?.split_first_chunk::<8>()?;
    let (hash, rest) = rest.split_first_chunk::<32>()?;
    let key = Key { origin: u64::from_le_bytes(*origin), hash: *hash };
    Some((short(&key), u32::from_le_bytes(*rest.first_chunk()?)))
}

/// Writes the checksum of a buffer into its last four bytes.
fn put_checksum(bytes: &mut [u8]) {
    let (bytes, checksum) = bytes.split_last_chunk_mut::<4>().expect("the buffer has room for a checksum");
    *checksum = crc32fast::hash(bytes).to_le_bytes();
}

/// Returns the bytes before a checksum. `None`: the checksum is wrong.
fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (bytes, checksum) = bytes.split_last_chunk::<4>()?;
    (crc32fast::hash(bytes) == u32::from_le_bytes(*checksum)).then_some(bytes)
}

fn short(key: &Key) -> ShortKey {
    (key.origin, first_bytes(&key.hash))
}

fn locked<T>(lock: std::result::Result<T, TryLockError>, path: &Path) -> Result<T> {
    lock.map_err(|error| match error {
        TryLockError::WouldBlock => Error::DatabaseLocked { path: path.to_path_buf(), holder: lock::holder(path) },
        TryLockError::Error(error) => failed(path, error),
    })
}

/// Refuses anything but a regular file: opening a pipe, for example, may wait for ever.
fn check_kind(path: &Path) -> Result<()> {
    match irregular(path) {
        None => Ok(()),
        Some(kind) => {
            Err(Error::InvalidConfig { reason: format!("{}: this is {kind}, and no embedding cache", path.display()) })
        }
    }
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::Storage(format!("{}: {error}", path.display()).into())
}
