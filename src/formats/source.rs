//! Where files come from: a path, a folder, a zip archive, or a stream.

use std::{
    cell::Cell,
    cmp::Reverse,
    fmt,
    fs::{self, File},
    io::{self, BufRead, BufReader, Cursor, Read, Seek, Write},
    path::{Path, PathBuf},
    rc::Rc,
};

use zip::ZipArchive;

use super::{
    compressed::{begin, decompressed},
    database::{Database, is_beside},
};
use crate::error::{Error, Result};

/// The bytes of a file that are looked at to find out its format.
const HEAD_BYTES: u64 = 1 << 18;
/// How a zip archive begins, and how each entry of its list of files does.
const ZIP: [u8; 4] = *b"PK\x03\x04";
const LISTED: [u8; 4] = *b"PK\x01\x02";
/// The most files in an archive of a bounded stream: each takes half a kilobyte of memory.
const MAX_FILES: usize = 250_000;
const TOO_MANY_BYTES: &str = "decompressed, the files have more bytes than are taken at once";
/// The memory that a reader takes for what it holds of a line, beside the text, in bytes.
pub(super) const LINE_MEMORY: usize = 512;
/// The names of files that say what others of their folder or archive mean, so that they are read first.
const FIRST: [&str; 5] = ["users.json", "channels.json", "groups.json", "dms.json", "mpims.json"];
/// Folders of programs, which have no conversations.
const OTHER_FOLDERS: [&str; 2] = [".git", "node_modules"];

/// The files of a path: one, those of a folder and the folders in it, or those of a zip archive. Archives in a folder are
/// opened, and files that gzip or Zstandard compressed are read as they are.
pub struct Source<'s> {
    places: std::vec::IntoIter<Place<'s>>,
    /// The archive that is being read, with its name.
    archive: Option<(String, ZipArchive<File>)>,
    is_single: bool,
    /// The most bytes that all files together may still have.
    left: Option<u64>,
}

/// Where a file is.
enum Place<'s> {
    Stream(String, Box<dyn Read + 's>),
    File(PathBuf),
    /// An entry of the archive at a path, or of that which was opened already.
    Entry {
        archive: PathBuf,
        index: usize,
        name: String,
    },
}

impl<'s> Source<'s> {
    /// Opens a file, a folder or an archive.
    ///
    /// # Errors
    /// There is nothing at the path that can be read.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error: io::Error| Error::file(&path.display().to_string(), 0, error.to_string());
        if path.is_dir() {
            let mut paths = Vec::new();
            list(path, &mut paths).map_err(failed)?;
            let mut places = Vec::new();
            for path in paths {
                match zip_at(&path) {
                    // What is no archive in spite of its beginning is left for the reader, which tells.
                    Some(Ok(archive)) => places.extend(entries(&path, &archive)),
                    _ => places.push(Place::File(path)),
                }
            }
            places.sort_by_cached_key(Place::order);
            return Ok(Source { places: places.into_iter(), archive: None, is_single: false, left: None });
        }
        match zip_at(path) {
            Some(archive) => {
                let archive = archive.map_err(failed)?;
                Ok(Source::of_archive(path, archive))
            }
            None => {
                // So that a file that is missing is an error here.
                File::open(path).map_err(failed)?;
                Ok(Source {
                    places: vec![Place::File(path.to_owned())].into_iter(),
                    archive: None,
                    is_single: true,
                    left: None,
                })
            }
        }
    }

    /// Reads a stream, such as stdin, under a name. One that is a zip archive is written to a temporary file first.
    ///
    /// # Errors
    /// The stream cannot be read, or an archive not be written.
    pub fn stream(name: &str, bytes: impl Read + 's) -> Result<Self> {
        Source::stream_within(name, bytes, None)
    }

    /// Same as [`Source::stream`], for a stream of somebody else: its files may have so many bytes together when they are
    /// decompressed, and an archive 250,000 files.
    ///
    /// # Errors
    /// Those of [`Source::stream`]; the archive has more files.
    pub fn bounded_stream(name: &str, bytes: impl Read + 's, max_bytes: u64) -> Result<Self> {
        Source::stream_within(name, bytes, Some(max_bytes))
    }

    fn stream_within(name: &str, bytes: impl Read + 's, left: Option<u64>) -> Result<Self> {
        let failed = |error: io::Error| Error::file(name, 0, error.to_string());
        let (first, mut bytes) = begin(bytes).map_err(failed)?;
        if first != ZIP {
            let places = vec![Place::Stream(name.to_owned(), Box::new(bytes))].into_iter();
            return Ok(Source { places, archive: None, is_single: true, left });
        }
        // The file has no name, so nobody else can open it, and it is gone when it is closed.
        let archive = tempfile::tempfile().and_then(|mut file| {
            let max_files = if left.is_some() { MAX_FILES } else { usize::MAX };
            copy_archive(&mut bytes, &mut file, max_files)?;
            file.flush()?;
            file.rewind()?;
            Ok(ZipArchive::new(file)?)
        });
        Ok(Source { left, ..Source::of_archive(Path::new(name), archive.map_err(failed)?) })
    }

    fn of_archive(path: &Path, archive: ZipArchive<File>) -> Self {
        let mut places: Vec<Place<'s>> = entries(path, &archive).collect();
        places.sort_by_cached_key(Place::order);
        let archive = Some((path.display().to_string(), archive));
        Source { places: places.into_iter(), archive, is_single: false, left: None }
    }

    /// Whether the source is a single file, and not those of a folder or an archive, some of which are no conversations.
    pub fn is_single(&self) -> bool {
        self.is_single
    }

    /// Returns the next file, or `None` after the last.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn next_file(&mut self) -> Result<Option<SourceFile<'_>>> {
        let Some(place) = self.places.next() else { return Ok(None) };
        let name = place.name();
        if self.left == Some(0) {
            return Err(Error::file(&name, 0, TOO_MANY_BYTES));
        }
        let failed = |error: io::Error| Error::file(&name, 0, error.to_string());
        let mut on_disk = None;
        let (size, bytes): (u64, Box<dyn Read + '_>) = match place {
            Place::Stream(_, bytes) => (0, decompressed(bytes).map_err(failed)?),
            Place::File(path) => {
                let file = File::open(&path).map_err(failed)?;
                let size = file.metadata().map_or(0, |metadata| metadata.len());
                on_disk = Some(path);
                (size, decompressed(file).map_err(failed)?)
            }
            Place::Entry { archive: path, index, .. } => {
                let of = path.display().to_string();
                if self.archive.as_ref().is_none_or(|(opened, _)| *opened != of) {
                    let archive = File::open(&path).and_then(|file| Ok(ZipArchive::new(file)?));
                    self.archive = Some((of, archive.map_err(failed)?));
                }
                let (_, archive) = self.archive.as_mut().expect("it was opened");
                let entry = archive.by_index(index).map_err(|error| failed(error.into()))?;
                (entry.size(), decompressed(entry).map_err(failed)?)
            }
        };
        let rest: Box<dyn Read + '_> = match &mut self.left {
            Some(left) => Box::new(Limited { bytes, left }),
            None => bytes,
        };
        Ok(Some(SourceFile { name, size, path: on_disk, head: None, rest, database: None }))
    }
}

impl Place<'_> {
    fn name(&self) -> String {
        match self {
            Place::Stream(name, _) => name.clone(),
            Place::File(path) => path.display().to_string(),
            Place::Entry { archive, name, .. } => archive.join(name).display().to_string(),
        }
    }

    /// Returns what the places are sorted by: files that say what others mean come first, then those with which Codex continues
    /// a session that went back, the last before the first, because they say what of the others was taken back.
    fn order(&self) -> (bool, Reverse<Option<String>>, String) {
        let name = self.name();
        let file = Path::new(&name).file_name().and_then(|file| file.to_str()).unwrap_or_default();
        let is_continued = file.starts_with("rollout-") && file.contains('_');
        (!FIRST.contains(&file), Reverse(is_continued.then(|| name.clone())), name)
    }
}

/// Lists the files of a folder and of the folders in it.
fn list(folder: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        // A link to a folder might lead back.
        if entry.file_type()?.is_dir() {
            if !OTHER_FOLDERS.iter().any(|other| entry.file_name() == *other) {
                list(&path, paths)?;
            }
        } else if path.is_file() && !is_beside(&path) {
            paths.push(path);
        }
    }
    Ok(())
}

/// Opens the archive at a path. Returns `None` if the file there is none.
fn zip_at(path: &Path) -> Option<io::Result<ZipArchive<File>>> {
    let mut file = File::open(path).ok()?;
    let mut first = [0; 4];
    file.read_exact(&mut first).ok()?;
    let open = move || {
        file.rewind()?;
        Ok(ZipArchive::new(file)?)
    };
    (first == ZIP).then(open)
}

/// Copies an archive, unless it has more files.
fn copy_archive(from: &mut impl Read, to: &mut File, max_files: usize) -> io::Result<()> {
    let (mut files, mut buffer, mut kept) = (0, vec![0; 1 << 16], 0);
    loop {
        let read = from.read(&mut buffer[kept..])?;
        to.write_all(&buffer[kept..kept + read])?;
        let filled = kept + read;
        files += buffer[..filled].windows(LISTED.len()).filter(|bytes| *bytes == LISTED).count();
        if files > max_files {
            return Err(io::Error::other(format!("an archive of more than {max_files} files")));
        }
        if read == 0 {
            return Ok(());
        }
        // A mark may be divided between this part and the next.
        kept = filled.min(LISTED.len() - 1);
        buffer.copy_within(filled - kept..filled, 0);
    }
}

/// Bytes that count among those that all files may have.
struct Limited<'s> {
    bytes: Box<dyn Read + 's>,
    left: &'s mut u64,
}

impl Read for Limited<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(out)?;
        *self.left = self.left.saturating_sub(read as u64);
        if *self.left == 0 && read > 0 { Err(io::Error::other(TOO_MANY_BYTES)) } else { Ok(read) }
    }
}

/// The end of a file that cannot be read further.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Bytes of a file of which a reader may hold so much before it returns messages.
struct Held<'s> {
    bytes: Box<dyn Read + 's>,
    /// Estimated memory of what was read since the last messages: its bytes, and so many for each line.
    memory: Rc<Cell<usize>>,
    line_memory: usize,
    max: usize,
}

impl Read for Held<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(out)?;
        let lines = out[..read].iter().filter(|byte| **byte == b'\n').count();
        self.memory.set(self.memory.get() + read + self.line_memory * lines);
        if self.memory.get() > self.max {
            return Err(io::Error::other(format!("its messages take more than {} bytes of memory", self.max)));
        }
        Ok(read)
    }
}

/// Returns the places of the files in an archive.
fn entries<'s>(path: &Path, archive: &ZipArchive<File>) -> impl Iterator<Item = Place<'s>> {
    let names: Vec<String> = (0..archive.len())
        .map(|at| archive.name_for_index(at).and_then(|name| name.ok()).unwrap_or_default().into())
        .collect();
    let path = path.to_owned();
    let is_file = |(_, name): &(usize, String)| !name.ends_with('/');
    names.into_iter().enumerate().filter(is_file).map(move |(index, name)| Place::Entry {
        archive: path.clone(),
        index,
        name,
    })
}

/// A file that is read once, from its beginning to its end.
pub struct SourceFile<'s> {
    /// Its path, with that of its archive.
    pub name: String,
    /// The number of its bytes as they are stored. 0: unknown.
    pub size: u64,
    /// Its path, if it is a file of its own.
    pub(super) path: Option<PathBuf>,
    head: Option<Vec<u8>>,
    rest: Box<dyn Read + 's>,
    /// The database that it is, once it was opened.
    database: Option<Database>,
}

impl<'s> SourceFile<'s> {
    /// Returns the first bytes of the file, which are still read afterwards.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn head(&mut self) -> Result<&[u8]> {
        if self.head.is_none() {
            let mut head = Vec::new();
            if let Err(error) = self.rest.by_ref().take(HEAD_BYTES).read_to_end(&mut head) {
                if head.is_empty() {
                    return Err(Error::file(&self.name, 1, error.to_string()));
                }
                // What came before is read all the same.
                self.rest = Box::new(Broken(Some(error)));
            }
            self.head = Some(head);
        }
        Ok(self.head.as_deref().unwrap_or_default())
    }

    /// Bounds what a reader of the file may hold before it returns messages. Returns the count of that, which is set to 0 then.
    pub(super) fn bound(&mut self, max: usize, line_memory: usize) -> Rc<Cell<usize>> {
        let memory = Rc::<Cell<usize>>::default();
        let bytes = std::mem::replace(&mut self.rest, Box::new(io::empty()));
        self.rest = Box::new(Held { bytes, memory: Rc::clone(&memory), line_memory, max });
        memory
    }

    /// Returns all bytes of the file.
    pub(super) fn into_bytes(mut self) -> Box<dyn BufRead + 's> {
        Box::new(BufReader::with_capacity(1 << 16, self.take_bytes()))
    }

    /// Takes all bytes of the file, of which only the first are still known afterwards.
    pub(super) fn take_bytes(&mut self) -> impl Read + use<'s> {
        let head = Cursor::new(self.head.clone().unwrap_or_default());
        head.chain(std::mem::replace(&mut self.rest, Box::new(io::empty())))
    }

    /// Returns the database that the file is, if it is one.
    ///
    /// # Errors
    /// The file cannot be read, or the database is damaged.
    pub(super) fn database(&mut self) -> Result<Option<&Database>> {
        if self.database.is_none() {
            let (name, path, head) = (self.name.clone(), self.path.clone(), self.head()?.to_vec());
            let database = Database::open(&name, &head, path.as_deref(), || self.take_bytes())?;
            self.database = database;
        }
        Ok(self.database.as_ref())
    }

    pub(super) fn into_database(mut self) -> Result<Option<Database>> {
        self.database()?;
        Ok(self.database)
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.places.as_slice().iter().map(Place::name).collect();
        f.debug_tuple("Source").field(&names).finish()
    }
}

impl fmt::Debug for SourceFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceFile").field(&self.name).finish()
    }
}
