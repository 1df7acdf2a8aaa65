//! The scanner and the graph, on small sources.

use super::{
    ROOMS, difference,
    graph::Crate,
    source::{Docs, Use, parse},
    table,
};

fn leaves(text: &str) -> Vec<String> {
    let shown = |used: &Use| {
        let exported = if used.exported { "pub " } else { "" };
        format!("{exported}{} as {}", used.path.join("::"), used.name.as_deref().unwrap_or("*"))
    };
    parse(text).uses.iter().map(shown).collect()
}

#[test]
fn use_trees_are_read_leaf_by_leaf() {
    let text = "
        use crate::{error::Result, store::{self, A, B as C}};
        pub(crate) use super::x::Y;
        use std::fmt::Write as _;
        fn f() -> impl Sized + use<> { use self::deep::*; }";
    let expected = [
        "crate::error::Result as Result",
        "crate::store as store",
        "crate::store::A as A",
        "crate::store::B as C",
        "pub super::x::Y as Y",
        "std::fmt::Write as _",
        "self::deep as *",
    ];
    assert_eq!(leaves(text), expected);
}

#[test]
fn paths_are_found_in_macros_and_attributes_but_not_in_comments_and_strings() {
    let source = parse(
        "//! Not crate::a::A.
         /* nor crate::b::B */
         #[derive(prost::Message)]
         struct S(pub(in crate::c) u8);
         fn f() { assert!(matches!(x, crate::d::D::E { .. }), \"crate::e::E {}\", super::super::g(), 'c: 'd'); }",
    );
    let paths: Vec<String> = source.paths.iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["crate::d::D::E", "prost::Message", "super::super::g"]);
}

#[test]
fn the_parent_of_an_inline_module_is_its_file() {
    let source = parse(
        "use super::a::A;
         mod inline { use super::B; use super::super::c::C; fn f() { crate::d::d(); self::own::own(); redb::open() } }",
    );
    let uses: Vec<String> = source.uses.iter().map(|used| used.path.join("::")).collect();
    assert_eq!(uses, ["super::a::A", "self::B", "super::c::C"]);
    let paths: Vec<String> = source.paths.iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["_::own::own", "crate::d::d", "redb::open"]);
}

#[test]
fn items_for_tests_are_skipped() {
    let source = parse(
        "#[cfg(test)]
         mod tests { use crate::a::A; }
         #[cfg(test)]
         mod more;
         #[cfg(test)]
         #[allow(dead_code)]
         pub(crate) fn f<A, B>(a: A) -> B { crate::b::b() }
         #[cfg(test)]
         use crate::{c::C, d::D};
         #[cfg(all(test, unix))]
         const X: S = S { x: crate::e::X };
         struct T { #[cfg(test)] x: crate::g::G, y: crate::h::H }
         mod kept;",
    );
    assert_eq!(source.uses, []);
    assert_eq!(source.paths.into_iter().collect::<Vec<_>>(), [["crate", "h", "H"]]);
    assert_eq!(source.children.into_iter().collect::<Vec<_>>(), ["kept"]);
    assert_eq!(source.test_children.into_iter().collect::<Vec<_>>(), ["more", "tests"]);
    assert_eq!(source.defined.into_iter().collect::<Vec<_>>(), ["T"]);
}

#[test]
fn functions_of_inherent_impl_blocks_are_counted() {
    let source = parse(
        "struct A; struct B<T>(T);
         impl A { pub fn a(&self) -> impl Fn() { fn inner() {} } const fn b() {} }
         impl<T: Fn(u8) -> u8> B<T> where T: for<'a> Fn(&'a u8) -> u8 { fn a() {} }
         impl A { unsafe fn c(f: fn(u8)) {} }
         impl Drop for A { fn drop(&mut self) {} }
         fn free() -> impl Iterator<Item = u8> { fn inner() {} std::iter::empty() }",
    );
    // `inner` is in the body of a function.
    assert_eq!(source.methods.into_iter().collect::<Vec<_>>(), [("A".to_owned(), 3), ("B".to_owned(), 1)]);
}

#[test]
fn doc_comments_that_open_with_a_fragment_are_counted() {
    let source = parse(
        "//! What this file is.
         /// Whether it is open.
         pub open: bool,
         /// Whether to use this or that.
         pub choice: Choice,
         /// As a list.
         ///
         /// Of all.
         #[must_use]
         fn list(&self) -> Vec<bool>;
         /// Returns true if it is.
         pub(crate) fn is(&self) -> bool;
         /// Its length.
         pub fn len(&self) -> usize;",
    );
    assert_eq!(source.docs, Docs { all: 6, fragments: 3, public: 3, public_fragments: 1 });
}

/// A crate of the files that are given with their modules.
fn files(files: &[(&str, &str, &str)]) -> Crate {
    let mut sources = Crate::default();
    for (path, module, text) in files {
        let module = module.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        sources.add((*path).to_owned(), module, text);
    }
    sources
}

fn circles(sources: &Crate) -> Vec<Vec<String>> {
    sources.circles().into_iter().map(|circle| circle.files).collect()
}

#[test]
fn a_re_exported_name_leads_to_the_file_that_defines_it() {
    let sources = files(&[
        ("lib.rs", "", "mod a; pub use a::Part;"),
        ("a/mod.rs", "a", "mod x; mod y; mod z; pub use x::{Part, x}; pub(crate) use z::*;"),
        ("a/x.rs", "a::x", "pub struct Part; pub fn x() {} struct W(super::Global);"),
        ("a/y.rs", "a::y", "use super::Part; use crate::a; fn y() { a::x(); crate::Part::new(); }"),
        ("a/z.rs", "a::z", "pub struct Global;"),
    ]);
    let edges: Vec<Vec<usize>> = sources.edges().iter().map(|edges| edges.keys().copied().collect()).collect();
    assert_eq!(edges, [vec![], vec![], vec![4], vec![2], vec![]]);
    assert_eq!(circles(&sources), [[""; 0]; 0]);
    assert_eq!(sources.home(&sources.files[3], "Part"), "a/x.rs");
}

#[test]
fn files_that_use_each_other_are_a_circle() {
    let sources = files(&[
        ("lib.rs", "", "mod a; mod b; mod c;"),
        ("a.rs", "a", "use crate::b::B; pub struct A;"),
        ("b.rs", "b", "use crate::c; pub struct B; fn f() { vec![c::c()]; }"),
        ("c.rs", "c", "pub fn c() -> super::a::A {}"),
    ]);
    assert_eq!(circles(&sources), [["a.rs", "b.rs", "c.rs"]]);
    let edges = &sources.circles()[0].edges;
    assert_eq!(edges[1], "b.rs -> c.rs (c::c)");
}

#[test]
fn a_parent_and_a_child_are_a_circle_only_if_each_uses_the_other() {
    let circles_with = |parent: &str| {
        circles(&files(&[
            ("lib.rs", "", "mod a;"),
            ("a/mod.rs", "a", parent),
            ("a/x.rs", "a::x", "use super::A; pub struct X; impl X { pub fn new(_: A) -> X { X } }"),
        ]))
    };
    assert_eq!(circles_with("mod x; pub struct A; pub(crate) use x::X;"), [[""; 0]; 0]);
    for parent in ["use x::X;", "pub use x::X; fn f(x: X) {}", "fn f() { x::X::new(A); }", "fn f() { self::x::X; }"] {
        assert_eq!(circles_with(&format!("mod x; pub struct A; {parent}")), [["a/mod.rs", "a/x.rs"]], "{parent}");
    }
}

#[test]
fn a_module_and_an_item_of_one_name_are_told_apart() {
    let sources = files(&[
        ("lib.rs", "", "mod verify; mod user; pub use verify::verify;"),
        ("verify/mod.rs", "verify", "mod verify; pub use verify::verify;"),
        ("verify/verify.rs", "verify::verify", "pub fn verify() {}"),
        ("user.rs", "user", "use crate::verify::verify; use crate::verify as module; fn f() { module::verify() }"),
    ]);
    assert_eq!(sources.edges()[3].keys().copied().collect::<Vec<_>>(), [2]);
}

#[test]
fn the_modules_that_name_a_crate_are_found() {
    let sources = files(&[
        ("lib.rs", "", "mod a; mod b; mod c; mod half;"),
        ("a.rs", "a", "fn f() { ::redb::open(); }"),
        ("b.rs", "b", "use {redb::{self, Database}, crate::half};  fn f() { half::f16(); }"),
        ("c.rs", "c", "//! redb::Database\n#[cfg(test)] mod tests { use redb::Database; }"),
        ("half.rs", "half", ""),
    ]);
    assert_eq!(sources.naming("redb").into_iter().collect::<Vec<_>>(), ["a", "b"]);
    assert!(sources.naming("half").is_empty());
}

#[test]
fn the_table_is_made_from_the_sources() {
    let sources = files(&[
        ("lib.rs", "", "mod error; mod ids; mod store; mod new; pub use error::Error;"),
        ("error.rs", "error", "pub struct Error;"),
        ("ids.rs", "ids", "use crate::Error;"),
        ("store.rs", "store", "use crate::{Error, new::New};"),
        ("new.rs", "new", "use crate::ids; pub struct New;"),
    ]);
    let known: &[(u32, &str, &[&str], &[&str])] = &[
        (0, "error", &[], &[]),
        (0, "ids", &[], &["error"]),
        (0, "gone", &[], &[]),
        (2, "store", &["error", "ids"], &[]),
    ];
    let expected = "    (0, \"error\", &[], &[]),
    (0, \"ids\", &[], &[\"error\"]),
    (0, \"new\", &[], &[\"ids\"]),
    (2, \"store\", &[\"error\", \"new\"], &[]),
";
    assert_eq!(table(&sources.top_modules(), known).unwrap(), expected);
    assert_eq!(difference("same\nold\n", "same\nnew\n"), "-old\n+new\n");
}

#[test]
fn imports_that_go_up_or_round_are_refused() {
    let import = |error: &str, ids: &str| {
        let sources = files(&[("lib.rs", "", "mod error; mod ids;"), ("e.rs", "error", error), ("i.rs", "ids", ids)]);
        let known: &[(u32, &str, &[&str], &[&str])] = &[(0, "error", &[], &[]), (1, "ids", &[], &[])];
        table(&sources.top_modules(), known)
    };
    let up = import("use crate::ids::A;", "").unwrap_err();
    assert_eq!(up, "`error` (layer 0) imports `ids` (layer 1): imports go down");
    let round = files(&[
        ("lib.rs", "", "mod error; mod ids;"),
        ("e.rs", "error", "use crate::ids::A;"),
        ("i.rs", "ids", "use crate::error::B;"),
    ]);
    let round = table(&round.top_modules(), ROOMS).unwrap_err();
    assert!(round.contains("[\"error\", \"ids\"]"), "{round}");
}
