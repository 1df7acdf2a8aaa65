//! Parses one source file into its definitions, its `use` declarations and the paths in its code.
//!
//! The file is lexed by `proc-macro2`, so that comments, strings and lifetimes need no care, and paths inside of macro
//! calls are found like any other. Not by `syn`: it leaves the arguments of macros as tokens, and a scanner of tokens
//! finds the paths outside of them as well. Items under `#[cfg(test)]` are skipped.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The words that begin a fragment instead of a sentence.
const FRAGMENTS: [&str; 11] = ["What", "Whether", "As", "Of", "Whose", "By", "Has", "Is", "To", "That", "Which"];

/// What one file defines and names. Paths are split at `::`.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Modules declared by `mod name;`.
    pub(super) children: BTreeSet<String>,
    /// Modules that are only compiled for tests.
    pub(super) test_children: BTreeSet<String>,
    /// Names of the items at the top level, other than modules.
    pub(super) defined: BTreeSet<String>,
    pub(super) uses: Vec<Use>,
    /// Paths of at least two segments outside of `use` declarations.
    pub(super) paths: BTreeSet<Vec<String>>,
    /// Identifiers outside of `use` declarations, those after a dot excepted.
    pub(super) identifiers: BTreeSet<String>,
    /// Type -> number of functions in its inherent `impl` blocks.
    pub(super) methods: BTreeMap<String, usize>,
    pub(super) docs: Docs,
}

/// A leaf of a `use` tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Use {
    pub(super) path: Vec<String>,
    /// The name that it binds; `None` for a glob.
    pub(super) name: Option<String>,
    /// True if the declaration begins with `pub`, with or without a restriction.
    pub(super) exported: bool,
}

/// Counts of doc comments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Docs {
    pub(super) all: usize,
    pub(super) fragments: usize,
    /// Doc comments of `pub` items, fields included.
    pub(super) public: usize,
    pub(super) public_fragments: usize,
}

pub(super) fn parse(text: &str) -> Source {
    let tokens: TokenStream = text.parse().expect("rustc accepts the file, so it has valid tokens");
    let mut source = Source::default();
    source.read(&tokens.into_iter().collect::<Vec<_>>(), true);
    source
}

impl Source {
    fn read(&mut self, tokens: &[TokenTree], top: bool) {
        let mut at = 0;
        // True after a `pub` of the item that begins.
        let mut exported = false;
        // The first line of the doc comment before the item that begins; true for one of the file itself.
        let mut doc: Option<(String, bool)> = None;
        while let Some(token) = tokens.get(at) {
            let previous = at.checked_sub(1).map(|before| &tokens[before]);
            if let Some((group, length)) = attribute(&tokens[at..]) {
                let is_inner = length == 3;
                match doc_text(group) {
                    Some(line) => match &doc {
                        Some((_, was_inner)) if *was_inner == is_inner => {}
                        _ => {
                            let before = doc.replace((line, is_inner));
                            before.iter().for_each(|(line, _)| self.docs.count(line, &[]));
                        }
                    },
                    None if is_test_only(group) => {
                        let length = length + self.skip_item(&tokens[at + length..]);
                        (at, doc) = (at + length, None);
                        continue;
                    }
                    None => self.read(&group.stream().into_iter().collect::<Vec<_>>(), false),
                }
                at += length;
                continue;
            }
            if let Some((line, is_inner)) = doc.take() {
                self.docs.count(&line, if is_inner { &[] } else { &tokens[at..] });
            }
            match token {
                TokenTree::Ident(word) if word == "pub" => {
                    exported = true;
                    at += 1 + usize::from(tokens.get(at + 1).is_some_and(is_restriction));
                    continue;
                }
                TokenTree::Ident(word) if word == "use" && !is_punct(tokens.get(at + 1), '<') => {
                    let end = position(&tokens[at..], |token| is_punct(Some(token), ';')) + at;
                    self.read_use(&tokens[at + 1..end], &mut Vec::new(), exported);
                    at = end;
                }
                TokenTree::Ident(word) if word == "mod" => {
                    let name = tokens[at + 1].to_string();
                    match &tokens[at + 2] {
                        TokenTree::Group(body) => {
                            self.read_inline_module(body);
                            at += 1;
                        }
                        _ => drop(self.children.insert(name)),
                    }
                    at += 1;
                }
                // Not the `impl Trait` of a type.
                TokenTree::Ident(word)
                    if word == "impl"
                        && top
                        && (is_punct(previous, ';') || !matches!(previous, Some(TokenTree::Punct(_)))) =>
                {
                    self.count_methods(&tokens[at + 1..]);
                }
                TokenTree::Ident(_) => {
                    let path = path(&tokens[at..]);
                    if top && let Some(name) = defined_name(&tokens[at..]) {
                        self.defined.insert(name);
                    }
                    if !is_punct(previous, '.') {
                        self.identifiers.insert(path[0].clone());
                    }
                    if path.len() > 1 {
                        // Each segment but the last is followed by two colons.
                        at += 3 * (path.len() - 1);
                        self.paths.insert(path);
                    }
                }
                TokenTree::Group(group) => self.read(&group.stream().into_iter().collect::<Vec<_>>(), false),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            exported = false;
            at += 1;
        }
        if let Some((line, _)) = doc {
            self.docs.count(&line, &[]);
        }
    }

    /// Reads a module that is written inside of this file: its `super` is this file, and its names bind nothing outside
    /// of it.
    fn read_inline_module(&mut self, body: &Group) {
        let mut inner = Source::default();
        inner.read(&body.stream().into_iter().collect::<Vec<_>>(), false);
        let outside = |mut path: Vec<String>| {
            match path[0].as_str() {
                "super" if path.get(1).is_some_and(|next| next == "super") => drop(path.remove(0)),
                "super" => path[0] = "self".into(),
                "crate" => {}
                "self" => path[0] = "_".into(),
                _ => {}
            }
            path
        };
        self.uses.extend(inner.uses.into_iter().map(|used| {
            let name = used.name.map(|_| "_".to_owned());
            Use { path: outside(used.path), name, exported: false }
        }));
        self.paths.extend(inner.paths.into_iter().map(outside));
        self.identifiers.extend(inner.identifiers);
        self.docs.add(inner.docs);
    }

    /// Reads a `use` tree without its semicolon, after `prefix`.
    fn read_use(&mut self, tokens: &[TokenTree], prefix: &mut Vec<String>, exported: bool) {
        let before = prefix.len();
        let mut name = None;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    name = tokens.get(at + 1).map(TokenTree::to_string);
                    break;
                }
                TokenTree::Ident(word) => prefix.push(word.to_string()),
                TokenTree::Group(group) => {
                    let tree: Vec<TokenTree> = group.stream().into_iter().collect();
                    for branch in tree.split(|token| is_punct(Some(token), ',')).filter(|branch| !branch.is_empty()) {
                        self.read_use(branch, prefix, exported);
                    }
                    return prefix.truncate(before);
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    self.uses.push(Use { path: prefix.clone(), name: None, exported });
                    return prefix.truncate(before);
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            at += 1;
        }
        if prefix.len() > 1 && prefix.last().is_some_and(|last| last == "self") {
            prefix.pop();
        }
        let name = name.or_else(|| prefix.last().cloned());
        self.uses.push(Use { path: prefix.clone(), name, exported });
        prefix.truncate(before);
    }

    /// The number of tokens of an item that is only compiled for tests.
    fn skip_item(&mut self, tokens: &[TokenTree]) -> usize {
        let word = |at: usize| tokens.get(at).map(TokenTree::to_string).unwrap_or_default();
        let mut begin = 0;
        while let Some((_, length)) = attribute(&tokens[begin..]) {
            begin += length;
        }
        if word(begin) == "pub" {
            begin += 1 + usize::from(tokens.get(begin + 1).is_some_and(is_restriction));
        }
        if word(begin) == "mod" {
            self.test_children.insert(word(begin + 1));
        }
        const ITEMS: [&str; 16] = [
            "fn",
            "impl",
            "mod",
            "struct",
            "enum",
            "union",
            "type",
            "trait",
            "use",
            "const",
            "static",
            "unsafe",
            "async",
            "extern",
            "let",
            "macro_rules",
        ];
        let is_item = ITEMS.contains(&word(begin).as_str());
        let to_semicolon = ["use", "static", "let", "type"].contains(&word(begin).as_str())
            || (word(begin) == "const" && word(begin + 1) != "fn");
        let ends = |token: &TokenTree| match token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && !to_semicolon,
            token => is_punct(Some(token), ';') || (!is_item && is_punct(Some(token), ',')),
        };
        (position(tokens, ends) + 1).min(tokens.len())
    }

    /// Adds the functions of an inherent `impl` block, whose tokens after `impl` begin here.
    fn count_methods(&mut self, tokens: &[TokenTree]) {
        let body = position(tokens, |token| is_brace(token).is_some());
        let (head, Some(body)) = (&tokens[..body], tokens.get(body).and_then(is_brace)) else { return };
        let is_trait = head.iter().enumerate().any(|(at, token)| {
            matches!(token, TokenTree::Ident(word) if word == "for") && !is_punct(head.get(at + 1), '<')
        });
        if is_trait {
            return;
        }
        let generics = if is_punct(head.first(), '<') { angles(head) } else { 0 };
        let Some(TokenTree::Ident(_)) = head.get(generics) else { return };
        let name = path(&head[generics..]).pop().expect("a path has a segment");
        let body: Vec<TokenTree> = body.stream().into_iter().collect();
        let is_function =
            |pair: &&[TokenTree]| matches!(pair, [TokenTree::Ident(word), TokenTree::Ident(_)] if word == "fn");
        *self.methods.entry(name).or_default() += body.windows(2).filter(is_function).count();
    }
}

impl Docs {
    pub(super) fn add(&mut self, other: Docs) {
        self.all += other.all;
        self.fragments += other.fragments;
        self.public += other.public;
        self.public_fragments += other.public_fragments;
    }

    /// Counts a doc comment by its first line and the tokens of the item that it describes.
    fn count(&mut self, line: &str, item: &[TokenTree]) {
        let word = line.split_whitespace().next().unwrap_or_default();
        // "Whether" is right for what is true or false.
        let end =
            position(item, |token| [',', ';'].iter().any(|c| is_punct(Some(token), *c)) || is_brace(token).is_some());
        let is_bool = item[..end].iter().any(|token| matches!(token, TokenTree::Ident(word) if word == "bool"));
        let fragment = FRAGMENTS.contains(&word) && !(word == "Whether" && is_bool);
        let public = matches!(item, [TokenTree::Ident(word), next, ..] if word == "pub" && !is_restriction(next));
        self.all += 1;
        self.fragments += usize::from(fragment);
        self.public += usize::from(public);
        self.public_fragments += usize::from(public && fragment);
    }
}

/// The path that begins with the first token: `a::b::c`, up to a generic argument.
fn path(tokens: &[TokenTree]) -> Vec<String> {
    let mut path = vec![tokens[0].to_string()];
    while let [colon, second, TokenTree::Ident(next), ..] = &tokens[3 * path.len() - 2..]
        && is_punct(Some(colon), ':')
        && is_punct(Some(second), ':')
    {
        path.push(next.to_string());
    }
    path
}

/// The name that an item of a file defines, if its keyword is the first token.
fn defined_name(tokens: &[TokenTree]) -> Option<String> {
    const KEYWORDS: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
    let name = |at: usize| match tokens.get(at) {
        Some(TokenTree::Ident(name)) => Some(name.to_string()),
        _ => None,
    };
    match tokens[0].to_string().as_str() {
        "macro_rules" => name(2),
        keyword if KEYWORDS.contains(&keyword) => name(1).filter(|name| name != "mut" && name != "fn"),
        _ => None,
    }
}

/// The bracketed group of an attribute and its number of tokens, if the tokens begin with one.
fn attribute(tokens: &[TokenTree]) -> Option<(&Group, usize)> {
    let inner = usize::from(is_punct(tokens.get(1), '!'));
    match (tokens.first(), tokens.get(1 + inner)) {
        (hash, Some(TokenTree::Group(group))) if is_punct(hash, '#') && group.delimiter() == Delimiter::Bracket => {
            Some((group, 2 + inner))
        }
        _ => None,
    }
}

/// The line of a doc comment, which the lexer turns into `#[doc = "line"]`.
fn doc_text(attribute: &Group) -> Option<String> {
    let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match tokens.as_slice() {
        [TokenTree::Ident(name), _, TokenTree::Literal(text)] if name == "doc" => {
            Some(text.to_string().trim_start_matches(['r', '#', '"']).trim_end_matches(['#', '"']).to_owned())
        }
        _ => None,
    }
}

/// True for `cfg(test)` and `cfg(all(test, ...))`.
fn is_test_only(attribute: &Group) -> bool {
    let text = attribute.stream().to_string().replace(' ', "");
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// True for the parenthesis of `pub(crate)`, `pub(super)` and `pub(in path)`.
fn is_restriction(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let words: Vec<TokenTree> = group.stream().into_iter().collect();
    let first = words.first().map(TokenTree::to_string).unwrap_or_default();
    group.delimiter() == Delimiter::Parenthesis
        && (first == "in" || (words.len() == 1 && ["crate", "super", "self"].contains(&first.as_str())))
}

fn is_punct(token: Option<&TokenTree>, c: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == c)
}

fn is_brace(token: &TokenTree) -> Option<&Group> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    }
}

/// The number of tokens of a list in angle brackets.
fn angles(tokens: &[TokenTree]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        // Not the arrow of a function's type.
        let arrow = at > 0 && is_punct(tokens.get(at - 1), '-');
        depth += i32::from(is_punct(Some(token), '<')) - i32::from(is_punct(Some(token), '>') && !arrow);
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The position of the first token for which `test` holds; their number if there is none.
fn position(tokens: &[TokenTree], test: impl Fn(&TokenTree) -> bool) -> usize {
    tokens.iter().position(test).unwrap_or(tokens.len())
}
