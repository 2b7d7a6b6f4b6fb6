//! Random runs with two oracles: the truth, which only the test can see, and Safra's ring.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % n
    }
}

/// Ranks that work, send work to each other, and look for the end.
struct Ranks {
    family: Vec<TreePlace>,
    waves: Vec<Waves>,
    busy: Vec<bool>,
    sent: Vec<u64>,
    delivered: Vec<u64>,
    /// Work and words under way: from, to, what. Words keep their order, work does not.
    work: Vec<(usize, usize)>,
    words: VecDeque<(usize, usize, Next)>,
    safra: Safra,
    now: Duration,
    quiet: bool,
}

/// Dijkstra's account of Safra's algorithm (EWD 998): a token with a count and a colour goes round.
struct Safra {
    counts: Vec<i64>,
    black: Vec<bool>,
    token: Option<(usize, i64, bool)>,
    ended: bool,
}

impl Safra {
    /// The token moves on if its holder is at rest; rank 0 judges it.
    fn step(&mut self, busy: &[bool]) {
        let n = busy.len();
        let (at, count, black) = self.token.unwrap_or((0, 0, true));
        if busy[at] {
            return;
        }
        if at == 0 {
            let ends =
                self.token.is_some() && !black && !self.black[0] && count + self.counts[0] == 0;
            self.ended |= ends;
            self.black[0] = false;
            self.token = Some((n - 1, 0, false));
        } else {
            self.token = Some((at - 1, count + self.counts[at], black || self.black[at]));
            self.black[at] = false;
        }
    }
}

impl Ranks {
    fn new(n: usize) -> Self {
        let silence = Duration::from_secs(1000);
        Ranks {
            family: (0..n as u32)
                .map(|rank| TreePlace::of(Rank(rank), n))
                .collect(),
            waves: (0..n)
                .map(|_| Waves::new(Duration::from_millis(1), silence))
                .collect(),
            busy: vec![true; n],
            sent: vec![0; n],
            delivered: vec![0; n],
            work: vec![],
            words: VecDeque::new(),
            safra: Safra {
                counts: vec![0; n],
                black: vec![false; n],
                token: None,
                ended: false,
            },
            now: Duration::ZERO,
            quiet: false,
        }
    }

    fn is_over(&self) -> bool {
        self.work.is_empty() && self.busy.iter().all(|busy| !busy)
    }

    /// One random thing happens.
    fn step(&mut self, random: &mut Random, left: &mut usize) {
        self.now += Duration::from_millis(1);
        let rank = random.below(self.busy.len());
        match random.below(6) {
            0 if self.busy[rank] => self.busy[rank] = random.below(3) > 0,
            1 if self.busy[rank] && *left > 0 => {
                *left -= 1;
                self.work.push((rank, random.below(self.busy.len())));
                self.sent[rank] += 1;
                self.safra.counts[rank] += 1;
            }
            2 if !self.work.is_empty() => {
                let (_, to) = self.work.swap_remove(random.below(self.work.len()));
                self.delivered[to] += 1;
                self.busy[to] = true;
                self.safra.counts[to] -= 1;
                self.safra.black[to] = true;
            }
            3 => self.safra.step(&self.busy),
            4 => self.hear(),
            _ => self.act(rank),
        }
    }

    fn act(&mut self, rank: usize) {
        let standing = Standing {
            listens: Duration::ZERO,
            dry: !self.busy[rank],
            short: true,
            sent: self.sent[rank],
            delivered: self.delivered[rank],
            came: 0,
        };
        let family = &self.family[rank];
        while let Some(next) = self.waves[rank].next(family, standing, self.now) {
            match next {
                Next::Dry | Next::Tally(..) => {
                    self.words
                        .push_back((rank, family.parent.unwrap().0 as usize, next))
                }
                Next::Wave(_) => self.words.extend(
                    family
                        .children
                        .iter()
                        .map(|child| (rank, child.0 as usize, next)),
                ),
                Next::Quiet(_) => self.quiet = true,
                Next::Lost(_) => unreachable!("nothing is lost here"),
            }
        }
    }

    fn hear(&mut self) {
        let Some((from, to, word)) = self.words.pop_front() else {
            return;
        };
        match word {
            Next::Dry => self.waves[to].hear_dry(),
            Next::Wave(round) => {
                self.waves[to].hear_wave(round);
                let children = self.family[to].children.iter();
                self.words
                    .extend(children.map(|child| (to, child.0 as usize, word)));
            }
            Next::Tally(round, tally) => self.waves[to].hear_tally(Rank(from as u32), round, tally),
            Next::Quiet(_) | Next::Lost(_) => {
                unreachable!("only the root says this, and here only to us")
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_end_is_found_and_never_before_it_has_come(seed in any::<u64>(), n in 1usize..9, messages in 0usize..40) {
        let (mut random, mut ranks, mut left) = (Random(seed), Ranks::new(n), messages);
        let mut steps = 0;
        while !ranks.quiet || !ranks.safra.ended {
            ranks.step(&mut random, &mut left);
            prop_assert!(!ranks.quiet || ranks.is_over(), "a wave ended early");
            prop_assert!(!ranks.safra.ended || ranks.is_over(), "Safra agrees with the truth");
            steps += 1;
            prop_assert!(steps < 100_000, "the end was not found");
        }
    }
}

fn alone(delivered: u64) -> Standing {
    Standing {
        listens: Duration::ZERO,
        dry: true,
        short: true,
        sent: 5,
        delivered,
        came: 0,
    }
}

#[test]
fn one_wave_proves_nothing_and_two_alike_do() {
    let (family, mut waves) = (
        TreePlace::of(Rank(0), 1),
        Waves::new(Duration::ZERO, Duration::from_secs(9)),
    );
    let at = Duration::from_secs(1);
    assert_eq!(waves.next(&family, alone(5), at), Some(Next::Wave(1)));
    assert_eq!(
        waves.next(&family, alone(5), at),
        None,
        "the first is noted"
    );
    assert_eq!(waves.next(&family, alone(5), at), Some(Next::Wave(2)));
    assert_eq!(waves.next(&family, alone(5), at), Some(Next::Quiet(2)));
}

/// What they say was so then.
#[test]
fn answers_to_a_wave_that_was_given_up_count_for_no_other() {
    let (family, mut waves) = (
        TreePlace::of(Rank(0), 2),
        Waves::new(Duration::ZERO, Duration::from_secs(9)),
    );
    let (early, late) = (Duration::from_secs(1), Duration::from_secs(20));
    let tally = waves.sum(alone(5));
    assert_eq!(waves.next(&family, alone(5), early), Some(Next::Wave(1)));
    assert_eq!(waves.next(&family, alone(5), late), Some(Next::Wave(2)));
    waves.hear_tally(Rank(1), 1, tally);
    assert_eq!(waves.next(&family, alone(5), late), None);
    assert!(waves.is_held(), "rank 1 has not answered");
    waves.hear_tally(Rank(1), 2, tally);
    assert_eq!(waves.next(&family, alone(5), late), None);
    assert!(!waves.is_held());
}

#[test]
fn parcels_that_stay_under_way_for_too_long_are_lost() {
    let (family, mut waves) = (
        TreePlace::of(Rank(0), 1),
        Waves::new(Duration::from_secs(1), Duration::from_secs(9)),
    );
    let next = |waves: &mut Waves, at: u64| waves.next(&family, alone(4), Duration::from_secs(at));
    let found: Vec<(u64, Next)> = (0..30)
        .filter_map(|at| Some((at, next(&mut waves, at)?)))
        .collect();
    let lost = found.iter().find(|(_, next)| matches!(next, Next::Lost(_)));
    let (at, _) = lost.expect("5 were sent and 4 delivered");
    assert!((10..=13).contains(at), "{found:?}");
}

/// Of what came before it listened a rank has taken in nothing.
#[test]
fn no_parcels_are_lost_before_ranks_have_listened_for_that_long() {
    let (family, mut waves) = (
        TreePlace::of(Rank(0), 1),
        Waves::new(Duration::from_secs(1), Duration::from_secs(9)),
    );
    let listens = Duration::from_secs(20);
    let standing = Standing {
        listens,
        ..alone(4)
    };
    let mut found = (0..50).filter_map(|at| {
        let next = waves.next(&family, standing, Duration::from_secs(at))?;
        matches!(next, Next::Lost(_)).then_some(at)
    });
    let at = found.next().expect("5 were sent and 4 delivered");
    assert!((30..=33).contains(&at), "{at}");
}

/// Nobody else would tell the root.
#[test]
fn a_rank_that_has_run_all_its_tasks_hands_on_that_one_below_is_dry_and_again_after_a_while() {
    let (family, silence) = (TreePlace::of(Rank(2), 4), Duration::from_secs(9));
    assert!(family.parent.is_some() && family.is_child(Rank(3)));
    let mut waves = Waves::new(Duration::from_secs(1), silence);
    let standing = Standing {
        short: false,
        ..alone(5)
    };
    let mut next = |hears: bool, at| {
        if hears {
            waves.hear_dry();
        }
        waves.next(&family, standing, Duration::from_secs(at))
    };
    assert_eq!(next(false, 1), None);
    assert_eq!([next(true, 1), next(false, 1)], [Some(Next::Dry), None]);
    assert_eq!([next(true, 9), next(false, 10)], [None, Some(Next::Dry)]);
}

/// Bytes of one come until then.
#[test]
fn parcels_are_waited_for_from_when_the_sums_last_changed() {
    let (family, mut waves) = (
        TreePlace::of(Rank(0), 1),
        Waves::new(Duration::from_secs(1), Duration::from_secs(9)),
    );
    let mut found = (0..50).filter_map(|at: u64| {
        let standing = Standing {
            came: at.min(20),
            ..alone(4)
        };
        let next = waves.next(&family, standing, Duration::from_secs(at))?;
        matches!(next, Next::Lost(_)).then_some(at)
    });
    let at = found.next().expect("5 were sent and 4 delivered");
    assert!((30..=33).contains(&at), "{at}");
}

#[test]
fn the_root_wakes_for_the_next_wave_when_its_pause_is_over() {
    let (family, pause) = (TreePlace::of(Rank(0), 1), Duration::from_secs(2));
    let mut waves = Waves::new(pause, Duration::from_secs(9));
    let at = Duration::from_secs;
    assert_eq!(waves.wakes(at(1)), None, "nobody is dry");
    assert_eq!(waves.next(&family, alone(4), at(1)), Some(Next::Wave(1)));
    assert_eq!(waves.wakes(at(1)), None, "it is under way");
    assert_eq!(waves.next(&family, alone(4), at(1)), None, "it has ended");
    assert_eq!(waves.wakes(at(1)), Some(at(3)));
    assert_eq!(waves.next(&family, alone(4), at(2)), None, "it pauses");
    assert_eq!(waves.next(&family, alone(4), at(3)), Some(Next::Wave(2)));
}
