//! `mnemon bench`: a measurement is a subcommand, in a file or folder of its own.

mod ann;
mod backup;
mod documents;
mod embed;
mod encryption;
mod filters;
mod flush;
mod fresh;
mod import;
mod memory;
mod recall;
mod reindex;
#[cfg(feature = "serve")]
mod serve;
mod setup;
mod users;

use clap::Subcommand;

use crate::{output::Format, usage::Status};

/// Measure speed, memory and recall on this machine; prints JSON.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Recall against queries per second of the vector indexes, on vectors in files. Prints a table, or JSON with
    /// --format json.
    ///
    /// Each index is built and queried in a process of its own, so that memory can be attributed to it.
    Ann(ann::Args),
    /// The longest time that a put waits while the database is copied to a backup, and while it is purged; the cost of
    /// forgetting a message.
    Backup(backup::Args),
    /// Documents: durable puts beside those of messages, batches, gets, searches by query and by filter, listings.
    Documents(documents::Args),
    /// Texts per second and query latency of embedding models, beside fastembed and figures of other programs. Prints a
    /// table, or JSON with --format json.
    ///
    /// Each model is measured in a process of its own.
    Embed(embed::Args),
    /// The cost of encryption: puts, ingest, recalls, openings and file size of a plain and an encrypted database, and
    /// their ratios. The databases are in the temporary folder: let $TMPDIR be on the disk that matters.
    Encryption(encryption::Args),
    /// Recall latency with filters on metadata that match from half of the messages to one in a thousand, and the
    /// recall of the graph with them.
    Filters(filters::Args),
    /// Durable ingest: put in batches, embed, commit, index.
    Flush(flush::Args),
    /// How soon a message is recalled after it was put: by its words, and by meaning.
    Fresh(fresh::Args),
    /// Reading of files of other programs, without storing what they say: MB and messages per second, and memory.
    Import(import::Args),
    /// A session's memory: durable puts one by one and from 8 threads, and prompts with 4 blocks and 200 recent
    /// messages.
    Memory(memory::Args),
    /// Recall latency with the embedding of the query, and the sizes of the stored data.
    Recall(recall::Args),
    /// A reindex to another model and a rollback beside running recalls and puts: rates, latencies, failures and
    /// missing hits.
    Reindex(reindex::Args),
    /// Recalls and puts of `mnemon serve` beside the same of the library: latency, rates, and their ratios. Needs wrk.
    #[cfg(feature = "serve")]
    Serve(serve::Args),
    /// Not in this build: recalls and puts of `mnemon serve` beside the same of the library.
    #[cfg(not(feature = "serve"))]
    Serve(crate::usage::Missing),
    /// Very many namespaces under a memory budget: ingest, recalls of random users, loads, memory, file size.
    Users(users::Args),
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    match args.bench {
        Bench::Ann(args) => ann::run(&args, format)?,
        Bench::Backup(args) => backup::run(&args)?,
        Bench::Documents(args) => documents::run(&args)?,
        Bench::Embed(args) => embed::run(&args, format)?,
        Bench::Encryption(args) => encryption::run(&args)?,
        Bench::Filters(args) => filters::run(&args)?,
        Bench::Flush(args) => flush::run(&args)?,
        Bench::Fresh(args) => fresh::run(&args)?,
        Bench::Import(args) => import::run(&args)?,
        Bench::Memory(args) => memory::run(&args)?,
        Bench::Recall(args) => recall::run(&args)?,
        Bench::Reindex(args) => reindex::run(&args)?,
        #[cfg(feature = "serve")]
        Bench::Serve(args) => serve::run(&args)?,
        #[cfg(not(feature = "serve"))]
        Bench::Serve(_) => return Err(crate::usage::missing("bench serve", &[]).into()),
        Bench::Users(args) => users::run(&args)?,
    }
    Ok(Status::SUCCESS)
}
