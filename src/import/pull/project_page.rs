//! The page of a project in the Python Package Index, or in a mirror of it.

use std::env;

use serde::Deserialize;

use super::download::Downloader;
use crate::client::http::{Failure, shown};

const INDEX: &str = "https://pypi.org/simple";

/// Media type of an index page in JSON (PEP 691).
const SIMPLE_JSON: &str = "application/vnd.pypi.simple.v1+json";

/// A project's page, read from `$PIP_INDEX_URL` or pypi.org.
pub(super) struct ProjectPage {
    url: String,
    pub(super) releases: Vec<Release>,
}

/// A file of a project.
#[derive(Deserialize)]
pub(super) struct Release {
    pub(super) filename: String,
    url: String,
    #[serde(default)]
    pub(super) hashes: Hashes,
    /// The size in bytes. Indexes older than PEP 700 do not state it.
    pub(super) size: Option<u64>,
}

#[derive(Default, Deserialize)]
pub(super) struct Hashes {
    pub(super) sha256: Option<String>,
}

#[derive(Deserialize)]
struct Project {
    files: Vec<Release>,
}

impl ProjectPage {
    /// Fetches the page of a project. `otherwise` is what the user can do if the index does not answer in JSON.
    pub(super) fn fetch(client: &Downloader, project: &str, otherwise: &str) -> Result<Self, Failure> {
        let index = env::var("PIP_INDEX_URL").ok().map(|url| url.trim().to_owned()).filter(|url| !url.is_empty());
        let index = index.unwrap_or_else(|| INDEX.to_owned());
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
        let releases = client.json::<Project>(&url, SIMPLE_JSON).map_err(with_remedies)?.files;
        Ok(ProjectPage { url, releases })
    }

    /// Returns the page's address without a password.
    pub(super) fn shown(&self) -> String {
        shown(&self.url)
    }

    /// Returns the address of a file on the page.
    pub(super) fn address(&self, release: &Release) -> String {
        absolute(&self.url, &release.url)
    }
}

/// Resolves a URL found on the page `page`, which may be relative.
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
}
