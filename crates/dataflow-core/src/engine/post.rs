//! Post: what a task owes to other ranks leaves.
//!
//! A parcel is the task's name and the flows that go to ranks that have successors. The receiver
//! asks the space itself who its successors are. Where every rank gets the same flows one parcel
//! goes to all of them, as the courier sees fit; otherwise one to each.
//!
//! # Law
//! A task is announced at most once to a rank. Parcels leave before the local successors start; of tasks
//! without data before this worker goes on, when others may have begun local successors.
//!
//! # Source
//! Bosilca, Bouteiller, Danalis, Herault, Lemarinier, Dongarra, *DAGuE*, Parallel Computing 38
//! (2012), §III-C; there each datum that comes resolves dependencies by itself, here all of a parcel do at
//! once.

use super::pending::Poisoned;
use super::{ReadyTask, Run};
use crate::data::Version;
use crate::error::Kind;
use crate::port::{Cargo, Goods, Head, Line, Parcel, PostedFlow, Ranks, Wire};
use crate::rank::Rank;
use crate::space::{TaskName, TaskSpace};
use crate::trace::{TaskNumber, Track};
use crate::wire::WireName;
use crate::words::counted;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// Edges that leave: to whom, by which flow, how urgent the task at the end is.
pub(super) type LeavingEdges = SmallVec<[Edge; 4]>;
type Edge = (Rank, u16, i64);

/// How data become cargo, and goods data: known where the datum is known to be [`Wire`].
pub(crate) struct Codec<D: crate::data::Datum> {
    pub load: fn(Version<D>) -> Arc<dyn Cargo>,
    pub unload: fn(Goods) -> Result<D, String>,
}

impl<D: Wire> Codec<D> {
    pub fn new() -> Self {
        Codec {
            load: |version| Arc::new(Laden(version)),
            unload: |goods| D::unpack(&goods.head, goods.body),
        }
    }
}

/// A version on its way out.
struct Laden<D: Wire>(Version<D>);

impl<D: Wire> Cargo for Laden<D> {
    fn head(&self) -> Head {
        Wire::head(&*self.0)
    }
    fn size(&self) -> usize {
        Wire::size(&*self.0)
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Wire::body(&*self.0)
    }
    fn is_blank(&self) -> bool {
        Wire::is_blank(&*self.0)
    }
}

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Notes an edge that leaves this rank.
    #[cold]
    pub(super) fn leaves(
        &self,
        (source, flow): (S::Task, usize),
        target: S::Task,
        leaving: &mut LeavingEdges,
    ) {
        let rank = self.space.rank(target);
        let n_ranks = self.abroad.as_ref().map_or(1, |abroad| abroad.n_ranks);
        if rank.0 as usize >= n_ranks || rank == self.rank {
            let text = format!(
                "{source:?} feeds {target:?} on {rank}; this run has {}, counted from 0, and is {}",
                counted(n_ranks, "rank"),
                self.rank
            );
            return self.fail(Kind::NoSuchRank, Some(target), text);
        }
        match u16::try_from(flow) {
            // Not the last number: how many flows leave is a `u16`, too.
            Ok(flow) if flow < u16::MAX => leaving.push((rank, flow, self.space.priority(target))),
            _ => {
                let most = u16::MAX - 1;
                let text =
                    format!("flow {flow} of {source:?} leaves the rank (at most {most} can)");
                self.fail(Kind::NotDescribed, Some(source), text);
            }
        }
    }

    /// Sends what `source` owes to other ranks; its data lie in `slots`.
    #[cold]
    pub(super) fn post(
        &self,
        (source, poisoned): ReadyTask<S>,
        leaving: LeavingEdges,
        slots: &[Option<Version<S::Datum>>],
        track: Option<&mut Track>,
    ) {
        let Some(others) = &self.abroad else { return };
        let Some(task) = source.to_wire() else {
            let text =
                format!("{source:?} has outputs for other ranks, but its name cannot travel");
            return self.fail(Kind::NoSuchRank, Some(source), text);
        };
        let mut posted: SmallVec<[PostedFlow; 4]> = SmallVec::new();
        for flow in flows_of(&leaving) {
            let datum = slots.get(usize::from(flow)).cloned().flatten();
            posted.push((flow, datum.map(others.codec.load)));
        }
        if let Some(track) = track {
            note_posted(crate::trace::number(source), &leaving, &posted, track);
        }
        post_to_each(others.line, leaving, (&task, poisoned), &posted);
    }
}

/// By which flows the edges leave, each once, in order.
fn flows_of(edges: &[Edge]) -> SmallVec<[u16; 4]> {
    let mut flows: SmallVec<[u16; 4]> = edges.iter().map(|edge| edge.1).collect();
    flows.sort_unstable();
    flows.dedup();
    flows
}

/// Of what is posted, in the order of its flows, what leaves by that one.
fn find(posted: &[PostedFlow], flow: u16) -> Option<&PostedFlow> {
    let at = posted.binary_search_by_key(&flow, |(flow, _)| *flow);
    Some(&posted[at.ok()?])
}

/// Notes how many bytes go to each rank.
#[cold]
fn note_posted(task: TaskNumber, leaving: &[Edge], posted: &[PostedFlow], track: &mut Track) {
    let mut edges: SmallVec<[(Rank, u16); 8]> =
        leaving.iter().map(|edge| (edge.0, edge.1)).collect();
    edges.sort_unstable();
    edges.dedup();
    for of_rank in edges.chunk_by(|a, b| a.0 == b.0) {
        let cargo = of_rank.iter().filter_map(|(_, flow)| find(posted, *flow));
        let sizes = cargo.filter_map(|(_, cargo)| Some(cargo.as_ref()?.size() as u64));
        track.posted(task, of_rank[0].0, sizes.fold(0, u64::saturating_add));
    }
}

/// Posts to each rank the flows that it waits for: one parcel for all, if they are the same.
///
/// Knows no task and no datum, so it is compiled once.
fn post_to_each(
    line: &dyn Line,
    mut leaving: LeavingEdges,
    (task, poisoned): (&WireName, Poisoned),
    posted: &[PostedFlow],
) {
    leaving.sort_unstable();
    let parcel = |to: Ranks, flows: &[u16], edges: &[Edge]| {
        let posted = flows.iter().filter_map(|flow| find(posted, *flow));
        Parcel {
            to,
            task: task.clone(),
            poisoned,
            priority: edges.iter().map(|edge| edge.2).max().unwrap_or(0),
            flows: posted.cloned().collect(),
        }
    };
    let ranks = || leaving.chunk_by(|a, b| a.0 == b.0);
    let mut each = ranks().map(flows_of);
    let Some(first) = each.next() else {
        return;
    };
    if each.all(|flows| flows == first) {
        let to = ranks().map(|edges| edges[0].0).collect();
        line.post(parcel(to, &first, &leaving));
    } else {
        for edges in ranks() {
            let to = Ranks::from_slice(&[edges[0].0]);
            line.post(parcel(to, &flows_of(edges), edges));
        }
    }
}
