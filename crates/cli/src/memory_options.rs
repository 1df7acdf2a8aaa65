//! The command line option of the memory budget.

use mnemon::Config;

#[derive(clap::Args)]
pub(crate) struct MemoryOptions {
    /// Memory that loaded namespaces may take together, in bytes; those that were not used for the longest time are
    /// unloaded. Default: 1 GiB.
    #[arg(long, value_name = "BYTES")]
    memory_budget: Option<usize>,
}

impl MemoryOptions {
    /// Sets the budget in the settings of an engine, if the option was given.
    pub(crate) fn set(&self, config: &mut Config) {
        config.memory_budget = self.memory_budget.unwrap_or(config.memory_budget);
    }
}
