//! Unclaimed: data at their sender, announced and not asked for yet.

use crate::broadcast::{BranchReach, TreeShape};
use crate::transport::{KeepAlive, Load, Payload};
use crate::wire::{Get, Malformed};
use dataflow_core::port::{Cargo, Parcel, caught, drop_quietly};
use dataflow_core::rank::Rank;
use dataflow_core::wire::WireName;
use dataflow_core::words::counted;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Data that were announced and not asked for yet, at their sender.
#[derive(Default)]
pub struct Unclaimed {
    data: BTreeMap<(Rank, u32, u16), OfferedDatum>,
    /// What ranks shall pass on of which none has asked for anything yet.
    duties: BTreeMap<(Rank, u32), Duty>,
}

/// A parcel for all ranks below one.
pub struct Duty {
    /// To them, in the order of the tree.
    pub parcel: Parcel,
    /// Which tree.
    pub shape: TreeShape,
    /// Of a parcel whose leaving somebody wants to hear of: whom that was said to reach.
    reach: Option<BranchReach>,
}

impl Duty {
    /// A parcel for the ranks that are to get it.
    pub fn new(parcel: Parcel, shape: TreeShape) -> Self {
        let reach = None;
        Duty {
            parcel,
            shape,
            reach,
        }
    }
}

/// A datum that was announced.
pub struct OfferedDatum {
    task: WireName,
    cargo: Arc<dyn Cargo>,
    /// Made when the first part is asked for: until then nothing is packed.
    load: Option<Load>,
    given: usize,
    size: usize,
    /// Of a parcel whose leaving somebody wants to hear of.
    held: Option<KeepAlive>,
}

impl OfferedDatum {
    /// An output of a task, which says that it has so many bytes.
    pub fn new(task: WireName, cargo: Arc<dyn Cargo>, size: usize) -> Self {
        OfferedDatum {
            task,
            cargo,
            load: None,
            given: 0,
            size,
            held: None,
        }
    }

    /// It, packed if it has to be.
    fn packed(&self) -> Result<Load, Unsendable> {
        let packed = caught(|| {
            let load = Load::new(self.cargo.clone());
            let has = load.length();
            (load, has)
        });
        let (load, has) = packed.map_err(|text| Unsendable::panicked(&self.task, &text))?;
        match has == self.size {
            true => Ok(load),
            false => Err(Unsendable::of_length(&self.task, self.size, has)),
        }
    }

    /// It, ready to be sent; if it cannot be, zeros that are as many as it said, and when they are made, word of that.
    fn loaded(&mut self) -> (Load, Option<Unsendable>) {
        if let Some(load) = &self.load {
            return (load.clone(), None);
        }
        let (load, wrong) = match self.packed() {
            Ok(load) => (load, None),
            Err(wrong) => (Load::Packed(vec![0; self.size].into()), Some(wrong)),
        };
        self.load = Some(load.clone());
        (load, wrong)
    }
}

/// A datum cannot be sent as it was announced: a fault of the program, not of ranks.
#[derive(Debug)]
pub struct Unsendable {
    /// The task whose output it is.
    pub task: WireName,
    /// What is wrong.
    pub why: String,
}

impl Unsendable {
    fn new(task: &WireName, why: String) -> Self {
        let task = task.clone();
        Unsendable { task, why }
    }

    /// It said that it has so many bytes, and has others.
    pub fn of_length(task: &WireName, said: usize, has: usize) -> Self {
        let said = counted(said, "byte");
        Self::new(
            task,
            format!("a datum said that it has {said} and has {has}"),
        )
    }

    /// Its head has so many bytes, which is too long.
    pub fn of_head(task: &WireName, has: usize, most: usize) -> Self {
        let why = format!("a datum has a head of {has} bytes (at most {most} are allowed)");
        Self::new(task, why)
    }

    /// It was asked for its head, its size or its bytes, and panicked.
    pub fn panicked(task: &WireName, text: &str) -> Self {
        Self::new(task, format!("a datum panicked as it was sent: {text}"))
    }
}

impl Unclaimed {
    /// Keeps a datum until `to` asks for it.
    pub fn put(&mut self, to: Rank, (number, position): (u32, u16), offered: OfferedDatum) {
        self.data.insert((to, number, position), offered);
    }

    /// Data of that activation were put here, and `to` shall pass it on.
    pub fn charge(&mut self, to: Rank, number: u32, duty: Duty) {
        self.duties.insert((to, number), duty);
    }

    /// Whether somebody may still hand back what it was to pass on.
    pub fn has_duties(&self) -> bool {
        !self.duties.is_empty()
    }

    /// A rank does not pass an activation on: what it should have sent, and to whom.
    ///
    /// # Errors
    /// If it should not, or has asked for data of it.
    pub fn relieve(&mut self, to: Rank, number: u32) -> Result<Duty, Malformed> {
        let duty = self.duties.remove(&(to, number));
        if let Some(reach) = duty.as_ref().and_then(|duty| duty.reach.as_ref()) {
            reach.ends_there();
        }
        duty.ok_or_else(|| {
            Malformed(format!(
                "a RELIEVE of activation {number}, which was not to go on from there, or of which data were asked for"
            ))
        })
    }

    /// What is there of an activation holds this until it has left, and for that rank alone if it is
    /// [relieved](Self::relieve).
    pub fn hold(&mut self, to: Rank, number: u32, held: &KeepAlive, reach: BranchReach) {
        if let Some(duty) = self.duties.get_mut(&(to, number)) {
            duty.reach = Some(reach);
        }
        for (_, offered) in self.data.range_mut(of_activation(to, number)) {
            offered.held = Some(held.clone());
        }
    }

    /// Drops all data, one by one: of two that panic as one collection drops them the second would end
    /// the process.
    pub fn drop_each(self) {
        let duties = self.duties.into_values();
        duties.for_each(|mut duty| drop_each_flow(&mut duty.parcel));
        self.data.into_values().for_each(drop_quietly);
    }

    /// Any of what nobody has asked for yet that cannot be sent: each is packed for that, if it has to be.
    pub fn unsendable(&self) -> Option<Unsendable> {
        let mut unasked = self.data.values().filter(|offered| offered.load.is_none());
        unasked.find_map(|offered| offered.packed().err())
    }

    /// Whether nobody has anything to ask for.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Whether data of an activation still wait to be asked for.
    pub fn holds(&self, to: Rank, number: u32) -> bool {
        self.data.range(of_activation(to, number)).next().is_some()
    }

    /// What a rank asks for; with the first part of a datum, whether that can be sent.
    ///
    /// # Errors
    /// If it was not announced, or was given out before.
    pub fn give(
        &mut self,
        to: Rank,
        get: &Get,
    ) -> Result<(Payload, Option<Unsendable>), Malformed> {
        let key = (to, get.number, get.position);
        let unknown = |what: String| {
            Malformed(format!(
                "{to} asks for bytes {}+{} of flow {} of activation {}, {what}",
                get.offset, get.length, get.position, get.number
            ))
        };
        let Some(offered) = self.data.get_mut(&key) else {
            return Err(unknown("which is not there (any more)".into()));
        };
        let (offset, length) = (get.offset as usize, get.length as usize);
        if offset != offered.given || length == 0 || length > offered.size - offered.given {
            let text = format!("of which {} to {} are there", offered.given, offered.size);
            return Err(unknown(text));
        }
        if let Some(mut duty) = self.duties.remove(&(to, get.number)) {
            drop_each_flow(&mut duty.parcel);
        }
        offered.given += length;
        let (load, wrong) = offered.loaded();
        let payload = load.part(offset..offset + length);
        if offered.given < offered.size {
            return Ok((payload, wrong));
        }
        let held = self.data.remove(&key).and_then(|offered| offered.held);
        Ok((payload.holding(held), wrong))
    }
}

/// The data of an activation for a rank, among all by rank, number and position.
fn of_activation(to: Rank, number: u32) -> RangeInclusive<(Rank, u32, u16)> {
    (to, number, 0)..=(to, number, u16::MAX)
}

/// Drops the data of a parcel one by one.
pub fn drop_each_flow(parcel: &mut Parcel) {
    parcel.flows.drain(..).for_each(drop_quietly);
}
