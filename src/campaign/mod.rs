//! Faults of the storage, and power failures, at every moment of what an engine does.
//!
//! These are unit tests, because the storage that fails is no part of the public API. They reach the engine as a
//! program does. Each scenario is a list of steps; `trial` runs them with one fault and compares the answers with the
//! file, and `power` makes the files that a power failure may leave.
//!
//! `MNEMON_FAULTS` sets the number of faults of each scenario; `all` for a fault at every call. `MNEMON_IMAGES` sets
//! the number of power failures of each scenario.

mod power;
mod scenarios;
mod steps;
mod trial;

// The helpers of the integration tests, which name this crate as its users do.
#[allow(dead_code, unused_imports, clippy::field_reassign_with_default)]
#[path = "../../tests/it/support/mod.rs"]
mod support;

/// Declares a test of faults for each scenario, and one of power failures for those of the first list: the others
/// rename a file, which the storage does not see.
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
                    super::power::every_image(super::scenarios::$name());
                }
            )+
        }
    };
}

campaign! {
    [puts, flushes, blocks, deletions, forgets, documents, checkpoints, reindexing, linking, transfers, backups],
    [creation, purges, upgrade_from_1, upgrade_from_2, upgrade_from_3, upgrade_from_4, upgrade_from_5]
}
