//! Downloads ONNX Runtime's library from its package in the Python Package Index.

use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use super::{
    download::{Checksum, DownloadFolder, Downloader, Progress, RemoteFile, unwritable},
    pypi::{ProjectFile, ProjectPage, unpack},
};
use crate::{
    client::http::Failure,
    error::{Error, Result},
    onnx::{
        Runtime,
        runtime::{IS_STATIC, is_library},
    },
};

const PACKAGE: &str = "onnxruntime";

/// The version that is downloaded. The published figures were measured with it.
const VERSION: &str = "1.31.1";

/// The files of the package that are installed beside the library.
const NOTICES: [&str; 2] = ["LICENSE", "ThirdPartyNotices.txt"];

/// The maximum number of bytes that are unpacked, ten times as many as the library has.
const MAX_UNPACKED: u64 = 512 << 20;

impl Runtime {
    /// Downloads ONNX Runtime 1.31.1 for this machine and installs its library in this folder, by default
    /// [`Runtime::folder`], where it is found from then on. Returns the path of the library. If the library is there
    /// already, the network is not used.
    ///
    /// The source is the package `onnxruntime` of `$PIP_INDEX_URL`, or pypi.org, with the proxies and certificates of
    /// [`Model::pull`](crate::Model::pull). The file's size and SHA-256 are compared with those that the index states.
    /// An interrupted call is resumed by the next one, and the library appears in the folder complete or not at all.
    /// `progress` is called with the file's name, the bytes received and the total: about 24 MB on Linux.
    ///
    /// # Errors
    /// [`Error::RuntimeNotDownloaded`]: the network fails, there is no package for this kind of machine, a file has a
    /// wrong hash, or another call is downloading. [`Error::InvalidConfig`]: no folder is given, and the environment
    /// names no home. [`Error::RuntimeNotFound`]: this program is linked statically and can load no library.
    pub fn pull(destination: Option<&Path>, mut progress: impl FnMut(&str, u64, u64)) -> Result<PathBuf> {
        if IS_STATIC {
            return Err(Error::RuntimeNotFound { looked: Vec::new() });
        }
        let Some(folder) = destination.map(Path::to_path_buf).or_else(Runtime::folder) else {
            let reason = "the environment names no home for ONNX Runtime; give a folder".to_owned();
            return Err(Error::InvalidConfig { reason });
        };
        pull(&folder, &mut progress)
            .map_err(|failure| Error::RuntimeNotDownloaded { reason: failure.reason, source: failure.source })
    }
}

fn pull(folder: &Path, progress: Progress<'_>) -> Result<PathBuf, Failure> {
    if let Some(library) = installed(folder) {
        return Ok(library);
    }
    let staging = DownloadFolder::new(folder.join(".download"))?;
    // Another call may have installed the library meanwhile.
    let library = match installed(folder) {
        Some(library) => library,
        None => {
            let unpacked = fetch(staging.path(), progress)?;
            install(&unpacked, folder).map_err(|error| unwritable(folder, error))?
        }
    };
    staging.remove();
    Ok(library)
}

/// Returns the library that an earlier call installed. On Windows its name does not state the version.
fn installed(folder: &Path) -> Option<PathBuf> {
    let is_installed = |name: &str| is_library(name) && (cfg!(windows) || name.contains(VERSION));
    library(folder, is_installed)
}

fn library(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let paths = folder.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&is_wanted)).min()
}

/// Downloads the package and unpacks the library and the notices. Returns the folder with them.
fn fetch(staging: &Path, progress: Progress<'_>) -> Result<PathBuf, Failure> {
    let client = Downloader::new(None)?;
    let page = ProjectPage::fetch(&client, PACKAGE, "install ONNX Runtime by other means")?;
    let at = page.shown();
    // The packages for all versions of Python have the same library.
    let release = page.releases.iter().filter(|release| fits(&release.filename, env::consts::OS, env::consts::ARCH));
    let release = release.min_by(|a, b| a.filename.cmp(&b.filename)).ok_or_else(|| {
        let (system, processor) = (env::consts::OS, env::consts::ARCH);
        Failure::lasting(format!("{at} has no {PACKAGE} {VERSION} for {system} on {processor}"))
    })?;
    let ProjectFile { filename, hashes, size, .. } = release;
    let (Some(sha256), &Some(bytes)) = (&hashes.sha256, size) else {
        let reason = format!(
            "{at} does not state the size and the SHA-256 of {filename}; set PIP_INDEX_URL to an index that does"
        );
        return Err(Failure::lasting(reason));
    };
    let wanted = RemoteFile { url: page.url_of(release), bytes, checksum: Checksum::Sha256(sha256.clone()) };
    let path = staging.join("package.whl");
    client.file(&wanted, &path, &mut |done| progress(filename, done, bytes))?;

    let folder = staging.join("unpacked");
    let is_wanted = |path: &str| NOTICES.contains(&path) || path.strip_prefix("capi/").is_some_and(is_library);
    File::open(&path)
        .and_then(|archive| unpack(archive, PACKAGE, &folder, MAX_UNPACKED, is_wanted))
        .map_err(|error| Failure::lasting(format!("{filename} cannot be unpacked")).caused_by(error))?;
    Ok(folder)
}

/// Moves the library into the folder, after the notices.
fn install(unpacked: &Path, folder: &Path) -> io::Result<PathBuf> {
    let from = library(&unpacked.join("capi"), is_library)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the package has no library of ONNX Runtime"))?;
    File::open(&from)?.sync_all()?;
    for notice in NOTICES {
        // A package may lack a notice.
        let _ = fs::rename(unpacked.join(notice), folder.join(notice));
    }
    let to = folder.join(from.file_name().expect("it was found by its name"));
    fs::rename(&from, &to)?;
    Ok(to)
}

/// Returns true if a file of the package is of our version, and for this system and processor.
fn fits(filename: &str, system: &str, processor: &str) -> bool {
    let Some(tags) = filename.strip_prefix(&format!("{PACKAGE}-{VERSION}-")).and_then(|tags| tags.strip_suffix(".whl"))
    else {
        return false;
    };
    let Some((_, platform)) = tags.rsplit_once('-') else { return false };
    match (system, processor) {
        ("linux", _) => platform.starts_with("manylinux") && platform.ends_with(&format!("_{processor}")),
        ("macos", "aarch64") => platform.starts_with("macosx_") && platform.ends_with("_arm64"),
        ("macos", _) => platform.starts_with("macosx_") && platform.ends_with(&format!("_{processor}")),
        ("windows", "x86_64") => platform == "win_amd64",
        ("windows", "aarch64") => platform == "win_arm64",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_this_kind_of_machine_is_chosen() {
        let names = [
            "onnxruntime-1.31.1-cp311-cp311-macosx_14_0_arm64.whl",
            "onnxruntime-1.31.1-cp311-cp311-manylinux_2_28_aarch64.whl",
            "onnxruntime-1.31.1-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
            "onnxruntime-1.31.1-cp311-cp311-win_amd64.whl",
            "onnxruntime-1.31.1-cp311-cp311-win_arm64.whl",
            "onnxruntime-1.31.0-cp311-cp311-manylinux_2_28_x86_64.whl",
            "onnxruntime-1.31.1.tar.gz",
            "onnxruntime-1.31.1-cp311-cp311-musllinux_1_2_x86_64.whl",
        ];
        let chosen = |system, processor| -> Vec<usize> {
            (0..names.len()).filter(|&name| fits(names[name], system, processor)).collect()
        };
        assert_eq!(chosen("linux", "x86_64"), [2]);
        assert_eq!(chosen("linux", "aarch64"), [1]);
        assert_eq!(chosen("macos", "aarch64"), [0]);
        assert_eq!(chosen("macos", "x86_64"), [0; 0]);
        assert_eq!(chosen("windows", "x86_64"), [3]);
        assert_eq!(chosen("windows", "aarch64"), [4]);
        assert_eq!(chosen("freebsd", "x86_64"), [0; 0]);
    }
}
