//! Names of namespaces.

use mnemon::{Error, Namespace};
use proptest::prelude::*;

fn labels(namespace: &Namespace) -> Vec<String> {
    namespace.labels().map(|label| label.into_owned()).collect()
}

#[test]
fn a_name_has_one_to_sixteen_labels() {
    let (sixteen, longest) = (["x"; 16].join("/"), "é".repeat(256));
    for good in ["a", "acme/user-42", "Ünïcode/名前", "..", "a b", "50%", "a.b@c.de", &*sixteen, &*longest] {
        assert_eq!(Namespace::new(good).unwrap().as_str(), good);
        assert_eq!(labels(&Namespace::new(good).unwrap()), good.split('/').collect::<Vec<_>>());
    }
    let (seventeen, long) = (["x"; 17].join("/"), "x".repeat(513));
    for (bad, reason) in [
        ("", "it is empty"),
        ("/", "a label is empty"),
        ("a/", "a label is empty"),
        ("/a", "a label is empty"),
        ("a//b", "a label is empty"),
        (&*seventeen, "it has more than 16 labels"),
        ("a\nb", "it has a control character"),
        ("a\0", "it has a control character"),
        (&*long, "a label is longer than 512 bytes"),
    ] {
        let error = Namespace::new(bad).unwrap_err();
        assert!(matches!(error, Error::InvalidNamespace { reason: found, .. } if found == reason), "{bad:?}: {error}");
    }
}

#[test]
fn labels_are_any_text_and_a_slash_in_one_is_escaped() {
    for (given, text) in [
        (&["users", "a/b"][..], "users/a%2Fb"),
        (&["a%2Fb"], "a%252Fb"),
        (&["a%252Fb", "%"], "a%25252Fb/%"),
        (&["100%", "%25", "%2f", "%2"], "100%/%25/%2f/%2"),
        (&["%/"], "%%2F"),
    ] {
        let namespace = Namespace::from_labels(given).unwrap();
        assert_eq!((namespace.as_str(), labels(&namespace)), (text, given.iter().map(ToString::to_string).collect()));
    }
    for bad in [&[][..], &[""], &["a", ""], &["a\tb"], &["x"; 17]] {
        assert!(matches!(Namespace::from_labels(bad), Err(Error::InvalidNamespace { .. })), "{bad:?}");
    }
    // The limit is of the label, not of its escaped text.
    assert!(Namespace::from_labels(["/".repeat(512)]).is_ok() && Namespace::from_labels(["/".repeat(513)]).is_err());
}

#[test]
fn a_prefix_has_whole_labels() {
    let namespace = |text: &str| text.parse::<Namespace>().unwrap();
    for (name, prefix, wanted) in [
        ("acme/user-42", "acme", true),
        ("acme/user-42", "acme/user-42", true),
        ("acme/user-42", "acme/user-4", false),
        ("acme", "acme/user-42", false),
        ("acme%2Fuser", "acme", false),
    ] {
        assert_eq!(namespace(name).starts_with(&namespace(prefix)), wanted, "{name} {prefix}");
    }
}

proptest! {
    #[test]
    fn labels_and_text_are_one_to_one(
        given in prop::collection::vec("[%25Ff/ .\\PC]{1,12}", 1..=16),
        text in "[%25Ff .é]{1,12}(/[%25Ff .é]{1,12}){0,15}",
    ) {
        let namespace = Namespace::from_labels(&given).unwrap();
        prop_assert_eq!(&labels(&namespace), &given);
        prop_assert_eq!(&namespace.to_string().parse::<Namespace>().unwrap(), &namespace);
        let parsed: Namespace = text.parse().unwrap();
        prop_assert_eq!(Namespace::from_labels(parsed.labels()).unwrap().to_string(), text);
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

/// Databases of older versions have these names.
#[test]
fn a_context_keeps_the_namespace_that_older_versions_gave_it() {
    let of = |context: &[(&str, &str)]| Namespace::from_context(context.iter().copied()).to_string();
    assert_eq!(of(&[("a", "50%/x"), ("b", "c=d")]), "a=50%25%2Fx/b=c%3Dd");
    assert_eq!(
        of(&["1", "2", "3", "4", "5", "6", "7", "8", "9"].map(|key| (key, "x"))),
        "context/a19c12b21101f8ae94ec322e7d6a35e84963d085cf15fe65c01255a5bc020796"
    );
    assert_eq!(
        of(&[("long", &"x".repeat(124))]),
        "context/0231812398e4f852e08416b1c90568181b5a62a4b682895f6c04715480aca38b"
    );
}
