//! Downloads: the folder that they are kept in, and the client that downloads JSON documents and files with known hashes.
//! An interrupted download is resumed.
//!
//! The crate hf-hub is not used: it is asynchronous on reqwest and tokio, keeps a second copy of each file in its own
//! cache, does not compare hashes, and does not know PyPI.

use std::{
    env,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use ureq::{
    Body,
    http::{Response, StatusCode},
    tls::{PemItem, RootCerts, parse_pem},
};

use crate::{
    client::http::{Failure, Retry, Transport, TransportOptions, shown_url},
    ids::hex,
    lock,
};

/// A model that [`Model::pull`](crate::Model::pull) can fetch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CatalogueEntry {
    /// The name for [`Model::pull`](crate::Model::pull).
    pub name: String,
    /// One line about the model.
    pub description: String,
    /// The source: a hub's repository with the graph's file, or a package.
    pub source: String,
    /// The number of components of a vector.
    pub dimension: usize,
}

/// A progress callback, which gets the file's name, the bytes received so far, and the file's size in bytes.
pub(super) type Progress<'p> = &'p mut dyn FnMut(&str, u64, u64);

/// A folder of downloaded files that can be imported.
pub(super) struct DownloadedModel {
    pub(super) folder: PathBuf,
    /// The source of the files, with the version.
    pub(super) source: String,
}

/// The name of the file that is locked while a call downloads into the folder. The operating system releases the lock of
/// a killed process.
const LOCK: &str = ".lock";

/// A folder that files are downloaded into. It is locked, so that one call at a time uses it. A call resumes the downloads
/// of an interrupted one.
pub(super) struct DownloadFolder {
    path: PathBuf,
    _lock: File,
}

impl DownloadFolder {
    /// Creates the folder if needed, and locks it.
    ///
    /// # Errors
    /// Another call is downloading into the folder, in this process or another one; or the folder cannot be written.
    pub(super) fn new(path: PathBuf) -> Result<Self, Failure> {
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        loop {
            fs::create_dir_all(&path).map_err(|error| unwritable(&path, error))?;
            match lock::open(&path.join(LOCK), &options) {
                Ok(lock) => return Ok(DownloadFolder { path, _lock: lock }),
                // Another call has removed the folder meanwhile.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(TryLockError::Error(error)) => return Err(unwritable(&path, error)),
                Err(TryLockError::WouldBlock) => {
                    return Err(Failure::lasting(format!(
                        "another call is downloading into {}; try again when it has finished",
                        path.display()
                    )));
                }
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder after its files were installed. A folder that cannot be removed only takes space.
    pub(super) fn remove(mut self) {
        let _ = fs::remove_dir_all(std::mem::take(&mut self.path));
    }
}

impl Drop for DownloadFolder {
    /// Removes the folder if it is empty. Partial downloads are kept for the next call.
    fn drop(&mut self) {
        let is_lock = |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|entry| entry.file_name() == LOCK);
        if self.path.read_dir().is_ok_and(|mut entries| entries.all(is_lock)) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// The maximum size of a JSON document. A list of files has some hundred kilobytes.
const MAX_ANSWER_BYTES: u64 = 32 << 20;

/// The time limits for connecting, and for the response or its next bytes.
const CONNECT: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(60);

/// The maximum number of redirects. Hubs keep large files on other hosts.
const MAX_REDIRECTS: u32 = 10;

/// The environment variables that name a bundle of certificates to trust, as for curl, Python's clients and pip. A
/// company's proxy may need them.
const CERTIFICATES: [&str; 3] = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT"];

/// The expected hash of a file.
#[derive(Clone, Debug)]
pub(super) enum Checksum {
    Sha256(String),
    /// The name of a git blob, which is the SHA-1 of a header with the size, and of the bytes.
    Git(String),
}

/// A file to download.
pub(super) struct RemoteFile {
    pub(super) url: String,
    pub(super) bytes: u64,
    pub(super) checksum: Checksum,
}

/// An HTTP client for downloads, with retries.
pub(super) struct Downloader {
    transport: Transport,
    retry: Retry,
}

impl Downloader {
    /// Creates a client that sends this token to the hosts of the requested URLs, but not to hosts that they redirect
    /// to.
    ///
    /// # Errors
    /// The file of certificates that an environment variable names cannot be read.
    pub(super) fn new(token: Option<String>) -> Result<Self, Failure> {
        let options = TransportOptions {
            max_redirects: MAX_REDIRECTS,
            connect_timeout: Some(CONNECT),
            read_timeout: Some(ANSWER),
            certificates: certificates()?,
        };
        Ok(Downloader { transport: Transport::new(options).key(token), retry: Retry::default() })
    }

    /// Fetches a JSON document.
    pub(super) fn json<T: DeserializeOwned>(&self, url: &str, accept: &str) -> Result<T, Failure> {
        let body = self.retry.run(|| {
            let mut answer = self.get(url, accept, 0)?;
            let body = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
            body.map_err(|error| Failure::of_transport(url, error))
        })?;
        serde_json::from_slice(&body).map_err(|error| {
            Failure::lasting(format!("{} answered with JSON of an unexpected form", shown_url(url))).caused_by(error)
        })
    }

    /// Downloads a file, unless it exists with the right hash. Resumes an interrupted download. `progress` is called with
    /// the number of bytes received.
    ///
    /// Before the file gets its name, its hash is computed from the bytes on the disk, so that it does not matter who
    /// wrote them.
    pub(super) fn file(&self, wanted: &RemoteFile, to: &Path, progress: &mut dyn FnMut(u64)) -> Result<(), Failure> {
        if to.is_file() && wanted.mismatch(to).is_ok_and(|found| found.is_none()) {
            progress(wanted.bytes);
            return Ok(());
        }
        let written = |error: io::Error| unwritable(to, error);
        fs::create_dir_all(to.parent().unwrap_or(Path::new("."))).map_err(written)?;
        let mut part = to.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let mut received = match fs::metadata(&part) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(written(error)),
        };
        if wanted.bytes == 0 {
            File::create(&part).map_err(written)?;
        }
        let mut failures = 0;
        while received < wanted.bytes {
            let before = received;
            match self.receive(wanted, &part, &mut received, progress) {
                Ok(()) => {}
                Err(failure) => {
                    failures = if received > before { 0 } else { failures + 1 };
                    if !self.retry.allows(failures, &failure) {
                        return Err(failure.after(failures));
                    }
                    thread::sleep(self.retry.wait(failures, failure.retry_after));
                }
            }
        }
        if let Some(found) = wanted.mismatch(&part).map_err(written)? {
            // A resumed download would keep the wrong bytes.
            fs::remove_file(&part).map_err(written)?;
            return Err(Failure::lasting(format!(
                "{} has the wrong contents (expected {} bytes, {:?}; found {found}); the download was deleted: try again",
                shown_url(&wanted.url),
                wanted.bytes,
                wanted.checksum,
            )));
        }
        fs::rename(&part, to).map_err(written)
    }

    /// Requests the missing bytes and appends them to the file.
    fn receive(
        &self,
        wanted: &RemoteFile,
        part: &Path,
        received: &mut u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let url = shown_url(&wanted.url);
        let mut answer = self.get(&wanted.url, "*/*", *received)?;
        let is_resumed = answer.status() == StatusCode::PARTIAL_CONTENT && starts_at(&answer, *received);
        if !is_resumed {
            // A server that does not support ranges sends the whole file.
            *received = 0;
        }
        let written = |error: io::Error| unwritable(part, error);
        let mut file = OpenOptions::new().create(true).append(is_resumed).write(true).truncate(!is_resumed).open(part);
        let file = file.as_mut().map_err(|error| written(io::Error::from(error.kind())))?;
        let mut body = answer.body_mut().as_reader();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = body.read(&mut buffer).map_err(|error| interrupted(&url).caused_by(error))?;
            if read == 0 && *received < wanted.bytes {
                return Err(interrupted(&url));
            }
            if read == 0 {
                file.sync_all().map_err(written)?;
                return Ok(());
            }
            if *received + read as u64 > wanted.bytes {
                return Err(Failure::lasting(format!("{url} sends more than the expected {} bytes", wanted.bytes)));
            }
            file.write_all(&buffer[..read]).map_err(written)?;
            *received += read as u64;
            progress(*received);
        }
    }

    fn get(&self, url: &str, accept: &str, from: u64) -> Result<Response<Body>, Failure> {
        let mut request = self.transport.get(url).header("accept", accept).header("accept-encoding", "identity");
        if from > 0 {
            request = request.header("range", format!("bytes={from}-"));
        }
        let answer = request.call().map_err(|error| Failure::of_transport(url, error))?;
        match answer.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(answer),
            _ => Err(self.transport.refused(url, &answer, "")),
        }
    }
}

impl RemoteFile {
    /// Compares a file's size and hash with the expected ones. If they differ, returns those of the file.
    fn mismatch(&self, path: &Path) -> io::Result<Option<String>> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let (hash, wanted) = match &self.checksum {
            Checksum::Sha256(wanted) => (digest(Sha256::new(), &mut file)?, wanted),
            Checksum::Git(wanted) => (digest(Sha1::new_with_prefix(format!("blob {bytes}\0")), &mut file)?, wanted),
        };
        let is_wanted = bytes == self.bytes && hash.eq_ignore_ascii_case(wanted);
        Ok((!is_wanted).then(|| format!("{bytes} bytes, {hash}")))
    }
}

fn digest(mut hasher: impl Digest, file: &mut File) -> io::Result<String> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
    }
}

/// Returns true if the response begins with this byte of the file.
fn starts_at(answer: &Response<Body>, byte: u64) -> bool {
    let range = answer.headers().get("content-range").and_then(|range| range.to_str().ok());
    let start = range.and_then(|range| range.trim().strip_prefix("bytes ")?.split('-').next()?.parse::<u64>().ok());
    start == Some(byte)
}

/// Reads the certificates to trust from the file that an environment variable names. Returns `None` if no variable is set.
fn certificates() -> Result<Option<RootCerts>, Failure> {
    let Some(path) = CERTIFICATES.into_iter().filter_map(env::var_os).find(|path| !path.is_empty()) else {
        return Ok(None);
    };
    let path = PathBuf::from(path);
    let pem = fs::read(&path).map_err(|error| {
        Failure::lasting(format!("the certificates {} cannot be read", path.display())).caused_by(error)
    })?;
    let certificates = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    Ok(Some(RootCerts::Specific(Arc::new(certificates.collect()))))
}

pub(super) fn unwritable(path: &Path, error: io::Error) -> Failure {
    Failure::lasting(format!("{} cannot be written", path.display())).caused_by(error)
}

fn interrupted(url: &str) -> Failure {
    Failure::transient(format!("the connection to {url} broke before the end of the file"))
}

/// Returns the trimmed value of an environment variable; `None` if it is not set or blank.
pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}
