//! Rollback to the previous generation.

use mnemon::{
    Error,
    GenerationState::{Building, Previous, Serving},
    ReindexOptions,
};

use super::{fill, filled, found, generations, hashing, open, untried};
use crate::support::{Db, go_on, message, namespace, stop_after};

#[test]
fn there_and_back_with_what_came_between() {
    let db = Db::new();
    let engine = open(&db, 32);
    fill(&engine, 600);
    let blocking = engine.blocking();
    assert!(blocking.reindex(hashing(48), ReindexOptions::default(), go_on).unwrap().switched);
    let space = namespace("a");
    blocking.put(&space, vec![message("new", "new"), message("m7", "changed")]).unwrap();
    blocking.delete(&space, vec!["m8".into()]).unwrap();
    blocking.flush().unwrap();
    let check = |engine: &mnemon::Engine| {
        assert_eq!(found(engine, "a", "new").as_deref(), Some("new"));
        assert_eq!(found(engine, "a", "changed").as_deref(), Some("m7"));
        assert_eq!((found(engine, "a", "word7 a"), found(engine, "a", "word8 a")), (None, None));
        assert_eq!(found(engine, "b", "word8 b").as_deref(), Some("m8"));
    };
    check(&engine);
    let back = blocking.rollback(hashing(32), go_on).unwrap();
    assert_eq!((back.switched, back.embedded, back.resumed), (true, 2, 1198));
    assert_eq!(engine.model().dimension, 32);
    check(&engine);
    // And forth.
    assert_eq!(blocking.rollback(hashing(48), go_on).unwrap().embedded, 0);
    check(&engine);
    blocking.put(&space, vec![message("later", "later")]).unwrap();
    drop(engine);
    db.assert_sound();
    assert_eq!(generations(&db), [(32, Previous), (48, Serving)]);
    // Without an engine.
    let back = mnemon::rollback(&db.path, hashing(32), go_on).unwrap();
    assert!(back.switched && back.embedded == 1, "{back:?}");
    assert_eq!(generations(&db), [(32, Serving), (48, Previous)]);
    assert!(matches!(db.try_open_with(hashing(48)), Err(Error::ModelMismatch { .. })));
    let engine = open(&db, 32);
    check(&engine);
    assert_eq!(found(&engine, "a", "later").as_deref(), Some("later"));
    drop(engine);
    db.assert_sound();
}

#[test]
fn what_is_not_kept_cannot_serve_again() {
    let db = filled(200);
    let engine = db.open();
    let blocking = engine.blocking();
    let refused = |dimension: usize| match blocking.rollback(hashing(dimension), go_on).unwrap_err() {
        Error::NoPrevious { kept, .. } => kept,
        other => panic!("{other}"),
    };
    assert_eq!(refused(32), None);
    assert!(!blocking.drop_previous().unwrap());
    blocking.reindex(hashing(48), untried(), go_on).unwrap();
    assert!(refused(64).unwrap().starts_with("hashing (32 dimensions"));
    assert!(blocking.drop_previous().unwrap());
    assert_eq!(refused(32), None);
    let mut options = untried();
    options.keep_previous = false;
    blocking.reindex(hashing(64), options.clone(), go_on).unwrap();
    assert_eq!(refused(48), None);
    drop(engine);
    assert_eq!(db.assert_sound().vectors, 400);
    // The next reindex drops it when it begins.
    let engine = db.open_with(hashing(64));
    let blocking = engine.blocking();
    blocking.reindex(hashing(32), untried(), go_on).unwrap();
    blocking.reindex(hashing(48), untried(), stop_after(1)).unwrap();
    assert!(matches!(blocking.rollback(hashing(64), go_on), Err(Error::NoPrevious { kept: None, .. })));
    drop(engine);
    assert_eq!(generations(&db), [(32, Serving), (48, Building)]);
    db.assert_sound();
}

/// A reindex to the previous generation's model goes on with what that has.
#[test]
fn a_reindex_to_the_previous_model_embeds_what_came_since() {
    let db = filled(200);
    let engine = db.open();
    let blocking = engine.blocking();
    blocking.reindex(hashing(48), untried(), go_on).unwrap();
    blocking.put(&namespace("a"), vec![message("new", "new")]).unwrap();
    let report = blocking.reindex(hashing(32), ReindexOptions::default(), go_on).unwrap();
    assert_eq!((report.switched, report.resumed, report.embedded), (true, 400, 1));
    assert_eq!(blocking.pending().unwrap(), 0);
    drop(engine);
    assert_eq!(generations(&db), [(32, Serving), (48, Previous)]);
    assert!(mnemon::drop_previous(&db.path).unwrap() && !mnemon::drop_previous(&db.path).unwrap());
    assert_eq!(db.assert_sound().vectors, 401);
}

/// A text that the previous model cannot embed stays pending, and does not prevent the rollback.
#[test]
fn a_text_that_the_previous_model_does_not_take_stays_pending() {
    let db = filled(50);
    let engine = db.open();
    engine.blocking().reindex(hashing(48), untried(), go_on).unwrap();
    engine.blocking().put(&namespace("a"), vec![message("odd", "odd"), message("new", "new")]).unwrap();
    engine.blocking().flush().unwrap();
    let mut poisoned = crate::support::Hashing::new(32);
    poisoned.poison = Some("odd");
    let report = engine.blocking().rollback(std::sync::Arc::new(poisoned), go_on).unwrap();
    assert_eq!((report.switched, report.embedded, engine.blocking().pending().unwrap()), (true, 1, 1));
    assert_eq!(found(&engine, "a", "new").as_deref(), Some("new"));
    drop(engine);
    db.assert_sound();
}

/// A model that embeds nothing does not serve, however little waits for it.
#[test]
fn a_previous_model_that_fails_does_not_serve() {
    let db = filled(50);
    let engine = db.open();
    engine.blocking().reindex(hashing(48), untried(), go_on).unwrap();
    let broken = hashing(32);
    broken.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    for _ in 0..2 {
        let error = engine.blocking().rollback(broken.clone(), go_on).unwrap_err();
        assert!(matches!(error, Error::Embedding { .. }), "{error}");
        assert_eq!(engine.model().dimension, 48);
        engine.blocking().put(&namespace("a"), vec![message("new", "new")]).unwrap();
        engine.blocking().flush().unwrap();
    }
}
