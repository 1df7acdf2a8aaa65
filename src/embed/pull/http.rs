//! Fetching: a JSON answer, or a file, whole and with the hash that was promised, however often the connection breaks.
//!
//! hf-hub was considered: it is asynchronous on reqwest and tokio, keeps a second copy of each file in a cache of its own, does not
//! compare hashes, and knows nothing of PyPI. What is needed of it is one kind of request.

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use serde::de::DeserializeOwned;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use ureq::{
    Agent, Body,
    http::{Response, StatusCode},
    tls::{PemItem, RootCerts, TlsConfig, parse_pem},
};

use super::Fault;
use crate::{
    embed::manifest::hex,
    http::{self, is_unsendable, shown},
};

/// A list of files is some hundred kilobytes at most.
const MAX_ANSWER_BYTES: u64 = 32 << 20;

/// Connections in a row that bring nothing, after which it is given up.
const ATTEMPTS: usize = 3;

/// Until the server is reached; until it answers; until the next bytes come.
const CONNECT: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(60);

/// Before the second attempt; doubled before the third.
const BACKOFF: Duration = Duration::from_millis(500);

/// Bundles of certificates to trust, as curl, Python's clients and pip are told of them: behind a proxy of a firm, or a mirror.
const CERTIFICATES: [&str; 3] = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT"];

/// What a file's bytes are to hash to.
#[derive(Clone, Debug)]
pub(super) enum Checksum {
    Sha256(String),
    /// Of a blob, as git names it: SHA-1 of a header with the size, and the bytes.
    Git(String),
}

/// A file to fetch.
pub(super) struct Wanted {
    pub(super) url: String,
    pub(super) bytes: u64,
    pub(super) checksum: Checksum,
}

pub(super) struct Client {
    agent: Agent,
    /// Sent to the host that is asked, and to none that it redirects to.
    token: Option<String>,
}

impl Client {
    pub(super) fn new(token: Option<String>) -> Result<Self, Fault> {
        let mut tls = TlsConfig::builder();
        if let Some(path) = CERTIFICATES.into_iter().filter_map(env::var_os).find(|path| !path.is_empty()) {
            let path = PathBuf::from(path);
            let unread = |error| Fault::caused(format!("the certificates {} cannot be read", path.display()), error);
            let pem = fs::read(&path).map_err(unread)?;
            let certificates = parse_pem(&pem).filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            });
            tls = tls.root_certs(RootCerts::Specific(Arc::new(certificates.collect())));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(ANSWER))
            .timeout_per_read(Some(ANSWER))
            .tls_config(tls.build());
        Ok(Client { agent: config.build().new_agent(), token })
    }

    pub(super) fn json<T: DeserializeOwned>(&self, url: &str, accept: &str) -> Result<T, Fault> {
        let mut attempt = 1;
        loop {
            let answer = self.get(url, accept, 0).and_then(|mut answer| {
                let body = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
                body.map_err(|error| Fault::passing(format!("no answer of {}", shown(url)), error))
            });
            match answer {
                Err(fault) if fault.transient && attempt < ATTEMPTS => wait(attempt, &fault),
                Err(fault) => return Err(fault),
                Ok(body) => {
                    return serde_json::from_slice(&body).map_err(|error| {
                        Fault::caused(format!("{} answered what is not understood", shown(url)), error)
                    });
                }
            }
            attempt += 1;
        }
    }

    /// Fetches a file, unless it is there; what an earlier call began goes on where it was left. `progress` is told how many bytes
    /// of it there are.
    ///
    /// What is renamed in the end is what was read back from the disk, whoever wrote it.
    pub(super) fn file(&self, wanted: &Wanted, to: &Path, progress: &mut dyn FnMut(u64)) -> Result<(), Fault> {
        if to.is_file() && wanted.found_in(to).is_ok_and(|found| found.is_none()) {
            progress(wanted.bytes);
            return Ok(());
        }
        let written = |error| Fault::caused(format!("{} cannot be written", to.display()), error);
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
                Err(fault) if !fault.transient => return Err(fault),
                Err(fault) => {
                    failures = if received > before { 0 } else { failures + 1 };
                    if failures == ATTEMPTS {
                        return Err(fault);
                    }
                    wait(failures, &fault);
                }
            }
        }
        if let Some(found) = wanted.found_in(&part).map_err(written)? {
            // Going on with it would only give the same again.
            fs::remove_file(&part).map_err(written)?;
            return Err(Fault::new(format!(
                "{} is not what it should be ({} bytes, {:?}; found {found}); what came was deleted: try again",
                shown(&wanted.url),
                wanted.bytes,
                wanted.checksum,
            )));
        }
        fs::rename(&part, to).map_err(written)
    }

    /// One request for what is missing, into the file.
    fn receive(
        &self,
        wanted: &Wanted,
        part: &Path,
        received: &mut u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Fault> {
        let url = shown(&wanted.url);
        let mut answer = self.get(&wanted.url, "*/*", *received)?;
        let goes_on = answer.status() == StatusCode::PARTIAL_CONTENT && starts_at(&answer, *received);
        if !goes_on {
            // The whole file, from a server that does not know ranges.
            *received = 0;
        }
        let written = |error| Fault::caused(format!("{} cannot be written", part.display()), error);
        let mut file = OpenOptions::new().create(true).append(goes_on).write(true).truncate(!goes_on).open(part);
        let file = file.as_mut().map_err(|error| written(io::Error::from(error.kind())))?;
        let mut body = answer.body_mut().as_reader();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = body.read(&mut buffer).map_err(|error| Fault::passing(format!("{url} broke off"), error))?;
            if read == 0 && *received < wanted.bytes {
                return Err(Fault { transient: true, ..Fault::new(format!("{url} broke off")) });
            }
            if read == 0 {
                file.sync_all().map_err(written)?;
                return Ok(());
            }
            if *received + read as u64 > wanted.bytes {
                return Err(Fault::new(format!(
                    "{url} sends more than the {} bytes that it should have",
                    wanted.bytes
                )));
            }
            file.write_all(&buffer[..read]).map_err(written)?;
            *received += read as u64;
            progress(*received);
        }
    }

    fn get(&self, url: &str, accept: &str, from: u64) -> Result<Response<Body>, Fault> {
        let mut request = self.agent.get(url).header("accept", accept).header("accept-encoding", "identity");
        if from > 0 {
            request = request.header("range", format!("bytes={from}-"));
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = request.call().map_err(|error| match is_unsendable(&error) {
            // The error is left out, as it may show a password.
            true => Fault::new(format!(
                "{} cannot be asked: the URL, a proxy's URL or the token has characters that HTTP does not take",
                shown(url)
            )),
            false => Fault::passing(format!("no answer of {}", shown(url)), error),
        })?;
        let status = answer.status();
        match status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(answer),
            _ => Err(Fault {
                transient: status.is_server_error() || matches!(status.as_u16(), 408 | 429),
                retry_after: http::retry_after(answer.headers()),
                ..Fault::new(format!("{} answered {status}", shown(url)))
            }),
        }
    }
}

impl Wanted {
    /// What else this file is, size and hash; nothing if it is the one that is wanted.
    fn found_in(&self, path: &Path) -> io::Result<Option<String>> {
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

/// Whether the answer is the part of the file from this byte on.
fn starts_at(answer: &Response<Body>, byte: u64) -> bool {
    let range = answer.headers().get("content-range").and_then(|range| range.to_str().ok());
    let start = range.and_then(|range| range.trim().strip_prefix("bytes ")?.split('-').next()?.parse::<u64>().ok());
    start == Some(byte)
}

fn wait(attempt: usize, fault: &Fault) {
    thread::sleep(http::wait(BACKOFF, attempt, fault.retry_after));
}
