//! Followed: what becomes of messages under way, in runs whose inbox wants to hear of it: when the
//! transport has taken the last byte of a parcel, and when one of another rank was announced and asked for.
//!
//! # Law
//! A parcel that goes out is held by the packet that announces it and by each of its data that are asked for. When
//! the last of them is gone it has left, and the inbox hears so, by whichever thread lets it go; but not of what
//! stays because ranks cannot go on together.

use crate::broadcast::BranchReach;
use crate::sync::{AtomicBool, Ordering};
use crate::transport::KeepAlive;
use dataflow_core::port::{Inbox, Ranks};
use dataflow_core::rank::Rank;
use dataflow_core::wire::WireName;
use std::collections::VecDeque;
use std::sync::Arc;

/// Who hears, and parcels whose packets are here.
pub(super) struct Followed {
    inbox: Arc<dyn Inbox>,
    /// Whether what is let go from now on has not left.
    stays: Arc<AtomicBool>,
    /// By rank: with how many packets, since the rank was started, the parcel has gone.
    ways: Vec<VecDeque<(u64, KeepAlive)>>,
}

/// Says that a parcel has left when nobody holds it any more.
struct DepartureGuard {
    inbox: Arc<dyn Inbox>,
    stays: Arc<AtomicBool>,
    task: WireName,
    to: Ranks,
    reach: BranchReach,
}

impl Drop for DepartureGuard {
    fn drop(&mut self) {
        if !self.stays.load(Ordering::Relaxed) {
            self.inbox.left(&self.task, self.reach.of(&self.to));
        }
    }
}

impl Followed {
    /// Nothing waits.
    pub fn new(inbox: Arc<dyn Inbox>, n_ranks: usize) -> Self {
        Followed {
            inbox,
            stays: Arc::default(),
            ways: vec![VecDeque::new(); n_ranks],
        }
    }

    /// Outputs of a task for some ranks go to the first of them with so many packets: what holds them,
    /// and whom they reach.
    pub fn begins(&mut self, task: WireName, to: Ranks, packets: u64) -> (KeepAlive, BranchReach) {
        let way = &mut self.ways[to[0].0 as usize];
        let reach = BranchReach::default();
        let held: KeepAlive = Arc::new(DepartureGuard {
            inbox: self.inbox.clone(),
            stays: self.stays.clone(),
            task,
            to,
            reach: reach.clone(),
        });
        way.push_back((packets, held.clone()));
        (held, reach)
    }

    /// What has not left by now never will.
    pub fn ends_here(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// A parcel of another rank is announced, and its data must be asked for.
    pub fn heard(&self, task: &WireName) {
        self.inbox.heard(task);
    }

    /// The first of them is asked for.
    pub fn asked(&self, task: &WireName) {
        self.inbox.asked(task);
    }

    /// So many packets have left for a rank.
    pub fn sent(&mut self, to: Rank, packets: u64) {
        let way = &mut self.ways[to.0 as usize];
        while way.front().is_some_and(|(with, _)| *with <= packets) {
            way.pop_front();
        }
    }
}
