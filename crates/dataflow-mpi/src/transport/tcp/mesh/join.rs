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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::tcp::tests::{alone, connected, told};

    /// Any rank could send the others off, or end the job.
    #[test]
    fn who_joins_heeds_what_rank_0_says_of_all_and_of_another_only_that_it_is_a_mistake() {
        let of_all = [
            Control::Beat("it waits".into()),
            Control::Meet(true),
            Control::Lost(Rank(2), "it has ended".into()),
            Control::Go(0, 1),
            Control::Ready,
        ];
        let mistakes = [Control::Ranks(4), Control::Taken(Rank(1))];
        for (control, is_of_all) in of_all
            .into_iter()
            .map(|control| (control, true))
            .chain(mistakes.map(|control| (control, false)))
        {
            for from in [Rank(0), Rank(2)] {
                let (mut tcp, _) = alone(1, 3);
                tcp.controls.push_back((from, control.clone()));
                let mut joiner = Joiner::new(&mut tcp);
                let heeded = joiner.heed();
                let has_effect = !matches!(heeded, Ok(false))
                    || joiner.meets.is_some()
                    || !joiner.waits.is_empty();
                assert_eq!(
                    has_effect,
                    from == Rank(0) || !is_of_all,
                    "{control:?} of {from}"
                );
            }
        }
    }

    #[test]
    fn rank_0_is_lost_when_it_falls_silent_unless_this_rank_has_slept_or_is_not_heard_yet() {
        let (mut tcp, clock) = alone(1, 3);
        let silence = tcp.mesh.silence;
        tcp.await_link(
            Rank(0),
            Link::Awaited {
                until: Duration::MAX,
            },
        );
        let mut joiner = Joiner::new(&mut tcp);
        for _ in 0..4 {
            assert!(joiner.look_for_the_lost(clock.pass(silence / 2)).is_ok());
        }
        let _there = connected(joiner.tcp, 0);
        assert!(joiner.look_for_the_lost(clock.pass(10 * silence)).is_ok());
        for _ in 0..2 {
            assert!(joiner.look_for_the_lost(clock.pass(silence / 2)).is_ok());
        }
        let lost = joiner.look_for_the_lost(clock.pass(Duration::from_millis(100)));
        let Err(MeshError::Lost(Rank(0), text)) = lost else {
            panic!("{:?}", lost.map_err(MeshError::into_error))
        };
        assert_eq!(text, "it has been silent for 10.1 s");
    }

    /// Rank 0 would not know, and this rank would wait for its explanation without end.
    #[test]
    fn a_rank_that_cannot_be_reached_is_told_to_rank_0_which_has_a_while_to_explain() {
        let (mut tcp, clock) = alone(2, 3);
        let mut leader = connected(&mut tcp, 0);
        tcp.events.clear();
        tcp.lose(1, "nobody answers".into());
        let mut joiner = Joiner::new(&mut tcp);
        assert!(joiner.look_for_the_lost(clock.pass(Duration::ZERO)).is_ok());
        let said = Control::Lost(Rank(1), "nobody answers".into());
        assert_eq!(told(&mut leader), Some(said));
        assert!(joiner.look_for_the_lost(clock.pass(EXPLANATION)).is_ok());
        let lost = joiner.look_for_the_lost(clock.pass(Duration::from_nanos(1)));
        let Err(MeshError::Lost(Rank(1), text)) = lost else {
            panic!("{:?}", lost.map_err(MeshError::into_error))
        };
        assert_eq!(text, "nobody answers");
        // Of rank 0 there is nobody to explain.
        joiner.tcp.lose(0, "it closed its connection".into());
        let lost = joiner.look_for_the_lost(clock.pass(Duration::ZERO));
        assert!(matches!(lost, Err(MeshError::Lost(Rank(0), _))));
    }
}
