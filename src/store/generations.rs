//! The generations and their states: begun, building, serving, previous, retired.

use super::{
    codec,
    pending::{HISTORY_START, HistoryKey, Pending},
    row_layout::{Blocks, RowLayout},
    schema::*,
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{
    config::Precision,
    error::{Error, Result},
    ids::{GenerationId, ModelIdentity},
};

/// A generation, its model, and how its vectors are stored.
#[derive(Clone, Debug)]
pub(crate) struct Generation {
    pub(crate) id: GenerationId,
    pub(crate) identity: ModelIdentity,
    pub(crate) precision: Precision,
    pub(crate) state: GenerationState,
    pub(super) layout: RowLayout,
}

impl Generation {
    fn read(id: GenerationId, record: &GenerationRecord) -> Result<Self> {
        let (identity, precision, layout) = (record.identity(), record.precision()?, row_layout(record)?);
        Ok(Generation { id, identity, precision, state: record.state, layout })
    }

    /// Returns true if the vectors are of this model.
    pub(crate) fn is_of(&self, model: &ModelIdentity) -> bool {
        self.identity.hash == model.hash && self.identity.dimension == model.dimension
    }
}

/// The table of generations.
pub(crate) struct Generations<'t, T>(pub(super) &'t T);

impl<T: Tables> Generations<'_, T> {
    /// All generations, oldest first.
    pub(crate) fn all(&self) -> Result<Vec<Generation>> {
        let all = records(&self.0.table(GENERATIONS)?)?.into_iter();
        all.map(|(id, record)| Generation::read(id, &record)).collect()
    }

    /// The generation that answers recalls, or `None` in a database without messages.
    pub(crate) fn serving(&self) -> Result<Option<Generation>> {
        Ok(self.all()?.into_iter().find(|generation| generation.state == GenerationState::Serving))
    }

    /// The generations that take writes: all that are not retired.
    pub(super) fn live(&self) -> Result<Vec<GenerationId>> {
        let mut all = records(&self.0.table(GENERATIONS)?)?;
        all.retain(|(_, record)| record.state != GenerationState::Retired);
        Ok(all.into_iter().map(|(id, _)| id).collect())
    }

    /// The first generation that is retired.
    pub(super) fn retired(&self) -> Result<Option<GenerationId>> {
        let all = records(&self.0.table(GENERATIONS)?)?;
        Ok(all.into_iter().find(|(_, record)| record.state == GenerationState::Retired).map(|(id, _)| id))
    }

    /// The layout of a generation's rows.
    pub(super) fn layout(&self, GenerationId(id): GenerationId) -> Result<RowLayout> {
        let table = self.0.table(GENERATIONS)?;
        let value = table.get(id)?;
        let value = value.ok_or_else(|| Error::corrupted(format!("generation {id} is missing")))?;
        row_layout(&codec::decode(value.value())?)
    }
}

impl Generations<'_, WriteTransaction> {
    /// Makes the first generation, which serves.
    pub(crate) fn create_serving(&self, identity: &ModelIdentity, precision: Precision) -> Result<Generation> {
        let serving = self.create(&GenerationRecord::new(identity, precision, GenerationState::Serving))?;
        // There are no messages yet, unless a database was repaired by hand.
        Pending(self.0).seed(serving.id, HISTORY_START, usize::MAX)?;
        Ok(serving)
    }

    /// Begins a generation beside the serving one, or continues an existing one of this model and precision, which may
    /// be half built or the previous one. All other generations except the serving one are retired. If the state
    /// returned is [`GenerationState::Begun`], the caller writes the pending entries with [`Generations::seed`].
    pub(crate) fn begin_building(&self, identity: &ModelIdentity, precision: Precision) -> Result<Generation> {
        let new = GenerationRecord::new(identity, precision, GenerationState::Begun);
        let mut known = None;
        self.change(|id, record| {
            let is_wanted = (&record.hash, record.dimension) == (&new.hash, new.dimension)
                && record.precision().is_ok_and(|stored| stored == precision);
            record.state = match record.state {
                GenerationState::Serving => return,
                state if state == GenerationState::Retired || !is_wanted || known.is_some() => GenerationState::Retired,
                GenerationState::Begun => GenerationState::Begun,
                _ => GenerationState::Building,
            };
            if record.state != GenerationState::Retired {
                known = Some(Generation::read(id, record));
            }
        })?;
        match known {
            Some(known) => known,
            None => self.create(&new),
        }
    }

    /// Makes the next `limit` messages pending in a generation that has begun, from a key of the histories on: those
    /// with text that are in no buffer. Messages that are put or deleted meanwhile are written to the generation
    /// directly. Returns the key to continue from; `None` if all are pending: the generation is building from now on.
    pub(crate) fn seed(&self, id: GenerationId, from: HistoryKey, limit: usize) -> Result<Option<HistoryKey>> {
        let next = Pending(self.0).seed(id, from, limit)?;
        if next.is_none() {
            self.change(|other, record| {
                if other == id {
                    record.state = GenerationState::Building;
                }
            })?;
        }
        Ok(next)
    }

    /// Makes a generation the serving one. The one that served is kept as the previous, or retired like all others.
    pub(crate) fn switch(&self, to: GenerationId, keep_previous: bool) -> Result<()> {
        self.change(|id, record| {
            record.state = match record.state {
                _ if id == to => GenerationState::Serving,
                GenerationState::Serving if keep_previous => GenerationState::Previous,
                _ => GenerationState::Retired,
            };
        })
    }

    /// Retires the generation that is begun or building. Returns true if there was one.
    pub(crate) fn retire_building(&self) -> Result<bool> {
        self.retire(|state| matches!(state, GenerationState::Begun | GenerationState::Building))
    }

    /// Retires the previous generation. Returns true if there was one.
    pub(crate) fn retire_previous(&self) -> Result<bool> {
        self.retire(|state| state == GenerationState::Previous)
    }

    /// Deletes the record of a generation.
    pub(super) fn remove(&self, GenerationId(id): GenerationId) -> Result<()> {
        self.0.table(GENERATIONS)?.remove(id)?;
        Ok(())
    }

    fn create(&self, record: &GenerationRecord) -> Result<Generation> {
        let mut generations = self.0.table(GENERATIONS)?;
        let id = generations.last()?.map_or(1, |(id, _)| id.value() + 1);
        generations.insert(id, codec::encode(record).as_slice())?;
        Generation::read(GenerationId(id), record)
    }

    fn retire(&self, is_retired: impl Fn(GenerationState) -> bool) -> Result<bool> {
        let mut found = false;
        self.change(|_, record| {
            if is_retired(record.state) {
                (record.state, found) = (GenerationState::Retired, true);
            }
        })?;
        Ok(found)
    }

    fn change(&self, mut change: impl FnMut(GenerationId, &mut GenerationRecord)) -> Result<()> {
        let mut generations = self.0.table(GENERATIONS)?;
        for (id, old) in records(&generations)? {
            let mut record = old.clone();
            change(id, &mut record);
            if record != old {
                generations.insert(id.0, codec::encode(&record).as_slice())?;
            }
        }
        Ok(())
    }
}

fn row_layout(record: &GenerationRecord) -> Result<RowLayout> {
    let blocks = if record.has_small_blocks() { Blocks::SmallFirst } else { Blocks::Large };
    Ok(RowLayout::new(record.dimension as usize, record.precision()?, blocks))
}

/// The records of all generations, oldest first.
pub(super) fn records(table: &impl ReadableTable<u32, Bytes>) -> Result<Vec<(GenerationId, GenerationRecord)>> {
    table
        .iter()?
        .map(|entry| {
            let (id, value) = entry?;
            Ok((GenerationId(id.value()), codec::decode(value.value())?))
        })
        .collect()
}
