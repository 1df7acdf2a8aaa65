//! Faults of the storage and power failures at every moment of what an engine does.
//!
//! These are unit tests, because the storage that fails is not part of the public API. Otherwise they use the engine as a
//! program does. A scenario is a list of steps (`scenarios`). A trial runs it with one fault, or makes the files that a
//! power failure may leave, and compares the engine's answers with the file (`trial`).
//!
//! `MNEMON_FAULTS` sets the number of faults of each scenario, or `all` for a fault at every call of the storage.
//! `MNEMON_IMAGES` sets the number of power failures of each scenario.

mod full_disk;
mod scenarios;
mod trial;

// The helpers of the integration tests, which name this crate as its users do.
#[allow(dead_code, unused_imports, clippy::field_reassign_with_default)]
#[path = "../../tests/it/support/mod.rs"]
mod support;

/// Declares a test of faults for each scenario, and a test of power failures for each scenario of the first list. The
/// others rename a file, which the storage does not see.
macro_rules! campaign {
    ([$($name:ident),+], [$($renaming:ident),+]) => {
        mod faults {
            $(
                #[test]
                fn $name() {
                    super::trial::every_fault(super::scenarios::$name());
                }
            )+
            $(
                #[test]
                fn $renaming() {
                    super::trial::every_fault(super::scenarios::$renaming());
                }
            )+
        }

        mod power_failures {
            $(
                #[test]
                fn $name() {
                    super::trial::every_image(super::scenarios::$name());
                }
            )+
        }
    };
}

campaign! {
    [puts, flushes, blocks, deletions, forgets, documents, checkpoints, reindexing, linking, transfers, backups],
    [creation, purges, upgrade_from_1, upgrade_from_2, upgrade_from_3, upgrade_from_4, upgrade_from_5]
}
