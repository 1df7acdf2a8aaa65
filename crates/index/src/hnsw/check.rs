//! Verifies the invariants of a graph.

use super::graph::Graph;

/// Describes each violated invariant in a line; a sound graph gives none. Every link leads to another row of the graph
/// that is on the same layer, and no list has a link twice; parents and children link to each other, and there is one
/// root; and every row is reachable from the entry.
pub(super) fn check(graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    let links = &graph.links;
    let mut roots = 0;
    for row in (0..links.rows() as u32).filter(|&row| links.has(row)) {
        for (layer, list) in links.lists(row) {
            for (i, &link) in list.iter().enumerate() {
                if links.level(link).is_none_or(|level| level < layer) {
                    problems
                        .push(format!("row {row} links on layer {layer} to row {link}, which is not on that layer"));
                } else if list[..i].contains(&link) || (link == row && (layer, i) != (0, 0)) {
                    problems.push(format!("row {row} links on layer {layer} to row {link} twice, or to itself"));
                }
            }
        }
        match links.of(row, 0).first() {
            None => problems.push(format!("row {row} has no links")),
            Some(&parent) if parent == row => roots += 1,
            Some(&parent) if links.has(parent) && !links.of(parent, 0).contains(&row) => {
                problems.push(format!("row {row} has no link from its parent {parent}"));
            }
            Some(_) => {}
        }
    }
    if roots != usize::from(links.count() > 0) {
        problems.push(format!("the graph has {roots} roots"));
    }
    if problems.is_empty() && reachable_rows(graph) != links.count() {
        problems.push(format!("only {} of {} rows are reachable", reachable_rows(graph), links.count()));
    }
    problems
}

/// Counts the rows that are reachable from the entry on layer 0.
fn reachable_rows(graph: &Graph) -> usize {
    let Some(entry) = graph.links.entry() else { return 0 };
    let mut seen = vec![false; graph.links.rows()];
    let mut queue = vec![entry];
    seen[entry as usize] = true;
    let mut count = 0;
    while let Some(row) = queue.pop() {
        count += 1;
        for &link in graph.links.of(row, 0) {
            if !std::mem::replace(&mut seen[link as usize], true) {
                queue.push(link);
            }
        }
    }
    count
}
