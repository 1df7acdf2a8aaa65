//! Fuzz targets: every reader of bytes that come from a file, a user or another system.
//!
//! The variable `FUZZ_TARGET` names the target. One program has all of them, because linking each separately would take
//! longer than fuzzing it. A target fails by a panic, an overflow, an abort, or a time or memory limit of libFuzzer.

#![no_main]

mod files;
mod formats;
mod messages;
mod queries;
mod transfer;

use std::sync::OnceLock;

use libfuzzer_sys::{Corpus, fuzz_target};

type Target = fn(&[u8]);

/// The names in `corpus/`, `make fuzz` and reports.
const TARGETS: &[(&str, Target)] = &[
    ("cache_file", files::cache),
    ("exports", transfer::exports),
    ("file_formats", formats::files),
    ("filters", queries::filters),
    ("graphs", mnemon::fuzzing::graphs),
    ("histories", files::history),
    ("importers", messages::importers),
    ("manifests", mnemon::fuzzing::manifests),
    ("message_lines", messages::lines),
    ("onnx", mnemon::fuzzing::onnx),
    ("openai", messages::openai),
    ("records", mnemon::fuzzing::records),
    ("seals", messages::seals),
    ("segments", mnemon::fuzzing::segments),
    ("times", queries::times),
];

fn target() -> Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        let found = TARGETS.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("FUZZ_TARGET is {name:?}, not one of {TARGETS:?}")).1
    })
}

fuzz_target!(|data: &[u8]| -> Corpus {
    target()(data);
    Corpus::Keep
});
