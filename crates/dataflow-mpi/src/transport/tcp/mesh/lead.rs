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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::tcp::tests::{alone, connected, framed};
    use std::io::Write;

    /// What somebody was refused for is why the rank that it claims to be has not come.
    #[test]
    fn a_rank_that_did_not_come_is_told_with_what_became_of_whoever_said_it_was_it() {
        let (mut tcp, clock) = alone(0, 4);
        let _third = connected(&mut tcp, 3);
        let at = tcp.listens;
        let stranger = std::thread::spawn(move || {
            let (mut other, _) = alone(1, 4);
            other.call(Rank(0), vec![at], Duration::MAX);
            while !matches!(other.peers[0], Peer::Lost) {
                other.watch.look();
                other.visit();
            }
        });
        let mut asked = 0;
        let mut interrupt = || {
            asked += 1;
            // What the stranger said last has come then, and is heard before the time is over.
            if stranger.is_finished() {
                clock.pass(Duration::from_secs(601));
            }
            (asked > 1000).then(|| (Rank(0), "nobody is late".into()))
        };
        let led = Leader::new(&mut tcp, &mut interrupt).lead();
        let Err(MeshError::Lost(Rank(1), text)) = led else {
            panic!("{:?}", led.map_err(MeshError::into_error))
        };
        let late = "it did not come within 600s (ranks 1, 2 are missing); 127.0.0.1:";
        assert!(text.starts_with(late), "{text}");
        let claimed = " said it was it: the token differs: it says that this rank's is not its own";
        assert!(text.ends_with(claimed), "{text}");
        stranger.join().unwrap();
    }

    #[test]
    fn rank_0_heeds_who_is_ready_and_who_cannot_be_reached() {
        let (mut tcp, _) = alone(0, 3);
        tcp.controls
            .push_back((Rank(2), Control::Beat(String::new())));
        tcp.controls.push_back((Rank(2), Control::Ready));
        let mut interrupt = || None;
        let mut leader = Leader::new(&mut tcp, &mut interrupt);
        assert!(leader.heed().is_ok());
        assert_eq!(leader.is_ready, [false, false, true]);
        for (control, lost, text) in [
            (Control::Lost(Rank(1), "no way".into()), Rank(1), "no way"),
            (
                Control::Go(0, 1),
                Rank(2),
                "it said Go(0, 1) while the ranks gathered",
            ),
        ] {
            leader.tcp.controls.push_back((Rank(2), control));
            let heeded = leader.heed();
            let told = matches!(&heeded, Err(MeshError::Lost(rank, told)) if *rank == lost && told == text);
            assert!(told, "{:?}", heeded.map_err(MeshError::into_error));
        }
    }

    #[test]
    fn a_rank_that_falls_silent_is_lost_unless_this_one_has_slept() {
        let (mut tcp, clock) = alone(0, 3);
        let mut there = connected(&mut tcp, 1);
        let silence = tcp.mesh.silence;
        let mut interrupt = || None;
        let mut leader = Leader::new(&mut tcp, &mut interrupt);
        // In steps that are no sleep.
        for _ in 0..2 {
            assert!(leader.look_for_the_lost(clock.pass(silence / 2)).is_ok());
        }
        // It says something.
        there
            .write_all(&framed(&Control::Beat(String::new())))
            .unwrap();
        while leader.tcp.controls.is_empty() {
            leader.tcp.watch.look();
            leader.tcp.visit();
        }
        for _ in 0..2 {
            assert!(leader.look_for_the_lost(clock.pass(silence / 2)).is_ok());
        }
        // This rank has not listened for long, and listens again.
        assert!(leader.look_for_the_lost(clock.pass(10 * silence)).is_ok());
        for _ in 0..2 {
            assert!(leader.look_for_the_lost(clock.pass(silence / 2)).is_ok());
        }
        let lost = leader.look_for_the_lost(clock.pass(Duration::from_millis(100)));
        let Err(MeshError::Lost(Rank(1), text)) = lost else {
            panic!("{:?}", lost.map_err(MeshError::into_error))
        };
        assert_eq!(text, "it has been silent for 10.1 s");
    }
}
