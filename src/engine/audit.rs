//! Methods of [`Engine`] on the audit and on legal holds.

use super::{executor::Lane, handle::Engine};
#[cfg(doc)]
use crate::{error::Error, forget::Forget};
use crate::{
    error::Result,
    forget::{Audit, Hold, Receipt},
    ids::Namespace,
    message::Timestamp,
    store::{Effects, Transaction},
};

impl Engine {
    /// Reads the audit, and checks its chain: an entry for each commit that forgot something, for each legal hold that
    /// was set or released, and for each purge. Cost: a pass over the entries.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`]. A broken chain is no error: see [`Audit::problems`].
    pub async fn audit(&self) -> Result<Audit> {
        self.core().refresh_common().await?;
        self.core().run(Lane::Store, |core| core.shared.store.read()?.audit().read()).await
    }

    /// Sets a legal hold on a namespace and on those under it, which need not exist, or changes its reason. From then
    /// on nothing of them is deleted: [`Engine::forget`], all calls that delete messages, documents, sessions or
    /// namespaces, and the restoring of a checkpoint where it would delete a message, fail with [`Error::LegalHold`].
    /// Documents that expire are not returned any more, and are kept. Putting goes on, and a put with a known id
    /// replaces the message or document. Returns the entry in the audit.
    ///
    /// # Errors
    /// [`Error::Storage`], [`Error::ReadOnly`].
    pub async fn hold(&self, namespace: &Namespace, reason: impl Into<String>) -> Result<Receipt> {
        let (namespace, reason) = (namespace.clone(), reason.into());
        let hold = move |transaction: &mut Transaction| {
            Ok((transaction.holds().put(&namespace, &reason)?, Effects::default()))
        };
        self.core().write(hold).await
    }

    /// Releases the legal hold that was set on exactly this namespace. Documents that expired meanwhile are deleted.
    /// Returns the entry in the audit, or `None` if there was no such hold.
    ///
    /// # Errors
    /// [`Error::Storage`], [`Error::ReadOnly`].
    pub async fn release(&self, namespace: &Namespace) -> Result<Option<Receipt>> {
        let namespace = namespace.clone();
        let release =
            move |transaction: &mut Transaction| Ok((transaction.holds().remove(&namespace)?, Effects::default()));
        let released = self.core().write(release).await?;
        if released.is_some() {
            self.core().shared.expiry.schedule((), Timestamp::now());
        }
        Ok(released)
    }

    /// Returns the legal holds, ordered by namespace.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn holds(&self) -> Result<Vec<Hold>> {
        self.core().refresh_common().await?;
        self.core().run(Lane::Store, |core| core.shared.store.read()?.holds().all()).await
    }
}
