//! Opens databases as the options of all commands say: with the key of --key-file, and as replicas of the database of
//! --shared.
//!
//! These options are kept for the whole process, so that callers name the path alone. Some commands open a database with
//! its model, others without, to look up or delete what is stored.

use std::{
    num::NonZeroU16,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use anyhow::{Context, bail};
#[cfg(feature = "postgres")]
use mnemon::Freshness;
use mnemon::{
    Config, CrossEncoder, DatabaseFile, Device, Embedder, EncryptionKey, Engine, EngineBuilder, Error, Model,
    ModelIdentity, Namespace, OnnxEmbedder, OnnxOptions, SessionInfo, models::GivenVectors,
};

const KEY_VARIABLE: &str = "MNEMON_KEY";
const SHARED_VARIABLE: &str = "MNEMON_SHARED";
/// The beginning of the name of a model whose vectors the clients of the database make.
const GIVEN: &str = "given:";

static KEY_FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
static KEY: OnceLock<Option<EncryptionKey>> = OnceLock::new();
static SHARED: OnceLock<Option<String>> = OnceLock::new();
#[cfg(feature = "postgres")]
static FRESHNESS: OnceLock<Freshness> = OnceLock::new();

/// Sets the file of the key, once. It is read when a database is opened.
pub(crate) fn set_key_file(file: Option<PathBuf>) {
    let _ = KEY_FILE.set(file);
}

/// Returns the file of the key, if --key-file was given.
#[cfg(all(feature = "serve", unix))]
pub(crate) fn key_file() -> Option<&'static Path> {
    KEY_FILE.get().and_then(Option::as_deref)
}

/// Returns the key of --key-file, or else of $MNEMON_KEY, if there is one.
///
/// # Errors
/// The key cannot be read. A variable that is set and empty is no key: a database without encryption would be created.
pub(crate) fn key() -> mnemon::Result<Option<EncryptionKey>> {
    if let Some(read) = KEY.get() {
        // Not from the file again, which may be a pipe.
        return Ok(read.clone());
    }
    let key = match KEY_FILE.get() {
        Some(Some(file)) => Some(EncryptionKey::from_file(file)?),
        _ if std::env::var_os(KEY_VARIABLE).is_some() => Some(EncryptionKey::from_env(KEY_VARIABLE)?),
        _ => None,
    };
    Ok(KEY.get_or_init(|| key).clone())
}

/// Returns a closed database, with the key.
pub(crate) fn file(path: &Path) -> mnemon::Result<DatabaseFile> {
    let database = DatabaseFile::new(path);
    Ok(match key()? {
        Some(key) => database.encryption_key(key),
        None => database,
    })
}

/// Returns the default settings of an engine, with the key.
pub(crate) fn config() -> mnemon::Result<Config> {
    let mut config = Config::default();
    config.encryption_key = key()?;
    Ok(config)
}

/// Sets the address of the shared database and the freshness of its replica, once. The address is that of --shared, or
/// else of $MNEMON_SHARED.
#[cfg(feature = "postgres")]
pub(crate) fn set_shared(given: Option<String>, freshness: Freshness) {
    let variable = || std::env::var(SHARED_VARIABLE).ok().filter(|address| !address.is_empty());
    let _ = SHARED.set(given.or_else(variable));
    let _ = FRESHNESS.set(freshness);
}

/// Refuses a shared database in a build without the feature `postgres`, which would use the file alone, without a word.
#[cfg(not(feature = "postgres"))]
pub(crate) fn refuse_shared(is_given: bool, has_freshness: bool) -> Result<(), crate::usage::UsageError> {
    let is_set = std::env::var_os(SHARED_VARIABLE).is_some_and(|address| !address.is_empty());
    let given = [(is_given, "--shared"), (has_freshness, "--freshness"), (is_set, SHARED_VARIABLE)];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, name)) => Err(crate::usage::missing(name, &[])),
        None => Ok(()),
    }
}

#[cfg(feature = "postgres")]
pub(crate) fn parse_freshness(text: &str) -> Result<Freshness, String> {
    match text {
        "latest" => Ok(Freshness::Latest),
        "local" => Ok(Freshness::Local),
        seconds => {
            let time = seconds.parse().ok().and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
            time.map(Freshness::Within).ok_or_else(|| "neither latest, local nor a number of seconds".to_owned())
        }
    }
}

/// Returns the freshness as --freshness takes it.
#[cfg(all(feature = "serve", feature = "postgres", unix))]
pub(crate) fn freshness() -> Option<String> {
    Some(match FRESHNESS.get()? {
        Freshness::Local => "local".to_owned(),
        Freshness::Within(limit) => limit.as_secs_f64().to_string(),
        _ => "latest".to_owned(),
    })
}

/// Returns the address of the shared database, if there is one.
pub(crate) fn shared_address() -> Option<&'static str> {
    SHARED.get().and_then(Option::as_deref)
}

/// Makes the engine one with a replica of the shared database, if there is one.
fn replica(builder: EngineBuilder) -> EngineBuilder {
    #[cfg(feature = "postgres")]
    if let Some(address) = shared_address() {
        return builder.shared(address).freshness(FRESHNESS.get().copied().unwrap_or(Freshness::Latest));
    }
    builder
}

/// Opens the file as a replica of the shared database, or returns `None` if there is none. The file is created if it is
/// missing. Pending messages stay pending.
pub(crate) fn open_replica(db: &Path) -> anyhow::Result<Option<Engine>> {
    if shared_address().is_none() {
        return Ok(None);
    }
    Ok(Some(replica(Engine::builder(db).config(config()?.drain_on_open(false))).open()?))
}

/// Brings a replica up to date, before a command that reads its file alone: the namespaces under this one, or all. Does
/// nothing without a shared database.
pub(crate) fn refresh(db: &Path, namespace: Option<&Namespace>) -> anyhow::Result<()> {
    if let Some(engine) = open_replica(db)? {
        engine.blocking().count_namespaces(namespace)?;
    }
    Ok(())
}

/// Opens a model by its folder or name. Default number of threads: the machine's cores.
pub(crate) fn embedder(model: &str, device: &Device, threads: Option<usize>) -> anyhow::Result<OnnxEmbedder> {
    let mut options = OnnxOptions::default();
    options.device = device.clone();
    options.threads = threads.unwrap_or(options.threads);
    Ok(OnnxEmbedder::open(Model::find(model)?, options)?)
}

/// Opens what makes the vectors of a database: a model by its folder or name, or nothing for `given:NAME:DIMENSION`.
pub(crate) fn vectors_of(model: &str, device: &Device, threads: Option<usize>) -> anyhow::Result<Arc<dyn Embedder>> {
    let Some(given) = given_vectors(model)? else { return Ok(Arc::new(embedder(model, device, threads)?)) };
    Ok(Arc::new(given))
}

/// Reads `given:NAME:DIMENSION`. Returns `None` for another name.
fn given_vectors(model: &str) -> anyhow::Result<Option<GivenVectors>> {
    let Some(given) = model.strip_prefix(GIVEN) else { return Ok(None) };
    let (name, dimension) = given.rsplit_once(':').unwrap_or_default();
    match dimension.parse::<NonZeroU16>() {
        Ok(dimension) if !name.is_empty() => Ok(Some(GivenVectors::new(name, dimension.get().into()))),
        _ => bail!(
            "{model:?} is no name of given vectors; write given:NAME:DIMENSION with the name of the model that makes them and a \
             dimension from 1 to 65535, such as given:my-model:1536"
        ),
    }
}

/// Returns the name of a model as [`vectors_of`] takes it.
pub(crate) fn model_name(model: &ModelIdentity) -> String {
    match model.is_given() {
        true => format!("{GIVEN}{}:{}", model.name, model.dimension),
        false => model.name.clone(),
    }
}

/// Prepares an engine with the given model, or else the database's own, on a file that is no replica.
pub(crate) fn unshared(db: &Path, model: Option<&str>, config: Config, create: bool) -> anyhow::Result<EngineBuilder> {
    let mut builder = Engine::builder(db).create(create);
    if let Some(name) = model {
        builder = builder.embedder(vectors_of(name, &config.device, Some(config.threads))?);
    }
    Ok(builder.config(config))
}

/// Prepares an engine with the given model, or else the database's own.
fn builder(db: &Path, model: Option<&str>, config: Config, create: bool) -> anyhow::Result<EngineBuilder> {
    // A replica can always be created.
    Ok(replica(unshared(db, model, config, create || shared_address().is_some())?))
}

/// Opens an engine with the given model, or else the database's own.
pub(crate) fn engine(db: &Path, model: Option<&str>, config: Config, create: bool) -> anyhow::Result<Engine> {
    Ok(builder(db, model, config, create)?.open()?)
}

/// Prepares an engine for recalls, with the cross-encoder in the folder `rerank` if one is given. Pending messages stay
/// pending.
pub(crate) fn for_recall(
    db: &Path,
    model: Option<&str>,
    rerank: Option<&Path>,
    config: &Config,
) -> anyhow::Result<EngineBuilder> {
    with_reranker(builder(db, model, config.clone().drain_on_open(false), false)?, rerank)
}

/// Adds the cross-encoder in a folder.
fn with_reranker(builder: EngineBuilder, folder: Option<&Path>) -> anyhow::Result<EngineBuilder> {
    let Some(folder) = folder else { return Ok(builder) };
    Ok(builder.reranker(Arc::new(CrossEncoder::open(folder)?)))
}

/// Opens or creates the engine of a server, with the cross-encoder in the folder `rerank` if one is given.
#[cfg(feature = "serve")]
pub(crate) fn to_serve(
    db: &Path,
    model: Option<&str>,
    rerank: Option<&Path>,
    config: Config,
) -> anyhow::Result<Engine> {
    Ok(with_reranker(builder(db, model, config, true)?, rerank)?.open()?)
}

/// Opens an engine for reading, if that is possible, so that another process may have the database open for writing.
/// Recalls in these namespaces are possible then. `builder` may be called twice.
pub(crate) fn open_to_read(
    builder: impl Fn() -> anyhow::Result<EngineBuilder>,
    namespaces: &[Namespace],
) -> anyhow::Result<Engine> {
    let readable = |engine: Engine| {
        let mut named = namespaces.iter();
        named.try_for_each(|namespace| engine.blocking().index_stats(namespace).map(drop)).map(|()| engine.clone())
    };
    let prepared = builder()?;
    // A replica is written to when others changed the shared database.
    let opened = if shared_address().is_some() { prepared.open() } else { prepared.open_read_only() };
    match opened.and_then(readable) {
        // The process that wrote last was killed, or is of an older version.
        Err(Error::WriteAccessNeeded { .. }) => Ok(builder()?.open()?),
        opened => Ok(opened?),
    }
}

/// The options that say which database and namespace a command works on.
#[derive(clap::Args)]
pub(crate) struct Location {
    /// The database.
    #[arg(long, value_name = "FILE")]
    pub(crate) db: PathBuf,
    /// The namespace.
    #[arg(long, value_name = "NS")]
    pub(crate) namespace: Namespace,
}

impl Location {
    /// Opens the database without its model, for reading alone.
    ///
    /// # Errors
    /// The database has no such namespace.
    pub(crate) fn open_to_read(&self) -> anyhow::Result<Engine> {
        open_to_read(|| without_model(&self.db, Some(&self.namespace)), &[])
    }

    /// Returns the counts of a session.
    ///
    /// # Errors
    /// The namespace has no such session.
    pub(crate) fn session(&self, engine: &Engine, session: &str) -> anyhow::Result<SessionInfo> {
        let sessions = engine.blocking().sessions(&self.namespace)?;
        if let Some(found) = sessions.iter().find(|known| known.session == session) {
            return Ok(found.clone());
        }
        let nearest = nearest(session, sessions.iter().map(|known| &*known.session)).unwrap_or_default();
        bail!(
            "no session {session:?} in namespace {:?}; the nearest is {nearest:?} (`mnemon sessions` lists all)",
            self.namespace.as_str()
        )
    }
}

/// Prepares an engine without a model, to look up or delete what is stored. Pending messages stay pending.
///
/// # Errors
/// The database has no such namespace.
pub(crate) fn without_model(db: &Path, namespace: Option<&Namespace>) -> anyhow::Result<EngineBuilder> {
    match namespace {
        Some(namespace) => check_namespace(db, namespace)?,
        None => refresh(db, None)?,
    }
    let model = mnemon::serving_model(file(db)?)?;
    let model = model.context("the database has no model yet; choose one with `mnemon reindex --model NAME`")?;
    let builder = Engine::builder(db).create(false).config(config()?.drain_on_open(false));
    Ok(replica(builder.embedder(Arc::new(NoModel(model)))))
}

/// Returns an error that names the nearest namespace unless this one has messages or documents.
pub(crate) fn check_namespace(db: &Path, namespace: &Namespace) -> anyhow::Result<()> {
    refresh(db, Some(namespace))?;
    // A namespace is the first of those under it.
    let database = file(db)?;
    let first = mnemon::namespaces(&database, Some(namespace), None, 1)?.namespaces;
    if first.iter().any(|known| known.namespace == *namespace) {
        return Ok(());
    }
    let known = mnemon::namespaces(&database, None, None, usize::MAX)?.namespaces;
    let (name, db) = (namespace.as_str(), db.display());
    match nearest(name, known.iter().map(|known| known.namespace.as_str())) {
        Some(nearest) => {
            bail!("no namespace {name:?} in {db}; the nearest is {nearest:?} (`mnemon namespaces` lists all)")
        }
        None => bail!("no namespace {name:?} in {db}, which is empty; store messages with `mnemon ingest`"),
    }
}

/// Returns the name with the fewest edits from `name`.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known.min_by_key(|known| strsim::damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase()))
}

/// A stand-in for the model of the database. It has the model's identity, and every embedding fails.
struct NoModel(ModelIdentity);

impl Embedder for NoModel {
    fn identity(&self) -> &ModelIdentity {
        &self.0
    }

    fn embed_documents(&self, _: &[&str]) -> mnemon::Result<Vec<Vec<f32>>> {
        let reason = "the database was opened without its model".to_owned();
        Err(Error::EmbedderUnavailable { reason, transient: false, retry_after: None, source: None })
    }

    fn embed_query(&self, _: &str) -> mnemon::Result<Vec<f32>> {
        self.embed_documents(&[]).map(|_| Vec::new())
    }
}

/// An engine on a new database in a temporary folder, which is deleted when this is dropped.
pub(crate) struct Temporary {
    pub(crate) engine: Engine,
    pub(crate) path: PathBuf,
    pub(crate) folder: tempfile::TempDir,
}

impl Temporary {
    /// Creates a database without an embedding cache: what measures it measures the model.
    pub(crate) fn new(model: Option<&str>, config: Config) -> anyhow::Result<Self> {
        let folder = temporary_folder()?;
        let path = folder.path().join("memory.redb");
        let engine = unshared(&path, model, config.embedding_cache(0), true)?.open()?;
        Ok(Temporary { engine, path, folder })
    }
}

/// Creates a temporary folder, which is deleted when the result is dropped.
pub(crate) fn temporary_folder() -> anyhow::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("mnemon-").tempdir().context("creating a temporary folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_has_the_fewest_edits() {
        let known = ["acme/priya", "friends/ines-tom", "home/okafor"];
        let check = |name, wanted| assert_eq!(nearest(name, known.into_iter()), Some(wanted), "{name}");
        check("friends/ines-tim", "friends/ines-tom");
        check("Home/Okafor", "home/okafor");
        check("acme/pirya", "acme/priya");
        assert_eq!(nearest("x", [].into_iter()), None);
    }
}
