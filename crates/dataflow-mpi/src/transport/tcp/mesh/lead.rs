//! Rank 0 leads: it lets all others in, has them meet, and says when all are ready.

use super::{Control, Interrupt, LOOK, MeshError, TOLD, named, places};
use crate::bell::Bell;
use crate::transport::Event;
use crate::transport::tcp::{Link, Peer, Tcp};
use dataflow_core::rank::Rank;
use std::time::Duration;

/// Rank 0 while the ranks gather.
pub struct Leader<'a, 'i> {
    tcp: &'a mut Tcp,
    interrupt: &'a mut Interrupt<'i>,
    is_ready: Vec<bool>,
    begun: Duration,
    looked: Duration,
    beaten: Duration,
    told: Duration,
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// All come.
    Coming,
    /// All are ready.
    Meeting,
}

impl<'a, 'i> Leader<'a, 'i> {
    pub fn new(tcp: &'a mut Tcp, interrupt: &'a mut Interrupt<'i>) -> Self {
        let now = tcp.now();
        Leader {
            is_ready: vec![false; tcp.peers.len()],
            tcp,
            interrupt,
            begun: now,
            looked: now,
            beaten: now,
            told: now,
        }
    }

    /// Until all are ready; otherwise those who have come are told who was lost.
    pub fn lead(mut self) -> Result<(), MeshError> {
        let led = self.lead_all();
        if let Err(MeshError::Lost(lost, reason)) = &led {
            self.say_to_all(&Control::Lost(*lost, reason.clone()));
        }
        led
    }

    fn lead_all(&mut self) -> Result<(), MeshError> {
        self.wait(Awaited::Coming)?;
        let all = self.tcp.mesh.is_acquainted();
        self.say_to_all(&Control::Meet(all));
        self.wait(Awaited::Meeting)?;
        let machines = self.tcp.roster.iter();
        let machines: Vec<_> = machines.map(|known| known.and_then(|(_, ip)| ip)).collect();
        let places = places(&machines);
        for rank in self.others() {
            let (own, of) = places[rank];
            let go = Control::Go(own as u32, of as u32);
            self.tcp.say(Rank(rank as u32), &go);
        }
        self.tcp.here = places.first().copied().unwrap_or((0, 1));
        // Nobody comes any more: a rank that wants to talk to rank 0 does already.
        self.tcp.close_door();
        Ok(())
    }

    fn others(&self) -> std::ops::Range<usize> {
        1..self.tcp.peers.len()
    }

    fn say_to_all(&mut self, control: &Control) {
        for rank in self.others() {
            self.tcp.say(Rank(rank as u32), control);
        }
    }

    fn wait(&mut self, awaited: Awaited) -> Result<(), MeshError> {
        loop {
            self.tcp.watch.look();
            self.tcp.visit();
            self.heed()?;
            let now = self.tcp.now();
            self.look_for_the_lost(now)?;
            let is_missing = |rank: &usize| match awaited {
                Awaited::Coming => !self.tcp.is_open(*rank),
                Awaited::Meeting => !self.is_ready[*rank],
            };
            let missing: Vec<usize> = self.others().filter(is_missing).collect();
            let Some(&first) = missing.first() else {
                return Ok(());
            };
            if now - self.begun > self.tcp.mesh.patience {
                return Err(self.late(awaited, first, &missing));
            }
            self.speak(awaited, &missing, now);
            self.tcp.watch.wait(Some(LOOK));
        }
    }

    /// What the others have said.
    fn heed(&mut self) -> Result<(), MeshError> {
        while let Some((from, control)) = self.tcp.controls.pop_front() {
            match control {
                Control::Beat(_) => {}
                Control::Ready => self.is_ready[from.0 as usize] = true,
                Control::Lost(rank, reason) => return Err(MeshError::Lost(rank, reason)),
                other => {
                    let text = format!("it said {other:?} while the ranks gathered");
                    return Err(MeshError::Lost(from, text));
                }
            }
        }
        Ok(())
    }

    /// Who has ended, or says nothing any more.
    fn look_for_the_lost(&mut self, now: Duration) -> Result<(), MeshError> {
        if let Some((rank, reason)) = (self.interrupt)() {
            return Err(MeshError::Lost(rank, reason));
        }
        for event in &self.tcp.events {
            if let Event::Lost(rank, reason) = event {
                return Err(MeshError::Lost(*rank, reason.clone()));
            }
        }
        let silence = self.tcp.mesh.silence;
        // A rank that slept itself has not listened.
        let slept = now - std::mem::replace(&mut self.looked, now) > silence / 2;
        let mut longest = (Duration::ZERO, 0);
        for (rank, peer) in self.tcp.peers.iter_mut().enumerate() {
            let Peer::Known(line) = peer else {
                continue;
            };
            if slept {
                line.heard = now;
            }
            if matches!(line.link, Link::Open(_)) {
                longest = longest.max((now.saturating_sub(line.heard), rank));
            }
        }
        let (silent, rank) = longest;
        if silent > silence {
            let text = format!("it has been silent for {:.1} s", silent.as_secs_f64());
            return Err(MeshError::Lost(Rank(rank as u32), text));
        }
        Ok(())
    }

    /// The deadline has passed.
    fn late(&self, awaited: Awaited, first: usize, missing: &[usize]) -> MeshError {
        let patience = self.tcp.mesh.patience;
        let rank = Rank(first as u32);
        let mut text = match awaited {
            Awaited::Coming => format!("it did not come within {patience:?}"),
            Awaited::Meeting => format!("it was not connected to the others within {patience:?}"),
        };
        if missing.len() > 1 {
            text += &format!(" ({} are missing)", named(missing));
        }
        let claimed = self.tcp.door.as_ref().and_then(|door| door.claimed(rank));
        if let Some(claimed) = claimed {
            text += &format!("; {claimed}");
        }
        MeshError::Lost(rank, text)
    }

    /// Says that it lives, and now and then whom it waits for.
    fn speak(&mut self, awaited: Awaited, missing: &[usize], now: Duration) {
        if now - self.beaten < self.tcp.mesh.beat() {
            return;
        }
        self.beaten = now;
        let (come, all) = (self.tcp.peers.len() - missing.len(), self.tcp.peers.len());
        let what = match awaited {
            Awaited::Coming => "are there",
            Awaited::Meeting => "are connected",
        };
        let text = format!(
            "rank 0 waits for {}: {come} of {all} {what}",
            named(missing)
        );
        if now - self.told >= TOLD {
            self.told = now;
            (self.tcp.mesh.log)(&text);
        }
        self.say_to_all(&Control::Beat(text));
    }
}
