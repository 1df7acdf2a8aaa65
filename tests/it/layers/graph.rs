//! The graph of a crate's source files: which file uses an item that another file defines.
//!
//! A name that a module re-exports leads to the file that defines the item. `mod child;` and `pub use child::Item;`
//! make no edge by themselves: a `mod.rs` depends on a child only if its own code uses the child. Calls of methods make
//! no edge, since the types of their receivers are not known here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::source::{Source, Use, parse};

/// The source files of one crate.
#[derive(Debug, Default)]
pub(super) struct Crate {
    pub(super) files: Vec<File>,
    /// Path of a module (`["engine", "search"]`; empty for the root) -> index of its file.
    modules: BTreeMap<Vec<String>, usize>,
}

#[derive(Debug)]
pub(super) struct File {
    /// Relative to the folder of the crate's root, with `/`.
    pub(super) path: String,
    pub(super) module: Vec<String>,
    pub(super) source: Source,
}

impl File {
    /// The name of the module at the top of the crate that this file belongs to; empty for the root.
    pub(super) fn top(&self) -> &str {
        self.module.first().map_or("", String::as_str)
    }
}

impl Crate {
    /// Reads the file of the crate's root and the files of its modules, those for tests excepted.
    pub(super) fn read(root: &Path) -> Crate {
        let folder = root.parent().expect("the root is in a folder");
        let mut result = Crate::default();
        let mut waiting = vec![(Vec::new(), root.to_path_buf())];
        while let Some((module, path)) = waiting.pop() {
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let relative = path.strip_prefix(folder).expect("modules are below the root's folder");
            let file = relative.to_string_lossy().replace('\\', "/");
            for child in result.add(file, module.clone(), &text) {
                let child: Vec<String> = module.iter().cloned().chain([child]).collect();
                let stem = folder.join(child.join("/"));
                let path = [stem.with_extension("rs"), stem.join("mod.rs")].into_iter().find(|path| path.exists());
                waiting.push((child, path.unwrap_or_else(|| panic!("no file for the module {}", stem.display()))));
            }
        }
        result
    }

    /// Adds a file and returns the names of its child modules.
    pub(super) fn add(&mut self, path: String, module: Vec<String>, text: &str) -> Vec<String> {
        let source = parse(text);
        let children = source.children.iter().cloned().collect();
        self.modules.insert(module.clone(), self.files.len());
        self.files.push(File { path, module, source });
        children
    }

    /// Module at the top -> modules at the top that its files name.
    pub(super) fn top_modules(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for file in self.files.iter().filter(|file| !file.module.is_empty()) {
            let imported = edges.entry(file.top().to_owned()).or_default();
            let uses = file.source.uses.iter().map(|used| &used.path);
            for path in uses.chain(&file.source.paths).filter_map(|path| self.absolute(file, path)) {
                // A name that the root re-exports (`crate::Engine`) belongs to its module.
                let path = match self.modules.contains_key(&path[..1]) {
                    true => path,
                    false => self.bound(&self.files[0], &path[0]).unwrap_or_default(),
                };
                if let Some(module) = path.first().filter(|module| *module != file.top()) {
                    imported.insert(module.clone());
                }
            }
        }
        edges
    }

    /// Modules at the top that name the external crate `name`; the root is `lib`.
    pub(super) fn naming(&self, name: &str) -> BTreeSet<String> {
        let names = |file: &&File| {
            let uses = file.source.uses.iter().map(|used| &used.path);
            uses.chain(&file.source.paths).any(|path| path[0] == name)
                && self.absolute(file, &[name.to_owned()]).is_none()
        };
        let top = |file: &File| if file.module.is_empty() { "lib".to_owned() } else { file.top().to_owned() };
        self.files.iter().filter(names).map(top).collect()
    }

    /// For each file, the files whose items it uses, each with one of the paths by which it does.
    pub(super) fn edges(&self) -> Vec<BTreeMap<usize, String>> {
        self.files
            .iter()
            .enumerate()
            .map(|(at, file)| {
                let mut edges = BTreeMap::new();
                let mut add = |path: Vec<String>| {
                    if let Some(target) = self.definition(&path, 0).filter(|target| *target != at) {
                        edges.entry(target).or_insert_with(|| path.join("::"));
                    }
                };
                for used in &file.source.uses {
                    let Some(path) = self.absolute(file, &used.path) else { continue };
                    let names = &file.source.identifiers;
                    match &used.name {
                        Some(name) if used.exported && !names.contains(name) => {}
                        Some(_) => add(path),
                        None => {
                            for name in names.iter().filter(|name| self.offers(&path, name)) {
                                add(path.iter().chain([name]).cloned().collect());
                            }
                        }
                    }
                }
                file.source.paths.iter().filter_map(|path| self.absolute(file, path)).for_each(add);
                edges
            })
            .collect()
    }

    /// Groups of files that use each other, directly or through others, each with the edges in it.
    pub(super) fn circles(&self) -> Vec<Circle> {
        let edges = self.edges();
        let reached: Vec<BTreeSet<usize>> = (0..edges.len()).map(|from| reachable(&edges, from)).collect();
        let mut circles: Vec<Circle> = Vec::new();
        for (at, reaches) in reached.iter().enumerate().filter(|(at, reaches)| reaches.contains(at)) {
            let members: Vec<usize> = reaches.iter().copied().filter(|other| reached[*other].contains(&at)).collect();
            if members.first() != Some(&at) {
                continue;
            }
            let name = |file: usize| self.files[file].path.clone();
            let inside = members.iter().flat_map(|from| {
                let edges = edges[*from].iter().filter(|(to, _)| members.contains(to));
                edges.map(|(to, path)| format!("{} -> {} ({path})", name(*from), name(*to)))
            });
            let edges = inside.collect();
            let mut files: Vec<String> = members.iter().map(|file| name(*file)).collect();
            files.sort();
            circles.push(Circle { files, edges });
        }
        circles.sort_by(|a, b| a.files.cmp(&b.files));
        circles
    }

    /// The file that defines the type `name`, as `file` sees it.
    pub(super) fn home<'a>(&'a self, file: &'a File, name: &str) -> &'a str {
        let path = file.module.iter().cloned().chain([name.to_owned()]).collect::<Vec<_>>();
        self.definition(&path, 0).map_or(&file.path, |at| &self.files[at].path)
    }

    /// The path from the crate's root, without the word `crate`; `None` if it does not lead into this crate.
    fn absolute(&self, file: &File, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let mut module = file.module.clone();
        match first.as_str() {
            "crate" => module.clear(),
            "self" => {}
            "super" => {
                module.pop();
                let more = rest.iter().take_while(|segment| *segment == "super").count();
                module.truncate(module.len().saturating_sub(more));
                module.extend_from_slice(&rest[more..]);
                return Some(module).filter(|path| !path.is_empty());
            }
            name if file.source.children.contains(name) => module.push(first.clone()),
            name => module = self.bound(file, name)?,
        }
        module.extend_from_slice(rest);
        Some(module).filter(|path| !path.is_empty())
    }

    /// The absolute path of a name that a `use` of the file binds.
    fn bound(&self, file: &File, name: &str) -> Option<Vec<String>> {
        let used = file.source.uses.iter().find(|used| used.name.as_deref() == Some(name))?;
        // `use other_crate;` binds its own first segment.
        if used.path.first().is_some_and(|first| first == name) && !file.source.children.contains(name) {
            return None;
        }
        self.absolute(file, &used.path)
    }

    /// The file that defines the item at an absolute path; `None` for a module.
    fn definition(&self, path: &[String], depth: usize) -> Option<usize> {
        assert!(depth < 20, "the re-exports of {path:?} go round in a circle");
        let mut module = Vec::new();
        for (at, segment) in path.iter().enumerate() {
            let here = self.modules[&module];
            let file = &self.files[here];
            let below: Vec<String> = module.iter().cloned().chain([segment.clone()]).collect();
            let is_last = at + 1 == path.len();
            if self.modules.contains_key(&below) && !(is_last && self.has_item(file, segment)) {
                module = below;
                continue;
            }
            if file.source.defined.contains(segment) {
                return Some(here);
            }
            if let Some(bound) = self.bound(file, segment) {
                let further: Vec<String> = bound.iter().chain(&path[at + 1..]).cloned().collect();
                return self.definition(&further, depth + 1);
            }
            let globs = file.source.uses.iter().filter(|used| used.name.is_none());
            for glob in globs.filter_map(|used| self.absolute(file, &used.path)) {
                if self.offers(&glob, segment) {
                    let further: Vec<String> = glob.iter().chain(&path[at..]).cloned().collect();
                    return self.definition(&further, depth + 1);
                }
            }
            // Defined by a macro.
            return Some(here);
        }
        None
    }

    /// True if the file defines or re-exports an item of this name; modules are none.
    fn has_item(&self, file: &File, name: &str) -> bool {
        let is_item = |used: &&Use| used.name.as_deref() == Some(name) && used.path.len() > 1;
        file.source.defined.contains(name) || file.source.uses.iter().any(|used| is_item(&used))
    }

    /// True if the module at this path defines or binds the name.
    fn offers(&self, module: &[String], name: &str) -> bool {
        self.modules.get(module).is_some_and(|at| {
            let source = &self.files[*at].source;
            source.defined.contains(name) || source.uses.iter().any(|used| used.name.as_deref() == Some(name))
        })
    }
}

/// Files that use each other.
#[derive(Debug)]
pub(super) struct Circle {
    pub(super) files: Vec<String>,
    /// `a.rs -> b.rs (path)` for each use of one of them in another.
    pub(super) edges: Vec<String>,
}

/// The files that lead on from `from` over one edge or more.
fn reachable(edges: &[BTreeMap<usize, String>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(at) = waiting.pop() {
        waiting.extend(edges[at].keys().copied().filter(|next| reached.insert(*next)));
    }
    reached
}
