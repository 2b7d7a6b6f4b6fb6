//! Queues: where the ready tasks of one job wait, and a worker's lane to them.
//!
//! A [policy](crate::policy) decides of what kind they are; each kind has its own lane, chosen
//! when a worker enters the job, so that no push or pop asks again.
//!
//! # Law
//! A word that was pushed comes out once. A lane that is closed leaves nothing of its own behind
//! unless the job is stopping.

mod custom;
mod kept;
mod kit;
mod nodes;
mod ranked;
mod workers;

pub(crate) use custom::IN_VAIN;
pub(crate) use kept::KeepingLane;
pub(crate) use kit::{Backlog, Habits, Kit, Parting};

use crate::crew::Crew;
use crate::policy::{Placer, Policy, Queueing};
use crate::sleep::Risen;
use custom::{CustomLane, CustomQueue};
use dataflow_core::port::Lane;
use nodes::{NodeQueues, NodesLane};
use workers::{WorkerQueues, WorkersLane};

/// The queues of one job.
pub(crate) struct Queues {
    kind: Arrangement,
    placer: Placer,
}

enum Arrangement {
    Workers(Box<WorkerQueues>),
    Nodes(NodeQueues),
    Custom(Box<CustomQueue>),
}

impl Queues {
    pub fn new(policy: &Policy, crew: &Crew) -> Self {
        let n_nodes = crew.n_numa_nodes();
        let kind = match &policy.queues {
            Queueing::Workers => {
                Arrangement::Workers(Box::new(WorkerQueues::new(crew.n_workers(), n_nodes)))
            }
            Queueing::Nodes(order) => Arrangement::Nodes(NodeQueues::new(*order, n_nodes)),
            Queueing::Shared(order) => Arrangement::Nodes(NodeQueues::new(*order, 1)),
            Queueing::Custom(scheduler) => {
                Arrangement::Custom(Box::new(CustomQueue::open(&**scheduler, crew)))
            }
        };
        Queues {
            kind,
            placer: Placer::new(policy, crew.stand_ins()),
        }
    }

    /// Whether a word lies on a NUMA node, as far as the calling thread can see. What belongs to no
    /// node lies on all.
    pub fn has_words_on(&self, node: usize, crew: &Crew) -> bool {
        match &self.kind {
            Arrangement::Workers(queues) => queues.has_words_on(node, crew.workers_on(node)),
            Arrangement::Nodes(queues) => queues.has_words_on(node),
            Arrangement::Custom(queue) => queue.has_words(),
        }
    }

    /// Whether a word lies anywhere.
    pub fn has_words(&self, crew: &Crew) -> bool {
        (0..crew.n_numa_nodes()).any(|node| self.has_words_on(node, crew))
    }

    /// Whether a word lies where the worker may take it.
    pub fn has_words_for(&self, worker: usize, crew: &Crew) -> bool {
        match &self.kind {
            // It lies on all nodes: one question is enough.
            Arrangement::Custom(queue) => queue.has_words(),
            _ => crew.reach(worker).any(|node| self.has_words_on(node, crew)),
        }
    }

    /// In virtual time, where no task runs and a worker has looked in vain, or all have for long enough: what
    /// a user's scheduler did wrong, if it did.
    pub fn at_rest(&self, is_long: bool) -> Option<String> {
        match &self.kind {
            Arrangement::Workers(_) | Arrangement::Nodes(_) => None,
            Arrangement::Custom(queue) => queue.at_rest(is_long),
        }
    }

    /// The lane of the worker with `kit`.
    pub fn open<'q, 'p>(&'q self, kit: &'q Kit<'p>, risen: Risen) -> OpenLane<'q, 'p> {
        let placer = &self.placer;
        match &self.kind {
            Arrangement::Workers(queues) => {
                OpenLane::Workers(WorkersLane::open(queues, placer, kit, risen))
            }
            Arrangement::Nodes(queues) => {
                OpenLane::Nodes(NodesLane::open(queues, placer, kit, risen))
            }
            Arrangement::Custom(queue) => OpenLane::Custom(CustomLane::open(queue, kit, risen)),
        }
    }
}

/// A worker's lane to the queues of the job it is in.
pub(crate) enum OpenLane<'q, 'p> {
    Workers(WorkersLane<'q, 'p>),
    Nodes(NodesLane<'q, 'p>),
    Custom(CustomLane<'q, 'p>),
}

impl OpenLane<'_, '_> {
    pub fn as_lane(&mut self) -> &mut dyn Lane {
        match self {
            OpenLane::Workers(lane) => lane,
            OpenLane::Nodes(lane) => lane,
            OpenLane::Custom(lane) => lane,
        }
    }

    pub fn close(self) -> Parting {
        match self {
            OpenLane::Workers(lane) => lane.close(),
            OpenLane::Nodes(lane) => lane.close(),
            OpenLane::Custom(lane) => lane.close(),
        }
    }
}

/// All of a list, beginning with number `turn` of it.
fn from(list: &[usize], turn: usize) -> impl Iterator<Item = usize> + '_ {
    let (before, after) = list.split_at(turn.checked_rem(list.len()).unwrap_or(0));
    after.iter().chain(before).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::tests::{crew, in_a_row};
    use crate::policy::{Reach, ReadyQueue, Scheduler};
    use crate::sleep::Wards;
    use crate::statistics::Counters;
    use dataflow_core::port::{Hint, Ready, Word};
    use std::sync::{Arc, Mutex};

    /// What other jobs have.
    enum Holds {
        Nothing,
        WordsOn(usize),
        Words,
        Mail,
    }

    impl Backlog for Holds {
        fn has_words_on(&self, node: usize) -> bool {
            match self {
                Holds::Nothing | Holds::Mail => false,
                Holds::WordsOn(on) => *on == node,
                Holds::Words => true,
            }
        }

        fn has_mail(&self) -> bool {
            matches!(self, Holds::Mail)
        }
    }

    /// What each of three workers, on nodes 0, 0 and 2 of three, gets when it looks once after
    /// worker 0 has pushed a task with the hint; the flag says whether it was stolen.
    fn takers(policy: &str, hint: Hint) -> Vec<(usize, bool)> {
        let policy: Policy = policy.parse().unwrap();
        let crew = crew(&in_a_row(&[2, 0, 1]), policy.reach);
        let wards = Wards::new(&crew, policy.reaches_all());
        let counters = Counters::new(3);
        let kit = |worker| Kit::new(worker, &crew, &policy, &wards, &counters, &Holds::Nothing);
        let kits: Vec<Kit> = (0..3).map(kit).collect();
        let mut takers = Vec::new();
        for taker in 0..3 {
            let queues = Queues::new(&policy, &crew);
            let mut lanes: Vec<_> = kits
                .iter()
                .map(|kit| queues.open(kit, Risen::Free))
                .collect();
            let word: Word = 77;
            lanes[0]
                .as_lane()
                .push_ready(Ready::new(word, 0).with_hint(hint));
            assert!((0..3).any(|node| queues.has_words_on(node, &crew)));
            let lane = lanes[taker].as_lane();
            let popped = lane.pop();
            let stolen = popped.is_none().then(|| lane.steal()).flatten();
            if let Some(found) = popped.or(stolen) {
                assert_eq!(found, word);
                takers.push((taker, stolen.is_some()));
                assert!((0..3).all(|node| !queues.has_words_on(node, &crew)));
            }
        }
        takers
    }

    #[test]
    fn a_task_waits_where_its_data_lie_and_comes_from_there() {
        let everywhere = |home: usize| {
            (0..3)
                .map(|taker| (taker, taker != home))
                .collect::<Vec<_>>()
        };
        assert_eq!(takers("distance", Hint::None), everywhere(0));
        assert_eq!(takers("distance", Hint::Node(2)), everywhere(2));
        // Node 1 has no workers; node 0 is as near as node 2 and stands in.
        let near = [(0, false), (1, true), (2, true)];
        assert_eq!(takers("distance", Hint::Node(1)), near);
        assert_eq!(takers("distance-no-steal", Hint::Node(2)), [(2, false)]);
        assert_eq!(takers("priority,own", Hint::Node(2)), [(2, false)]);
        let shared = [(0, false), (1, false), (2, false)];
        assert_eq!(takers("oblivious", Hint::Node(2)), shared);
        let on_two = [(0, true), (1, true), (2, false)];
        assert_eq!(takers("fifo", Hint::Node(2)), on_two);
    }

    /// Of tasks that had come by mail none woke anybody: the worker that took the mail in was on
    /// duty, and took them from its own queue, which did not end its duty.
    #[test]
    fn whoever_is_on_duty_and_takes_a_task_from_whichever_queue_wakes_the_next() {
        for policy in [
            "distance",
            "distance-no-steal",
            "priority",
            "fifo",
            "oblivious",
        ] {
            let policy: Policy = policy.parse().unwrap();
            let crews = [&[2][..], &[2, 1]].map(|cores| crew(&in_a_row(cores), policy.reach));
            let kept = [0, 1, 3];
            let cases = crews.iter().flat_map(|crew| [(crew, 0), (crew, 5)]);
            for ((crew, priority), keep) in cases.flat_map(|case| kept.map(|keep| (case, keep))) {
                let wards = Wards::new(crew, policy.reaches_all());
                let counters = Counters::new(2);
                let kit = Kit::new(1, crew, &policy, &wards, &counters, &Holds::Words);
                let queues = Queues::new(&policy, crew);
                let ward = wards.of(0);
                let listed = [0, 1].map(|worker| ward.list(worker, 0, Risen::Free));
                let [first, second] = listed;
                wards.queued(0);
                // The latest sleeper is called.
                assert_eq!(ward.leave(second), Risen::OnDuty, "{policy}");
                let mut lane = queues.open(&kit, Risen::OnDuty);
                // As when mail is taken in: nobody is woken, for somebody is on duty.
                let mut keeping = KeepingLane::new(lane.as_lane(), keep);
                keeping.share(1, priority);
                keeping.share(2, priority);
                assert!(keeping.pop().is_some());
                // Now it keeps what it is to keep.
                keeping.push(3, 9);
                assert_eq!(keeping.into_kept().len(), usize::from(keep == 3));
                let risen = lane.close().risen;
                let what = format!("{policy}, keep={keep}");
                assert_eq!(risen, Risen::Free, "{what}: duty ends");
                assert_eq!(ward.leave(first), Risen::OnDuty, "{what}: the next is up");
            }
        }
    }

    /// While another pulls roots nothing can wait for a worker, so that is no leave.
    #[test]
    fn whoever_waits_in_a_body_takes_a_task_from_beyond_its_reach_and_nobody_else_does() {
        // Patience kept it from all but its own NUMA node, for as long as it pleased.
        let patient = ["distance,patience=1000000", "priority,patience=1000000"];
        let near = ["distance-no-steal", "distance,own", "priority,own"];
        for policy in near.into_iter().chain(patient) {
            let policy: Policy = policy.parse().unwrap();
            let crew = crew(&in_a_row(&[1, 1]), policy.reach);
            let wards = Wards::new(&crew, policy.reaches_all());
            let counters = [0, 1].map(|_| Counters::new(2));
            let kits = [0, 1].map(|worker| {
                Kit::new(
                    worker,
                    &crew,
                    &policy,
                    &wards,
                    &counters[worker],
                    &Holds::Words,
                )
            });
            let queues = Queues::new(&policy, &crew);
            let [mut here, mut there] = [0, 1].map(|node| queues.open(&kits[node], Risen::Free));
            let [here, there] = [here.as_lane(), there.as_lane()];
            here.push_ready(Ready::new(7, 0).with_hint(Hint::Node(0)));
            let mut steals = |in_body: Option<bool>| {
                in_body.map(|in_body| there.waits(in_body));
                (0..50).find_map(|_| there.steal())
            };
            assert_eq!([None, Some(false)].map(&mut steals), [None; 2], "{policy}");
            assert_eq!(steals(Some(true)), Some(7), "{policy}");
            here.push_ready(Ready::new(8, 0).with_hint(Hint::Node(0)));
            assert_eq!(
                steals(None),
                None,
                "{policy}: it has a task, and waits no more"
            );
        }
    }

    /// What workers on so many NUMA nodes do with the queues of `distance`, by the lane of each.
    fn on_lanes<R>(cores: &[usize], act: impl FnOnce(&Queues, &mut [OpenLane<'_, '_>]) -> R) -> R {
        let policy = Policy::distance();
        let crew = crew(&in_a_row(cores), policy.reach);
        let wards = Wards::new(&crew, policy.reaches_all());
        let counters: Vec<_> = (0..crew.n_workers())
            .map(|_| Counters::new(cores.len()))
            .collect();
        let kit =
            |(worker, counters)| Kit::new(worker, &crew, &policy, &wards, counters, &Holds::Words);
        let kits: Vec<Kit> = counters.iter().enumerate().map(kit).collect();
        let queues = Queues::new(&policy, &crew);
        let lanes = kits.iter().map(|kit| queues.open(kit, Risen::Free));
        act(&queues, &mut lanes.collect::<Vec<_>>())
    }

    #[test]
    fn whoever_runs_out_of_tasks_waits_once_for_what_a_neighbour_queues() {
        for priority in [0, 5] {
            on_lanes(&[2, 1], |_, lanes| {
                let [there, here, far] = lanes.get_disjoint_mut([0, 1, 2]).unwrap();
                let [there, here, far] = [there.as_lane(), here.as_lane(), far.as_lane()];
                here.push(1, priority);
                assert_eq!([here.pop(), here.steal()], [Some(1), None]);
                there.push(2, priority);
                assert!(here.lingers());
                assert_eq!([here.steal(), here.steal()], [Some(2), None]);
                assert!(!here.lingers(), "nobody queues anything");
                there.push(3, priority);
                assert!(!here.lingers(), "it has waited");
                assert_eq!(far.steal(), Some(3));
                assert_eq!(far.steal(), None);
                there.push(4, priority);
                assert!(!far.lingers(), "it has no neighbour");
            });
        }
    }

    /// It came back, to be sent away again, until the job was over.
    #[test]
    fn whoever_is_sent_away_from_its_work_is_not_said_to_have_left_because_there_was_none() {
        let policy = Policy::distance();
        let crew = crew(&in_a_row(&[2]), policy.reach);
        let (wards, counters) = (Wards::new(&crew, true), Counters::new(1));
        let kit = Kit::new(1, &crew, &policy, &wards, &counters, &Holds::Nothing);
        for looks_again in [false, true] {
            let queues = Queues::new(&policy, &crew);
            let mut lane = queues.open(&kit, Risen::Free);
            let here = lane.as_lane();
            assert_eq!(here.steal(), None);
            here.push(1, 0);
            assert_eq!(here.pop(), Some(1));
            assert!(!looks_again || here.steal().is_none());
            assert_eq!(lane.close().dry, looks_again);
        }
    }

    #[test]
    fn what_is_less_urgent_than_nothing_is_taken_last_by_neighbours_and_thieves() {
        on_lanes(&[2], |_, lanes| {
            lanes[0].as_lane().push(1, 0);
            lanes[1].as_lane().push(2, -5);
            assert_eq!(lanes[0].as_lane().pop(), Some(1), "its own goes before");
        });
        on_lanes(&[1, 1], |_, lanes| {
            lanes[0].as_lane().push(1, -5);
            lanes[0].as_lane().push(2, 0);
            let stolen = [(); 2].map(|()| lanes[1].as_lane().steal());
            assert_eq!(stolen, [Some(2), Some(1)]);
        });
    }

    /// Where tasks lie for their data's sake they stay.
    #[test]
    fn a_thief_takes_one_task_from_another_node_and_leaves_the_rest_there() {
        let crew = crew(&in_a_row(&[1, 1]), Reach::All);
        for (priority, taken) in [(5, 4), (0, 1)] {
            on_lanes(&[1, 1], |queues, lanes| {
                (1..=4).for_each(|word| lanes[0].as_lane().push(word, priority));
                assert_eq!(lanes[1].as_lane().steal(), Some(taken));
                assert!(queues.has_words_on(0, &crew) && !queues.has_words_on(1, &crew));
            });
        }
    }

    /// Thieves that all began with the same victim would be in each other's way.
    #[test]
    fn a_thief_begins_each_time_with_another_node_of_those_equally_far() {
        on_lanes(&[1, 1, 1], |_, lanes| {
            for victim in [0, 2] {
                let words = [10, 11].map(|word| word + 10 * victim as Word);
                words
                    .into_iter()
                    .for_each(|word| lanes[victim].as_lane().push(word, 0));
            }
            let stolen = [(); 4].map(|()| lanes[1].as_lane().steal());
            assert_eq!(stolen, [30, 10, 31, 11].map(Some));
        });
    }

    #[test]
    fn a_worker_takes_what_is_more_urgent_than_nothing_first_and_of_equals_its_own() {
        on_lanes(&[1, 1], |_, lanes| {
            lanes[0].as_lane().push(1, 1);
            let placed = Ready::new(2, 1).with_hint(Hint::Node(0));
            lanes[1].as_lane().push_ready(placed);
            lanes[0].as_lane().push(3, 0);
            let taken = [(); 3].map(|()| lanes[0].as_lane().pop());
            assert_eq!(taken, [1, 2, 3].map(Some));
        });
    }

    #[test]
    fn thieves_of_one_node_begin_behind_themselves() {
        on_lanes(&[3], |_, lanes| {
            for victim in [0, 2] {
                lanes[victim].as_lane().push(10 + victim as Word, 0);
            }
            assert_eq!(lanes[1].as_lane().steal(), Some(12));
        });
    }

    #[test]
    fn what_lies_on_another_node_is_read_from_afar() {
        on_lanes(&[1, 1], |_, lanes| {
            let lane = lanes[1].as_lane();
            assert_eq!(
                [0, 1, 9].map(|node| lane.reads(node, 5)),
                [false, true, false]
            );
        });
    }

    #[test]
    fn glances_go_round_so_many_neighbours_at_a_time() {
        let policy = Policy::distance();
        let crew = crew(&in_a_row(&[1]), policy.reach);
        let (wards, counters) = (Wards::new(&crew, true), Counters::new(1));
        let kit = Kit::new(0, &crew, &policy, &wards, &counters, &Holds::Words);
        assert_eq!([(); 4].map(|()| kit.glance(20, 8)), [0, 8, 16, 4]);
    }

    /// The worker that queued a task there meanwhile woke nobody, since one was on duty.
    #[test]
    fn whoever_ends_its_duty_wakes_for_what_lies_within_its_reach_and_for_nothing_else() {
        for (reach, wakes) in [("own", false), ("adjacent", true)] {
            let policy: Policy = format!("priority,{reach}").parse().unwrap();
            let crew = crew(&in_a_row(&[1, 1]), policy.reach);
            let wards = Wards::new(&crew, policy.reaches_all());
            let counters = Counters::new(2);
            let kit = Kit::new(0, &crew, &policy, &wards, &counters, &Holds::WordsOn(1));
            let listed = wards.of(1).list(1, 1, Risen::Free);
            assert_eq!(kit.gets_busy(Risen::OnDuty), Risen::Free);
            let risen = wards.of(1).leave(listed);
            assert_eq!(risen == Risen::OnDuty, wakes, "{policy}");
        }
    }

    /// The worker that was woken for it had taken a task of another run: that run's mail waited for a worker to
    /// run dry, though others slept.
    #[test]
    fn whoever_was_woken_and_takes_a_task_wakes_for_mail_a_sleeper_of_whichever_numa_node() {
        let cases = [("distance", 0), ("distance", 1), ("distance-no-steal", 1)];
        let woken = [Risen::OnDuty, Risen::ForMail];
        let cases = cases
            .iter()
            .flat_map(|case| woken.map(|risen| (case, risen)));
        for ((policy, asleep), risen) in cases {
            let policy: Policy = policy.parse().unwrap();
            let crew = crew(&in_a_row(&[2, 1]), policy.reach);
            let wards = Wards::new(&crew, policy.reaches_all());
            let counters = Counters::new(2);
            let kit = Kit::new(0, &crew, &policy, &wards, &counters, &Holds::Mail);
            let queues = Queues::new(&policy, &crew);
            let mut lane = queues.open(&kit, risen);
            lane.as_lane().push(7, 0);
            let (ward, sleeper) = (wards.of(*asleep), asleep + 1);
            let listed = ward.list(sleeper, *asleep, Risen::Free);
            assert!(lane.as_lane().pop().is_some());
            let what = format!("{policy}, asleep on {asleep}, {risen:?}");
            assert!(ward.is_called(sleeper), "{what}");
            let _risen = ward.leave(listed);
            assert_eq!(lane.close().risen, Risen::Free, "{what}");
        }
    }

    /// A scheduler of a user's.
    #[derive(Debug)]
    struct Heaps;

    impl Scheduler for Heaps {
        fn name(&self) -> &str {
            "heaps"
        }
        fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
            Box::new(Heap(Mutex::default()))
        }
    }

    struct Heap(Mutex<Vec<Ready>>);

    impl ReadyQueue for Heap {
        fn push(&self, _: usize, task: Ready) {
            self.0.lock().unwrap().push(task);
        }
        fn take(&self, _: usize) -> Option<Ready> {
            self.0.lock().unwrap().pop()
        }
        fn is_empty(&self) -> bool {
            self.0.lock().unwrap().is_empty()
        }
    }

    /// Tasks that a user's scheduler got woke nobody: the worker that had queued them ran them all.
    #[test]
    fn whoever_queues_a_task_wakes_a_sleeper_under_every_policy() {
        let named = [
            "distance",
            "distance-no-steal",
            "priority",
            "priority,own",
            "oblivious",
        ];
        let named = named.iter().map(|policy| policy.parse().unwrap());
        for policy in named.chain([Policy::custom(Arc::new(Heaps))]) {
            let crew = crew(&in_a_row(&[2, 1]), policy.reach);
            let wards = Wards::new(&crew, policy.reaches_all());
            let counters = Counters::new(2);
            let kit = Kit::new(0, &crew, &policy, &wards, &counters, &Holds::Nothing);
            let ready = |hint| Ready::new(7, 5).with_hint(hint);
            type Push<'t> = &'t dyn Fn(&mut dyn Lane);
            let pushes: [(usize, Push<'_>); 4] = [
                (1, &|lane| lane.push(7, 0)),
                (1, &|lane| lane.push(7, 5)),
                (1, &|lane| lane.push_ready(ready(Hint::None))),
                (2, &|lane| lane.push_ready(ready(Hint::Node(1)))),
            ];
            for (sleeper, push) in pushes {
                let queues = Queues::new(&policy, &crew);
                let ward = wards.of(crew.numa_node(sleeper));
                let listed = ward.list(sleeper, crew.numa_node(sleeper), Risen::Free);
                let mut lane = queues.open(&kit, Risen::Free);
                push(lane.as_lane());
                let risen = ward.leave(listed);
                assert_eq!(risen, Risen::OnDuty, "{policy}");
                ward.end_duty(0, || false);
            }
        }
    }

    /// While a thief has them in hand, a worker that looks for them sees nothing and falls asleep.
    #[test]
    fn whoever_steals_more_than_it_runs_wakes_a_sleeper_for_the_rest() {
        let policy = Policy::distance();
        let crew = crew(&in_a_row(&[3]), policy.reach);
        // Of a single task nothing is left.
        for (priority, n_tasks) in [(5, 3), (0, 3), (5, 1), (0, 1)] {
            let wards = Wards::new(&crew, true);
            let counters = Counters::new(1);
            let kit = |worker| Kit::new(worker, &crew, &policy, &wards, &counters, &Holds::Nothing);
            let (victim, thief) = (kit(0), kit(1));
            let queues = Queues::new(&policy, &crew);
            let mut lane = queues.open(&victim, Risen::Free);
            (1..=n_tasks).for_each(|word| lane.as_lane().push(word, priority));
            let listed = wards.of(0).list(2, 0, Risen::Free);
            assert!(queues.open(&thief, Risen::Free).as_lane().steal().is_some());
            let is_woken = wards.of(0).leave(listed) == Risen::OnDuty;
            assert_eq!(is_woken, n_tasks > 1, "{n_tasks} of priority {priority}");
        }
    }

    /// One of the three is the engine's own.
    #[test]
    fn a_worker_that_keeps_three_tasks_keeps_the_two_most_urgent_and_queues_the_rest() {
        let policy = Policy::distance();
        let crew = crew(&in_a_row(&[1]), policy.reach);
        let wards = Wards::new(&crew, true);
        let counters = Counters::new(1);
        let kit = Kit::new(0, &crew, &policy, &wards, &counters, &Holds::Nothing);
        let queues = Queues::new(&policy, &crew);
        let mut lane = queues.open(&kit, Risen::Free);
        let mut keeping = KeepingLane::new(lane.as_lane(), 3);
        keeping.push(1, 5);
        keeping.push(2, 7);
        assert!(!queues.has_words_on(0, &crew));
        keeping.push(3, 6);
        assert!(queues.has_words_on(0, &crew));
        let order: Vec<Word> = std::iter::from_fn(|| keeping.pop()).collect();
        assert_eq!(order, [2, 3, 1]);
    }

    /// A root, or what came by mail, was kept although others were idle, and what is kept went first.
    #[test]
    fn a_worker_keeps_successors_only_and_takes_what_is_queued_first_if_it_is_more_urgent() {
        for policy in ["distance", "priority", "oblivious"] {
            let policy: Policy = policy.parse().unwrap();
            let crew = crew(&in_a_row(&[1]), policy.reach);
            let wards = Wards::new(&crew, true);
            let counters = Counters::new(1);
            let kit = Kit::new(0, &crew, &policy, &wards, &counters, &Holds::Nothing);
            let queues = Queues::new(&policy, &crew);
            let mut lane = queues.open(&kit, Risen::Free);
            let mut keeping = KeepingLane::new(lane.as_lane(), 3);
            keeping.share(1, 6);
            assert!(queues.has_words_on(0, &crew));
            keeping.push(2, 5);
            keeping.push(3, 7);
            keeping.share(4, 5);
            let order: Vec<Word> = std::iter::from_fn(|| keeping.pop()).collect();
            assert_eq!(order, [3, 1, 2, 4], "{policy}: of equal ones what is kept");
        }
    }

    #[test]
    fn patience_holds_a_thief_back_for_so_many_rounds() {
        let policy: Policy = "distance,patience=3".parse().unwrap();
        let crew = crew(&in_a_row(&[1, 1]), policy.reach);
        let wards = Wards::new(&crew, true);
        let counters = [Counters::new(2), Counters::new(2)];
        let kit = |worker: usize| {
            Kit::new(
                worker,
                &crew,
                &policy,
                &wards,
                &counters[worker],
                &Holds::Nothing,
            )
        };
        let kits = [kit(0), kit(1)];
        let queues = Queues::new(&policy, &crew);
        let mut victim = queues.open(&kits[0], Risen::Free);
        (1..=3).for_each(|word| victim.as_lane().push(word, 0));
        // The count of idle rounds outlives the lane, and a task found starts it again.
        for round in 0..4 {
            let mut thief = queues.open(&kits[1], Risen::Free);
            assert_eq!(
                thief.as_lane().steal().is_some(),
                round == 3,
                "round {round}"
            );
        }
        let mut thief = queues.open(&kits[1], Risen::Free);
        thief.as_lane().push(9, 0);
        assert_eq!(thief.as_lane().pop(), Some(9));
        assert_eq!(thief.as_lane().steal(), None);
        assert_eq!(counters[1].read(1, &crew).total().steals, 1);
        // So does one with which it left.
        assert!(
            (0..3).any(|_| thief.as_lane().steal().is_some()),
            "no patience is left"
        );
        let _busy = thief.close();
        let mut thief = queues.open(&kits[1], Risen::Free);
        assert_eq!(thief.as_lane().steal(), None);
    }
}
