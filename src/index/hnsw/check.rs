//! Whether a graph is what it promises to be.

use super::graph::Graph;

impl Graph {
    /// What is wrong with the graph, a line each; nothing, if it is sound. Checks that every link leads to a row of the graph
    /// that is on its layer, none twice; that parents and children know each other; and that every row is reached.
    pub(super) fn check(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let links = &self.links;
        let mut roots = 0;
        for row in (0..links.rows() as u32).filter(|&row| links.has(row)) {
            for (layer, list) in links.lists(row) {
                for (i, &link) in list.iter().enumerate() {
                    if links.level(link).is_none_or(|level| level < layer) {
                        problems.push(format!("row {row} is linked on layer {layer} to {link}, which is not there"));
                    } else if list[..i].contains(&link) || (link == row && (layer, i) != (0, 0)) {
                        problems.push(format!("row {row} is linked on layer {layer} to {link} twice, or to itself"));
                    }
                }
            }
            match links.of(row, 0).first() {
                None => problems.push(format!("row {row} has no links")),
                Some(&parent) if parent == row => roots += 1,
                Some(&parent) if links.has(parent) && !links.of(parent, 0).contains(&row) => {
                    problems.push(format!("row {row} is not linked from its parent {parent}"));
                }
                Some(_) => {}
            }
        }
        if roots != usize::from(links.count() > 0) {
            problems.push(format!("the graph has {roots} roots"));
        }
        if problems.is_empty() && self.reached() != links.count() {
            problems.push(format!("{} of {} rows are reached", self.reached(), links.count()));
        }
        problems
    }

    /// How many rows are reached from the entry on layer 0.
    fn reached(&self) -> usize {
        let Some(entry) = self.links.entry() else { return 0 };
        let mut seen = vec![false; self.links.rows()];
        let mut queue = vec![entry];
        seen[entry as usize] = true;
        let mut count = 0;
        while let Some(row) = queue.pop() {
            count += 1;
            for &link in self.links.of(row, 0) {
                if !std::mem::replace(&mut seen[link as usize], true) {
                    queue.push(link);
                }
            }
        }
        count
    }
}
