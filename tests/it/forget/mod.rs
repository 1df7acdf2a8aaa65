//! `Engine::forget`, its receipts and legal holds. That no byte is left in the records is proven in
//! `src/forget_proof.rs`.

mod answers;
mod at_work;
mod audit;
mod blocks;
mod cache;
mod collections;
mod holds;
mod kills;
mod model;
mod numbers;

use mnemon::{Engine, Forget, Forgotten, Namespace, Receipt};

use crate::support::namespace;

const SPACE: &str = "acme/user-42";

fn space() -> Namespace {
    namespace(SPACE)
}

fn forget(engine: &Engine, what: Forget) -> Forgotten {
    receipt(engine, what).forgotten()
}

fn receipt(engine: &Engine, what: Forget) -> Receipt {
    engine.blocking().forget(what).unwrap()
}
