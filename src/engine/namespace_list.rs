//! Methods of [`Engine`] on many namespaces: listing, counting and deleting them.

use super::{core::Core, executor::Lane, handle::Engine};
#[cfg(doc)]
use crate::error::Error;
use crate::{
    error::Result,
    ids::{Namespace, NamespaceId},
    store::{NamespaceCursor, NamespacePage, NamespaceTotals, Transaction},
};

impl Engine {
    /// Returns the first `limit` namespaces that have messages or documents, or those after a cursor: of all
    /// namespaces, or of those under a prefix, itself included. They are ordered by the bytes of their text.
    ///
    /// Cost: a pass over the names of the sessions on the page, and over deleted namespaces.
    ///
    /// # Errors
    /// [`Error::InvalidCursor`]: another database returned the cursor. [`Error::InvalidQuery`]: the limit is 0.
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn namespaces(
        &self,
        prefix: Option<&Namespace>,
        after: Option<&NamespaceCursor>,
        limit: usize,
    ) -> Result<NamespacePage> {
        let (prefix, after) = (prefix.cloned(), after.cloned());
        self.core().refresh_under(prefix.as_ref(), None).await?;
        let page = move |core: &Core| core.reads().namespaces(prefix.as_ref(), after.as_ref(), limit);
        self.core().run(Lane::Store, page).await
    }

    /// Counts the namespaces that have messages or documents, and these: of all namespaces, or of those under a prefix,
    /// itself included. Cost: a pass over the records of the namespaces, about a microsecond each.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn count_namespaces(&self, prefix: Option<&Namespace>) -> Result<NamespaceTotals> {
        self.core().refresh_under(prefix, None).await?;
        let prefix = prefix.cloned();
        self.core().run(Lane::Store, move |core| core.reads().namespace_totals(prefix.as_ref())).await
    }

    /// Deletes all namespaces under a prefix, itself included, with all their messages and documents. Returns how many
    /// had any, and how many. Nothing is an error if no namespace is under the prefix: the counts are 0.
    ///
    /// The namespaces are deleted in the order of their text, in commits of about 1,000 namespaces or 10,000 messages
    /// and documents, each of whole namespaces. If the process ends meanwhile, or the future is dropped, a namespace is
    /// still there as a whole or is deleted as a whole, and the same call deletes the rest. What is put meanwhile into
    /// a namespace that was deleted already stays.
    ///
    /// # Errors
    /// [`Error::LegalHold`], and nothing is deleted: a namespace under the prefix is held, or one above it.
    /// [`Error::Storage`], [`Error::Corrupted`], [`Error::ReadOnly`].
    pub async fn delete_namespaces(&self, prefix: &Namespace) -> Result<NamespaceTotals> {
        self.core().refresh_common().await?;
        self.core().refresh_under(Some(prefix), None).await?;
        let held = prefix.clone();
        let check = move |core: &Core| core.shared.store.read()?.holds().check_under(&held);
        self.core().run(Lane::Store, check).await?;
        let mut totals = NamespaceTotals::default();
        let mut after = None;
        loop {
            let prefix = prefix.clone();
            let next = move |core: &Core| core.reads().namespaces_to_delete(&prefix, after.as_ref());
            let next = self.core().run(Lane::Store, next).await?;
            let Some((last, _)) = next.last().cloned() else { return Ok(totals) };
            let NamespaceTotals { namespaces, messages, documents } = self.delete_all_in(next).await?;
            totals.namespaces += namespaces;
            totals.messages += messages;
            totals.documents += documents;
            after = Some(last);
        }
    }

    /// Deletes everything in these namespaces, in one commit.
    pub(super) async fn delete_all_in(&self, namespaces: Vec<(Namespace, NamespaceId)>) -> Result<NamespaceTotals> {
        let ids: Vec<NamespaceId> = namespaces.iter().map(|(_, id)| *id).collect();
        let delete = move |transaction: &mut Transaction| transaction.namespaces().delete(&namespaces);
        let totals = self.core().write(delete).await?;
        for generation in self.core().shared.generations.all() {
            ids.iter().for_each(|&id| generation.unload_if_empty(id));
        }
        Ok(totals)
    }
}
