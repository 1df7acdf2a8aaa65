//! The page at `/`, which shows the database in a browser.
//!
//! This module owns one HTML file, with its script and style inside, and the policy that lets a browser run these two and
//! nothing else. The page uses the routes of `v1` like any other client; a server with tokens serves it without one,
//! because it has no data.

use std::sync::LazyLock;

use axum::{
    http::header,
    response::{Html, IntoResponse},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use sha2::{Digest, Sha256};

/// The page with the line ends that a browser's parser makes, whatever those of the checkout are: its hashes are of that
/// text.
static PAGE: LazyLock<String> = LazyLock::new(|| include_str!("index.html").replace("\r\n", "\n"));

/// Allows the script and the style of the page by their hashes, and requests to this server. The last two directives make
/// the browser refuse to parse a string as HTML, such as by `innerHTML`.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |tag| BASE64_STANDARD.encode(Sha256::digest(content(&PAGE, tag).as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
        hash("script"),
        hash("style"),
    )
});

pub(crate) async fn served() -> impl IntoResponse {
    ([(header::CONTENT_SECURITY_POLICY, POLICY.as_str())], Html(PAGE.as_str()))
}

/// Returns the content of the first element of this name, whose tag has no attributes.
fn content<'a>(page: &'a str, tag: &str) -> &'a str {
    let rest = page.split_once(&format!("<{tag}>")).expect("the page has this element").1;
    rest.split_once(&format!("</{tag}>")).expect("the element has an end").0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_allows_all_that_the_page_has() {
        for tag in ["script", "style"] {
            assert_eq!(PAGE.matches(&format!("<{tag}")).count(), 1, "one {tag}, which has no attributes");
            assert!(!content(&PAGE, tag).is_empty());
        }
        // The policy would block these.
        let body = PAGE.split_once("</style>").expect("the page has a style").1;
        let markup = body.split_once("<script>").expect("the page has a script").0;
        for blocked in [" style=", " onclick=", " src=", "http://", "https://"] {
            assert!(!markup.contains(blocked), "{blocked}");
        }
        for blocked in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!content(&PAGE, "script").contains(blocked), "{blocked}");
        }
        assert_eq!(POLICY.matches("'sha256-").count(), 2, "{}", *POLICY);
    }
}
