//! Figures about the sources, printed and not judged: `cargo test --test it --
//! the_structure_of_src_is_printed_in_figures --nocapture`.
//!
//! `MNEMON_STRUCTURE_OF=<folder>` examines another checkout, for figures before and after a change.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{command, graph::Crate, library, root, source::Docs};

#[test]
fn the_structure_of_src_is_printed_in_figures() {
    for (name, folder) in [("library", "src"), ("server", "crates/server/src"), ("command", "crates/cli/src")] {
        let folder = root().join(folder);
        let mut lines = BTreeMap::new();
        count_lines(&folder, &folder, &mut lines);
        let mut sorted: Vec<usize> = lines.values().copied().collect();
        sorted.sort_unstable();
        let (largest, count) = lines.iter().max_by_key(|(_, count)| **count).expect("there are sources");
        println!(
            "{name}: {} files, {} lines; median {} lines; largest {largest} ({count} lines)",
            sorted.len(),
            sorted.iter().sum::<usize>(),
            sorted[sorted.len() / 2],
        );
    }
    let library = library();
    println!("types with the most functions in their inherent impl blocks:");
    let mut types: Vec<_> =
        methods(&library).into_iter().map(|(key, (count, files))| (count, files.len(), key)).collect();
    types.sort_by(|a, b| b.cmp(a));
    for (count, files, (name, home)) in types.iter().take(5) {
        println!("  {name} ({home}): {count} in {files} files");
    }
    let modules = library.top_modules();
    println!(
        "modules at the top: {}; imports between them: {}",
        modules.len(),
        modules.values().map(BTreeSet::len).sum::<usize>()
    );
    println!("imports between files of the library: {}", library.edges().iter().map(BTreeMap::len).sum::<usize>());
    for (name, sources) in [("library", &library), ("command", &command())] {
        let circles = sources.circles();
        println!(
            "circles of files, {name}: {} of {} files",
            circles.len(),
            circles.iter().map(|c| c.files.len()).sum::<usize>()
        );
        let mut docs = Docs::default();
        sources.files.iter().for_each(|file| docs.add(file.source.docs));
        println!(
            "doc comments that open with a fragment, {name}: {} of {}; of `pub` items {} of {}",
            docs.fragments, docs.all, docs.public_fragments, docs.public
        );
    }
}

/// (type, file that defines it) -> (functions, files with its inherent impl blocks).
fn methods(sources: &Crate) -> BTreeMap<(String, String), (usize, BTreeSet<String>)> {
    let mut methods: BTreeMap<_, (usize, BTreeSet<String>)> = BTreeMap::new();
    for file in &sources.files {
        for (name, count) in &file.source.methods {
            let (sum, files) = methods.entry((name.clone(), sources.home(file, name).to_owned())).or_default();
            *sum += count;
            files.insert(file.path.clone());
        }
    }
    methods
}

fn count_lines(folder: &Path, src: &Path, lines: &mut BTreeMap<String, usize>) {
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("the folder is readable").path();
        if path.is_dir() {
            count_lines(&path, src, lines);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(src).expect("it is below").to_string_lossy().replace('\\', "/");
            lines.insert(name, fs::read_to_string(&path).expect("the file is readable").lines().count());
        }
    }
}
