//! Storage that fails on purpose, for tests: faults of single calls, and the images that a power failure may leave.
//!
//! A test makes a [`Plan`] for a folder. Every database file that is opened in the folder from then on goes through it,
//! also the files that the store writes beside a database and renames.

mod backend;
mod images;
mod plan;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use redb::backends::FileBackend;

pub(crate) use backend::Faulty;
pub(crate) use images::{Event, Log};
pub(crate) use plan::{Fault, Plan};

static PLANS: Mutex<BTreeMap<PathBuf, Weak<Plan>>> = Mutex::new(BTreeMap::new());

/// Returns a plan for the files of a folder. It ends when the last `Arc` of it is dropped.
pub(crate) fn plan(folder: &Path) -> Arc<Plan> {
    let plan = Arc::new(Plan::default());
    let mut plans = PLANS.lock();
    plans.retain(|_, plan| plan.strong_count() > 0);
    plans.insert(folder.to_path_buf(), Arc::downgrade(&plan));
    plan
}

/// Puts the file at `path` under the plan of its folder, if there is one.
pub(crate) fn wrap(path: &Path, file: FileBackend) -> Faulty {
    let plan = path.parent().and_then(|folder| PLANS.lock().get(folder).and_then(Weak::upgrade));
    Faulty::new(path, file, plan)
}
