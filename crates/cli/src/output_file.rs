//! Files that commands write, and which files they may replace.
//!
//! A file is written under a temporary name beside its own, which it gets when it is whole. It takes the place of
//! another file only with --force, only if that is of the same kind, and never if the command reads it.

use std::{
    fs::{self, File, Metadata},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use mnemon::TemporaryName;
use same_file::Handle;
use tempfile::NamedTempFile;

use crate::input;

/// The option of commands that write files.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct Force {
    /// Replace the output file if it exists and is of the kind that the command writes.
    #[arg(long)]
    pub(crate) force: bool,
}

/// A kind of file, by how it begins.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    name: &'static str,
    is: fn(&[u8]) -> bool,
}

pub(crate) const EXPORT: Kind = Kind { name: "an export", is: |bytes| bytes.starts_with(b"{\"kind\":\"header\"") };
pub(crate) const SVG: Kind = Kind { name: "an SVG file", is: |bytes| bytes.starts_with(b"<svg") };
pub(crate) const FIGURES: Kind = Kind {
    name: "a file of figures",
    is: |bytes| bytes.starts_with(b"{\n  \"bench\"") || bytes.starts_with(b"{\n  \"machine\""),
};
pub(crate) const BEIR_LINES: Kind =
    Kind { name: "a file of BEIR's layout", is: |bytes| bytes.starts_with(b"{\"_id\"") };
pub(crate) const JUDGMENTS: Kind =
    Kind { name: "a file of BEIR's judgments", is: |bytes| bytes.starts_with(b"query-id\t") };
pub(crate) const TREC_RUN: Kind = Kind {
    name: "a TREC run file",
    is: |bytes| bytes.split(u8::is_ascii_whitespace).nth(1).is_some_and(|column| column == b"Q0"),
};
/// A number of dimensions comes first.
pub(crate) const VECTORS: Kind = Kind {
    name: "a file of vectors",
    is: |bytes| bytes.first_chunk().is_some_and(|width| (1..1 << 20).contains(&u32::from_le_bytes(*width))),
};

/// Number of bytes by which a kind is told: more than any kind needs.
const HEAD: usize = 256;
const SUFFIX: &str = ".new";
/// Number of random letters and digits in a temporary name.
const RANDOM: usize = 8;

/// A file that a command writes. Dropped without [`OutputFile::finish`], it leaves nothing.
pub(crate) struct OutputFile {
    path: PathBuf,
    out: Out,
    kind: Kind,
    force: Force,
    /// The file that has this name already, if there is one.
    old: Option<Handle>,
    /// The mode and owner that the new file gets: those of the old one, or of the database.
    like: Option<Metadata>,
}

enum Out {
    /// A file that the shell opened, or /dev/null.
    Device(BufWriter<File>),
    Temporary {
        file: BufWriter<NamedTempFile>,
        _name: TemporaryName,
    },
}

impl OutputFile {
    /// Begins a file. `like` is the database whose contents it gets, and whose access rights.
    ///
    /// # Errors
    /// A file of this name exists and may not be replaced; what has this name is no regular file.
    pub(crate) fn create(path: &Path, kind: Kind, force: Force, like: Option<&Path>) -> anyhow::Result<Self> {
        let name = || path.display().to_string();
        if input::is_stream(path) {
            // It may be a file that the shell appends to.
            let device = File::options().append(true).open(path).with_context(name)?;
            let (path, out) = (path.to_path_buf(), Out::Device(BufWriter::new(device)));
            return Ok(OutputFile { path, out, kind, force, old: None, like: None });
        }
        if let Some(found) = input::irregular(path) {
            bail!(
                "{}: this is {found}, and the output is a file; name another, or write to stdout and redirect it",
                name()
            );
        }
        // The file itself is replaced, not a link to it.
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(_) if path.is_symlink() => bail!("{}: a symbolic link that leads to no file; name the file", name()),
            Err(_) => path.to_path_buf(),
        };
        let old = Handle::from_path(&path).ok();
        if old.is_some() {
            check(&path, kind, force)?;
        }
        let like = if old.is_some() { Some(path.as_path()) } else { like };
        let like = like.map(fs::metadata).transpose().with_context(name)?;
        let temporary = temporary(&path, like.is_some()).with_context(name)?;
        let _name = TemporaryName::new(temporary.path().to_owned());
        let out = Out::Temporary { file: BufWriter::with_capacity(1 << 18, temporary), _name };
        Ok(OutputFile { path, out, kind, force, old, like })
    }

    /// Returns the context of an error of writing.
    pub(crate) fn writing(&self) -> String {
        format!("{}: writing", self.path.display())
    }

    /// Writes all of the file, and gives it its name.
    pub(crate) fn write_whole(mut self, text: &str) -> anyhow::Result<()> {
        self.write_all(text.as_bytes()).with_context(|| self.writing())?;
        self.finish()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// A file of this name was created meanwhile, or the old one may no longer be replaced.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let OutputFile { path, out, kind, force, old, like } = self;
        let name = || path.display().to_string();
        let temporary = match out {
            Out::Device(mut device) => return device.flush().with_context(name),
            Out::Temporary { file, .. } => file,
        };
        let temporary = temporary.into_inner().map_err(|error| without_name(error.into_error())).with_context(name)?;
        temporary.as_file().sync_all().with_context(name)?;
        if let Some(like) = &like {
            let is_same = set_access(temporary.path(), like).with_context(name)?;
            ensure!(
                is_same || old.is_none(),
                "{}: the file belongs to another user or group, which a new file in its place cannot be given; run this as its \
                 owner, or name another file",
                name()
            );
        }
        if old.is_some() {
            let is_same = Handle::from_path(&path).ok() == old;
            ensure!(is_same, "{}: the file was replaced while this command wrote its own; nothing was written", name());
            check(&path, kind, force)?;
            temporary.persist(&path).map_err(|error| error.error).with_context(name)?;
        } else {
            temporary.persist_noclobber(&path).map_err(|error| match error.error.kind() {
                io::ErrorKind::AlreadyExists => {
                    anyhow::anyhow!(
                        "{}: the file was created while this command wrote its own; nothing was written",
                        name()
                    )
                }
                _ => anyhow::Error::new(error.error).context(name()),
            })?;
        }
        if cfg!(unix) {
            File::open(folder(&path)).and_then(|folder| folder.sync_all()).with_context(name)?;
        }
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::Device(device) => device.write(bytes),
            Out::Temporary { file, .. } => file.write(bytes).map_err(without_name),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::Device(device) => device.flush(),
            Out::Temporary { file, .. } => file.flush().map_err(without_name),
        }
    }
}

/// Takes the temporary name out of an error of the crate `tempfile`: the user knows only the final name.
fn without_name(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path ") {
        Some((reason, _)) => io::Error::new(error.kind(), reason),
        None => error,
    }
}

/// Checks that the file of this name may be replaced. An empty one has nothing to lose.
fn check(path: &Path, kind: Kind, force: Force) -> anyhow::Result<()> {
    let name = path.display();
    ensure!(!input::is_read(path), "{name}: this command reads the file; name another for its output");
    let mut head = Vec::new();
    File::open(path).and_then(|file| io::Read::read_to_end(&mut io::Read::take(file, HEAD as u64), &mut head))?;
    if head.is_empty() {
        return Ok(());
    }
    ensure!((kind.is)(&head), "{name}: the file exists and is not {}; name another for the output", kind.name);
    ensure!(force.force, "{name}: the file exists; add --force to replace it, or name another");
    Ok(())
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a locked temporary file beside another, and removes those that killed commands left there. With
/// `is_private`, only this user can read it.
fn temporary(path: &Path, is_private: bool) -> io::Result<NamedTempFile> {
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    for entry in fs::read_dir(folder(path))?.flatten() {
        let name = entry.file_name();
        let random = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        let random = random.and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()));
        if !random.is_some_and(|random| random.len() == RANDOM && random.iter().all(u8::is_ascii_alphanumeric)) {
            continue;
        }
        // The lock is held until the file is removed.
        if let Ok(file) = File::options().write(true).open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
    loop {
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(SUFFIX).rand_bytes(RANDOM);
        #[cfg(unix)]
        if !is_private {
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        }
        let _ = is_private;
        let file = builder.tempfile_in(folder(path)).map_err(without_name)?;
        // Another command may remove a file that is not locked yet.
        if file.as_file().try_lock().is_ok() && file.path().exists() {
            return Ok(file);
        }
    }
}

/// Gives a file the mode of another, and its owner and group as far as the system lets this process. Returns false if
/// they differ then; a group that differs gets no rights.
#[cfg(unix)]
fn set_access(path: &Path, like: &Metadata) -> io::Result<bool> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let mut own = fs::metadata(path)?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        if chown(path, Some(like.uid()), Some(like.gid())).is_err() {
            let _ = chown(path, None, Some(like.gid()));
        }
        own = fs::metadata(path)?;
    }
    let same_group = own.gid() == like.gid();
    let mode = like.mode() & if same_group { 0o777 } else { 0o707 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(same_group && own.uid() == like.uid())
}

#[cfg(not(unix))]
fn set_access(path: &Path, like: &Metadata) -> io::Result<bool> {
    fs::set_permissions(path, like.permissions())?;
    Ok(true)
}
