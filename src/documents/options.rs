//! The options of a put.

/// The options of [`Documents::put`](crate::Documents::put): the texts to index, and the time to live.
///
/// ```
/// let options = mnemon::DocumentOptions::default().index(["title", "sections[*].text"]).ttl_minutes(30.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DocumentOptions {
    /// The paths to the texts to index, up to 32. Default: `$`, the whole value as JSON.
    ///
    /// A path is `$`, or field names joined by `.`, each followed by any number of `[0]` (an item of an array), `[-1]`
    /// (the last) or `[*]` (each, as a text of its own). `*` in the place of a name is each field or item; `{a,b.c}` at
    /// the end is several fields. A path that leads nowhere gives no text; numbers and booleans are written as JSON,
    /// and so are objects and arrays.
    pub index: Vec<String>,
    /// The time to live in minutes: the document expires so long after this put, or after the last read that refreshed
    /// it. From one millisecond to a thousand years. `None`: it never expires. Default: `None`.
    pub ttl_minutes: Option<f64>,
}

impl Default for DocumentOptions {
    fn default() -> Self {
        DocumentOptions { index: vec!["$".to_owned()], ttl_minutes: None }
    }
}

impl DocumentOptions {
    /// Sets [`index`](field@DocumentOptions::index).
    pub fn index<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.index = paths.into_iter().map(Into::into).collect();
        self
    }

    /// Indexes nothing: a search with a query does not find the document.
    pub fn not_indexed(mut self) -> Self {
        self.index.clear();
        self
    }

    /// Sets [`ttl_minutes`](field@DocumentOptions::ttl_minutes).
    pub fn ttl_minutes(mut self, minutes: f64) -> Self {
        self.ttl_minutes = Some(minutes);
        self
    }
}
