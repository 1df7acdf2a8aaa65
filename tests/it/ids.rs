//! Names of namespaces.

use mnemon::Namespace;

#[test]
fn a_name_has_one_to_eight_parts() {
    for good in ["a", "acme/user-42", "1/2/3/4/5/6/7/8", "Ünïcode/名前", "..", "a b"] {
        assert_eq!(Namespace::new(good).unwrap().as_str(), good);
    }
    let long = "x".repeat(129);
    for bad in ["", "/", "a/", "/a", "a//b", "1/2/3/4/5/6/7/8/9", "a\nb", "a\0", long.as_str()] {
        assert!(Namespace::new(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_context_has_one_namespace_and_different_contexts_have_different_ones() {
    let of = |context: &[(&str, &str)]| Namespace::from_context(context.iter().copied()).to_string();
    assert_eq!(of(&[("b", "2"), ("a", "1")]), "a=1/b=2");
    assert_eq!(of(&[("a", "1"), ("b", "2")]), of(&[("b", "2"), ("a", "1")]));
    let different = [
        of(&[]),
        of(&[("a", "")]),
        of(&[("a", "b/c=d")]),
        of(&[("a", "b"), ("c", "d")]),
        of(&[("a", "b%2Fc")]),
        of(&[("a", "b/c")]),
        of(&[("a=b", "c")]),
        of(&[("a", "b=c")]),
        of(&[("a", "\n")]),
        of(&[("long", &"x".repeat(500))]),
        of(&[("long", &"x".repeat(501))]),
        of(&["1", "2", "3", "4", "5", "6", "7", "8", "9"].map(|key| (key, "x"))),
    ];
    let distinct: std::collections::BTreeSet<&String> = different.iter().collect();
    assert_eq!(distinct.len(), different.len(), "{different:?}");
}
