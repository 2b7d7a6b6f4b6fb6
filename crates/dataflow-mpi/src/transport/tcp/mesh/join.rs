//! The other ranks join: they find rank 0, meet the others, and go when it says so.

use super::{Control, EXPLANATION, MeshError, TALKATIVE, TOLD, named};
use crate::bell::Bell;
use crate::transport::Event;
use crate::transport::tcp::{Link, Peer, Tcp};
use dataflow_core::error::Error;
use dataflow_core::rank::Rank;
use std::net::SocketAddr;
use std::time::Duration;

/// A rank other than 0 while the ranks gather.
pub struct Joiner<'a> {
    tcp: &'a mut Tcp,
    /// Whether all have come, and this rank is to be connected to all.
    meets: Option<bool>,
    is_ready: bool,
    /// Whom rank 0 waits for, as it says.
    waits: String,
    /// Who cannot be reached, unless rank 0 knows better until then.
    lost: Option<(Rank, String, Duration)>,
    looked: Duration,
    beaten: Duration,
    told: Duration,
}

impl<'a> Joiner<'a> {
    pub fn new(tcp: &'a mut Tcp) -> Self {
        let now = tcp.now();
        Joiner {
            tcp,
            meets: None,
            is_ready: false,
            waits: String::new(),
            lost: None,
            looked: now,
            beaten: now,
            told: now,
        }
    }

    /// Until rank 0 says that all are ready.
    pub fn join(mut self, root: &[SocketAddr]) -> Result<(), MeshError> {
        let until = self.tcp.now().saturating_add(self.tcp.mesh.patience);
        self.tcp.call(Rank(0), root.to_vec(), until);
        loop {
            self.tcp.watch.look();
            self.tcp.visit();
            if self.heed()? {
                return Ok(());
            }
            let now = self.tcp.now();
            self.look_for_the_lost(now)?;
            self.meet();
            self.speak(now);
            let beat = self.tcp.mesh.beat();
            let wakes = self.tcp.wakes().map_or(beat, |at| at.saturating_sub(now));
            self.tcp.watch.wait(Some(wakes.min(beat)));
        }
    }

    /// What the others have said; true when it is time to go.
    fn heed(&mut self) -> Result<bool, MeshError> {
        while let Some((from, control)) = self.tcp.controls.pop_front() {
            match control {
                Control::Ranks(n) => {
                    let (own, rank) = (self.tcp.mesh.n_ranks, self.tcp.mesh.rank);
                    let text = format!("ranks: {n} on {from}, {own} on {rank}");
                    return Err(MeshError::Other(Error::parameters_differ(text)));
                }
                Control::Taken(rank) => {
                    let text = format!(
                        "{rank} is another process (of {} ranks each is to be started once)",
                        self.tcp.mesh.n_ranks
                    );
                    return Err(MeshError::Other(Error::wrong_settings(text)));
                }
                _ if from != Rank(0) => {}
                Control::Beat(text) => self.waits = text,
                Control::Meet(all) => self.meets = Some(all),
                Control::Lost(rank, reason) => return Err(MeshError::Lost(rank, reason)),
                Control::Go(own, of) => {
                    self.tcp.here = (own as usize, of as usize);
                    if self.tcp.mesh.is_acquainted() {
                        self.tcp.close_door();
                    }
                    return Ok(true);
                }
                other => {
                    let text = format!("it said {other:?} while the ranks gathered");
                    return Err(MeshError::Lost(from, text));
                }
            }
        }
        Ok(false)
    }

    /// Who has ended, cannot be reached, or says nothing any more.
    fn look_for_the_lost(&mut self, now: Duration) -> Result<(), MeshError> {
        if self.tcp.mesh.has_lost_its_parent() {
            return Err(MeshError::Lost(Rank(0), "its process has ended".into()));
        }
        let slept = now - std::mem::replace(&mut self.looked, now) > self.tcp.mesh.silence / 2;
        let is_lost = |event: &Event| matches!(event, Event::Lost(..));
        if let Some(at) = self.tcp.events.iter().position(is_lost)
            && let Some(Event::Lost(rank, reason)) = self.tcp.events.remove(at)
        {
            if let Some(denied) = self.tcp.denied.take() {
                return Err(MeshError::Other(Error::wrong_settings(denied)));
            }
            if rank == Rank(0) {
                return Err(MeshError::Lost(rank, reason));
            }
            // Rank 0 may know why, and tells the others in any case.
            self.tcp.say(Rank(0), &Control::Lost(rank, reason.clone()));
            self.lost.get_or_insert((rank, reason, now + EXPLANATION));
        }
        if let Some((rank, reason, until)) = &self.lost
            && now > *until
        {
            return Err(MeshError::Lost(*rank, reason.clone()));
        }
        let silence = self.tcp.mesh.silence;
        let Some(leader) = self.tcp.connection(Rank(0)) else {
            return Ok(());
        };
        if slept || !matches!(leader.link, Link::Open(_)) {
            leader.heard = now;
        }
        let silent = now.saturating_sub(leader.heard);
        if silent > silence {
            let text = format!("it has been silent for {:.1} s", silent.as_secs_f64());
            return Err(MeshError::Lost(Rank(0), text));
        }
        Ok(())
    }

    /// Looks for those below, waits for those above, and says when all are there.
    fn meet(&mut self) {
        let Some(all) = self.meets.filter(|_| !self.is_ready) else {
            return;
        };
        let own = self.tcp.mesh.rank;
        if all {
            for rank in 1..own.0 {
                self.tcp.way_to(Rank(rank));
            }
            if !self.missing().is_empty() {
                return;
            }
        }
        self.is_ready = true;
        self.tcp.say(Rank(0), &Control::Ready);
    }

    /// Who is not connected yet and is to be.
    fn missing(&self) -> Vec<usize> {
        let own = self.tcp.mesh.rank.0 as usize;
        let others = (1..self.tcp.peers.len()).filter(|rank| *rank != own);
        others.filter(|rank| !self.tcp.is_open(*rank)).collect()
    }

    /// Says that it lives, and now and then whom it waits for.
    fn speak(&mut self, now: Duration) {
        if now - self.beaten < self.tcp.mesh.beat() {
            return;
        }
        self.beaten = now;
        let is_heard = self.tcp.is_open(0);
        if is_heard {
            self.tcp.say(Rank(0), &Control::Beat(String::new()));
        }
        let is_talkative = !is_heard || self.tcp.peers.len() <= TALKATIVE;
        if !is_talkative || now - self.told < TOLD {
            return;
        }
        self.told = now;
        let own = self.tcp.mesh.rank;
        let link = match &self.tcp.peers[0] {
            Peer::Known(line) => Some(&line.link),
            _ => None,
        };
        let text = match link {
            Some(Link::Called(call)) => format!("{own} waits for rank 0 at {}", call.told()),
            _ if self.meets == Some(true) && !self.is_ready => {
                format!("{own} waits for {}", named(&self.missing()))
            }
            _ if self.waits.is_empty() => return,
            _ => format!("{own} waits: {}", self.waits),
        };
        (self.tcp.mesh.log)(&text);
    }
}
