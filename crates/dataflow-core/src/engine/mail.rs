//! Mail: what arrives from other ranks waits here until a worker takes it in.
//!
//! # Law
//! A thread that delivers never enters the job for it. What was delivered is taken in once, by a worker
//! inside; a run of several ranks is not drained before all its tasks have run, so nothing is left here
//! at its end. Nobody is woken for what the worker that delivers it takes in next.

use super::Ledger;
use super::guard::{looks_into, replace_looks_into};
use super::job::{Job, JobBell};
use crate::port::{Arrival, Failure, Inbox, Pulse};
use crate::rank::Rank;
use crate::sync::{Mutex, MutexGuard};
use crate::trace::{Mailed, Track};
use crate::wire::WireName;
use std::ptr;
use std::sync::{Arc, OnceLock, Weak};

/// The inbox of one run.
pub(crate) struct Mail {
    ledger: Arc<Ledger>,
    bell: Arc<JobBell>,
    job: OnceLock<Weak<Job>>,
    kept: Mutex<MailState>,
    /// Who notes what leaves and comes, if the run is recorded.
    mailed: Option<Mailed>,
}

#[derive(Default)]
struct MailState {
    arrived: Vec<Delivered>,
    /// Why the run was ended from outside; what came first counts.
    ended: Option<Ended>,
}

/// From whom what arrived; and when, if that is noted.
pub(crate) type Delivered = (Rank, Arrival, Option<u64>);

enum Ended {
    /// Another rank failed.
    By(Failure),
    /// No rank could run anything any more: each says who waits there.
    Stalled,
}

impl Mail {
    pub fn new(ledger: &Arc<Ledger>, mailed: Option<Mailed>) -> Self {
        Mail {
            ledger: ledger.clone(),
            bell: Arc::new(JobBell::across()),
            job: OnceLock::new(),
            kept: Mutex::default(),
            mailed,
        }
    }

    /// What wakes all that wait for mail.
    pub fn bell(&self) -> &Arc<JobBell> {
        &self.bell
    }

    /// The job that workers come in by; before this nobody could.
    pub fn set_job(&self, job: &Arc<Job>) {
        // Under the lock: either the thread that ends the run finds the job, or its workers find it ended.
        let _kept = self.kept();
        self.job.get_or_init(|| Arc::downgrade(job));
    }

    /// Moves messages on a worker that takes out next what has arrived: for that no other is woken.
    pub fn taken_after(&self, look: impl FnOnce()) {
        let looks = Looks {
            mail: self,
            outer: replace_looks_into(self.address()),
        };
        look();
        looks.has_looked();
    }

    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Takes out all that has arrived; `into` is empty and gives its room for what comes next.
    pub fn take(&self, into: &mut Vec<Delivered>) {
        let mut kept = self.kept();
        self.ledger.mail_is_taken();
        self.bell.mail_is_taken();
        std::mem::swap(&mut kept.arrived, into);
    }

    /// What was noted of messages, if the run is recorded.
    pub fn noted(&self) -> Option<Track> {
        self.mailed.as_ref()?.take()
    }

    /// Why another rank ended the run, if that came first.
    pub fn stopped_by(&self) -> Option<Failure> {
        match &self.kept().ended {
            Some(Ended::By(failure)) => Some(failure.clone()),
            _ => None,
        }
    }

    /// No further task starts; if nobody is inside, the job is over.
    fn end(&self) {
        let job = {
            let _kept = self.kept(); // see `set_job`
            self.ledger.stop();
            self.job.get().and_then(Weak::upgrade)
        };
        if let Some(job) = job {
            job.close_if_empty();
        }
    }

    fn kept(&self) -> MutexGuard<'_, MailState> {
        self.kept
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A worker that looks. If that unwinds it does not come to take anything, and another is woken.
struct Looks<'m> {
    mail: &'m Mail,
    outer: usize,
}

impl Looks<'_> {
    fn has_looked(self) {
        replace_looks_into(self.outer);
        std::mem::forget(self);
    }
}

impl Drop for Looks<'_> {
    fn drop(&mut self) {
        replace_looks_into(self.outer);
        self.mail.bell.ring_mail();
    }
}

impl Inbox for Mail {
    fn deliver(&self, from: Rank, arrival: Arrival) {
        let at = self.mailed.as_ref().map(Mailed::now);
        let is_first = {
            let mut kept = self.kept();
            kept.arrived.push((from, arrival, at));
            self.ledger.mail_has_come();
            self.bell.mail_has_come()
        };
        // A worker that was woken for what came before takes this too.
        if is_first && looks_into() != self.address() {
            self.bell.ring_mail();
        }
    }

    fn pulse(&self) -> Pulse {
        // Before there is a job, its roots are to run; after it, nothing is, whatever arrives.
        let idle = match self.job.get().map(Weak::upgrade) {
            None => false,
            Some(Some(job)) if !job.is_over() => {
                self.kept().arrived.is_empty() && job.is_quiet(|| self.ledger.is_balanced())
            }
            Some(_) => true,
        };
        Pulse {
            executed: self.ledger.executed(),
            count: self.ledger.count(),
            idle,
            used: self.ledger.used(),
        }
    }

    fn has_idle_workers(&self) -> bool {
        let job = self.job.get().and_then(Weak::upgrade);
        job.is_none_or(|job| job.n_inside() < self.ledger.n_workers())
    }

    fn follows_messages(&self) -> bool {
        self.mailed.is_some()
    }

    fn left(&self, task: &WireName, to: &[Rank]) {
        if let Some(mailed) = &self.mailed {
            mailed.left(task, to);
        }
    }

    fn heard(&self, task: &WireName) {
        if let Some(mailed) = &self.mailed {
            mailed.heard(task);
        }
    }

    fn asked(&self, task: &WireName) {
        if let Some(mailed) = &self.mailed {
            mailed.asked(task);
        }
    }

    fn stop(&self, failure: Failure) {
        self.kept().ended.get_or_insert(Ended::By(failure));
        self.end();
    }

    fn stall(&self) {
        self.kept().ended.get_or_insert(Ended::Stalled);
        self.end();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn of_what_ends_a_run_from_outside_the_first_is_told() {
        let failure = |rank| Failure {
            of_body: false,
            index: u64::MAX,
            name: WireName::new(),
            rank: Rank(rank),
            kind: "rank_lost".into(),
            task: String::new(),
            message: "lost".into(),
        };
        let ledger = Arc::new(Ledger::new(1, 1, true));
        let mail = Mail::new(&ledger, None);
        mail.stop(failure(1));
        mail.stop(failure(2));
        mail.stall();
        assert!(ledger.is_stopped());
        assert_eq!(mail.stopped_by(), Some(failure(1)));
        let stalled = Mail::new(&ledger, None);
        stalled.stall();
        stalled.stop(failure(1));
        assert_eq!(stalled.stopped_by(), None);
    }

    fn n_taken(mail: &Mail) -> usize {
        let mut taken = Vec::new();
        mail.take(&mut taken);
        taken.len()
    }

    #[test]
    fn nobody_is_woken_for_what_the_worker_that_delivers_takes_in_next() {
        let ledger = Arc::new(Ledger::new(1, 1, true));
        let [mail, other] = [(); 2].map(|()| Mail::new(&ledger, None));
        let rings = Arc::new(AtomicUsize::new(0));
        for mail in [&mail, &other] {
            let rings = rings.clone();
            mail.bell().on_mail(Box::new(move || {
                rings.fetch_add(1, Ordering::Relaxed);
            }));
        }
        let parcel = || Arrival {
            task: WireName::new(),
            poisoned: false,
            flows: Default::default(),
        };
        let n_rings = || rings.swap(0, Ordering::Relaxed);
        mail.taken_after(|| mail.deliver(Rank(1), parcel()));
        assert_eq!((n_rings(), n_taken(&mail)), (0, 1));
        mail.taken_after(|| other.deliver(Rank(1), parcel()));
        assert_eq!((n_rings(), n_taken(&other)), (1, 1), "another run's");
        mail.deliver(Rank(1), parcel());
        assert_eq!(
            (n_rings(), n_taken(&mail)),
            (1, 1),
            "by a thread that takes nothing"
        );
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            mail.taken_after(|| {
                mail.deliver(Rank(1), parcel());
                panic!("while messages are moved");
            });
        }));
        assert!(unwound.is_err());
        assert_eq!(
            (n_rings(), n_taken(&mail)),
            (1, 1),
            "it does not come to take"
        );
    }
}

/// Run with `cargo xtask loom`.
#[cfg(all(test, loom))]
mod loom_models {
    use super::super::job::Offered;
    use super::*;
    use crate::port::{Lane, Work};
    use crate::sync::{AtomicU64, Condvar, Ordering};
    use loom::thread;
    use smallvec::SmallVec;

    fn parcel() -> Arrival {
        Arrival {
            task: WireName::new(),
            poisoned: false,
            flows: SmallVec::new(),
        }
    }

    /// One rank of several, of one worker and so many tasks, all of which come by mail.
    fn rank(count: u64) -> (Arc<Ledger>, Arc<Mail>) {
        let ledger = Arc::new(Ledger::new(1, count, true));
        ledger.all_announced();
        let mail = Arc::new(Mail::new(&ledger, None));
        (ledger, mail)
    }

    fn n_taken(mail: &Mail) -> usize {
        let mut taken = Vec::new();
        mail.take(&mut taken);
        taken.len()
    }

    fn deliver(mail: &Arc<Mail>, times: usize) -> thread::JoinHandle<()> {
        let mail = mail.clone();
        thread::spawn(move || (0..times).for_each(|_| mail.deliver(Rank(1), parcel())))
    }

    #[test]
    fn loom_whoever_waits_for_mail_gets_all_of_it() {
        loom::model(|| {
            let (ledger, mail) = rank(2);
            let other = deliver(&mail, 2);
            let mut taken = 0;
            while taken < 2 {
                mail.bell().wait_mail();
                assert!(ledger.has_mail(), "who was woken finds something");
                taken += n_taken(&mail);
            }
            assert!(!ledger.has_mail() && !mail.bell().has_mail());
            other.join().unwrap();
        });
    }

    /// A worker that sleeps in a place of its executor's, as the pool's do.
    #[test]
    fn loom_mail_wakes_a_worker_that_looked_before_it_slept() {
        #[derive(Default)]
        struct Bed {
            listed: bool,
            called: bool,
        }
        loom::model(|| {
            let (ledger, mail) = rank(1);
            let bed = Arc::new((Mutex::new(Bed::default()), Condvar::new()));
            let called = bed.clone();
            mail.bell().on_mail(Box::new(move || {
                let mut bed = called.0.lock().unwrap();
                bed.called = std::mem::take(&mut bed.listed);
                called.1.notify_one();
            }));
            let other = deliver(&mail, 1);
            bed.0.lock().unwrap().listed = true;
            if !mail.bell().has_mail() {
                let mut asleep = bed.0.lock().unwrap();
                while !asleep.called {
                    asleep = bed.1.wait(asleep).unwrap();
                }
            }
            // It may see the ledger late: then it comes again, for there is mail still.
            while !ledger.has_mail() {
                thread::yield_now();
            }
            assert_eq!(n_taken(&mail), 1);
            other.join().unwrap();
        });
    }

    /// What a visit does: for each parcel it runs a task that makes so many words, and takes one
    /// word that lies in the queue, if any does. What it ran, it notes without any order.
    struct OneVisit {
        ledger: Arc<Ledger>,
        mail: Arc<Mail>,
        ran: AtomicU64,
        takes: u64,
        makes: u64,
    }

    impl Work for OneVisit {
        fn work(&self, _: &mut dyn Lane) -> u64 {
            self.ledger.all_announced();
            let mut tally = self.ledger.line(0).read();
            let tasks = n_taken(&self.mail) as u64 + self.takes;
            self.ran.fetch_add(tasks, Ordering::Relaxed);
            tally.executed += tasks;
            tally.queued += tasks * self.makes;
            tally.taken += self.takes;
            self.ledger.line(0).publish(&tally);
            tasks
        }
        fn is_drained(&self) -> bool {
            self.ledger.is_drained()
        }
        fn refuse(&self, _: String) {}
    }

    struct NoLane;

    impl Lane for NoLane {
        fn worker(&self) -> usize {
            0
        }
        fn push(&mut self, _: u64, _: i64) {}
        fn pop(&mut self) -> Option<u64> {
            None
        }
        fn steal(&mut self) -> Option<u64> {
            None
        }
        fn outranks(&self, _: i64) -> bool {
            false
        }
    }

    /// One visit of a worker while another thread feels the pulse; it may look at `ran` if idle.
    fn visited(visit: &OneVisit, then: impl Fn(Pulse, &AtomicU64)) {
        let offered = Offered::new(visit, visit.mail.bell().clone(), 0, |run| run.ledger.stop());
        visit.mail.set_job(offered.job());
        let job = offered.job().clone();
        let worker = thread::spawn(move || {
            if let Some(entered) = job.enter() {
                entered.work(&mut NoLane);
            }
        });
        then(visit.mail.pulse(), &visit.ran);
        worker.join().unwrap();
    }

    #[test]
    fn loom_whoever_finds_a_rank_idle_sees_what_it_did() {
        loom::model(|| {
            let (ledger, mail) = rank(9);
            mail.deliver(Rank(1), parcel());
            let visit = OneVisit {
                ledger,
                mail,
                ran: AtomicU64::new(0),
                takes: 0,
                makes: 0,
            };
            visited(&visit, |pulse, ran| {
                if pulse.idle {
                    assert_eq!(pulse.executed, 1, "the parcel was taken");
                    assert_eq!(ran.load(Ordering::Relaxed), 1);
                }
            });
        });
    }

    /// Found by Miri: seen to have announced its roots, but not yet to have come in.
    #[test]
    fn loom_a_rank_is_not_idle_before_its_first_visit_has_ended() {
        loom::model(|| {
            let ledger = Arc::new(Ledger::new(1, 9, true));
            let mail = Arc::new(Mail::new(&ledger, None));
            let visit = OneVisit {
                ledger,
                mail,
                ran: AtomicU64::new(0),
                takes: 1,
                makes: 2,
            };
            visited(&visit, |pulse, _| assert!(!pulse.idle, "{pulse:?}"));
        });
    }

    #[test]
    fn loom_a_rank_with_words_in_its_queue_is_never_idle() {
        loom::model(|| {
            let (ledger, mail) = rank(9);
            let mut tally = ledger.line(0).read();
            tally.queued = 1;
            ledger.line(0).publish(&tally);
            let visit = OneVisit {
                ledger,
                mail,
                ran: AtomicU64::new(0),
                takes: 1,
                makes: 2,
            };
            visited(&visit, |pulse, _| assert!(!pulse.idle, "{pulse:?}"));
        });
    }
}
