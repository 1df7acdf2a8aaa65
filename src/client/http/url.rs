//! URLs as errors and `Debug` show them.

/// Returns the URL without its user and password, and without its query, which may be a signature.
///
/// A text that is no URL, such as one with a mistyped scheme, is treated alike: nothing before an `@` is shown.
pub(crate) fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // The password is cut off first: it may contain any character.
    let location = rest.rsplit('@').next().unwrap_or_default();
    let location = location.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = location.split_at(location.find('/').unwrap_or(location.len()));
    match scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !scheme.is_empty() {
        true => format!("{scheme}://{host}{path}"),
        false => format!("{host}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_queries_are_not_shown() {
        for (url, wanted) in [
            ("https://host/path", "https://host/path"),
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
            ("http://[::1]:80/v1", "http://[::1]:80/v1"),
            ("http://[::1]/v1", "http://[::1]/v1"),
            ("https://host/path?signature=secret#secret", "https://host/path"),
            ("https://user:secret@host/path", "https://host/path"),
            ("https://user:secret@host", "https://host"),
            ("https://user:sec@ret@host/path", "https://host/path"),
            ("https://user:sec/ret@host/path", "https://host/path"),
            ("https://user:s?ecret@host/path", "https://host/path"),
            ("https://user:12#34@host/path", "https://host/path"),
            ("user:secret@host/path", "host/path"),
            ("user:secret@host", "host"),
            ("https:/user:secret@host/path", "host/path"),
            ("user:secret@https://host/path", "host/path"),
            ("nowhere", "nowhere"),
            ("", ""),
        ] {
            assert_eq!(shown(url), wanted, "{url}");
        }
    }
}
