//! What is announced is asked for, most urgent first, within the window.

use super::wanted::MOST;
use super::*;
use crate::broadcast::{BranchReach, TreeShape};
use crate::transport::{KeepAlive, Room};
use crate::wire::Get;
use dataflow_core::port::{Arrival, Cargo, Heap, Memory, Parcel};
use dataflow_core::rank::Rank;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use std::time::Duration;

const FROM: Rank = Rank(1);

/// A datum that is packed for the purpose.
struct Packed(Vec<u8>);

impl Cargo for Packed {
    fn head(&self) -> SmallVec<[u8; 32]> {
        SmallVec::new()
    }
    fn size(&self) -> usize {
        self.0.len()
    }
    fn body(&self) -> std::borrow::Cow<'_, [u8]> {
        self.0.clone().into()
    }
}

fn offered(bytes: Vec<u8>) -> OfferedDatum {
    let size = bytes.len();
    OfferedDatum::new(smallvec![7], Arc::new(Packed(bytes)), size)
}

fn parcel(number: u32, n_flows: u16) -> Complete {
    let arrival = Arrival {
        task: smallvec![number],
        poisoned: false,
        flows: (0..n_flows).map(|flow| (flow, None)).collect(),
    };
    Complete {
        from: FROM,
        number,
        receipt: false,
        onward: None,
        arrival,
    }
}

fn announce(wanted: &mut Wanted, number: u32, priority: i64, sizes: &[usize]) {
    let missing = sizes
        .iter()
        .enumerate()
        .map(|(position, &size)| (position as u16, smallvec![7], size));
    wanted.announce(priority, parcel(number, sizes.len() as u16), missing);
}

fn ask_all(wanted: &mut Wanted) -> Vec<(Get, Room)> {
    std::iter::from_fn(|| wanted.ask(&Heap, Duration::ZERO))
        .map(|(_, get, room)| (get, room))
        .collect()
}

#[test]
fn the_most_urgent_is_asked_for_first_then_the_oldest() {
    let mut wanted = Wanted::new(1000, 1000, 9);
    for (number, priority) in [(0, 1), (1, 5), (2, 5), (3, 2)] {
        announce(&mut wanted, number, priority, &[10]);
    }
    let numbers: Vec<u32> = ask_all(&mut wanted)
        .iter()
        .map(|(get, _)| get.number)
        .collect();
    assert_eq!(numbers, [1, 2, 3, 0]);
}

#[test]
fn the_window_is_never_exceeded_but_one_is_always_allowed() {
    for (window, asked) in [(1, 1), (10, 1), (20, 2), (25, 2), (100, 4)] {
        let mut wanted = Wanted::new(window, 1000, 9);
        (0..4).for_each(|number| announce(&mut wanted, number, 0, &[10]));
        assert_eq!(ask_all(&mut wanted).len(), asked, "a window of {window}");
        assert_eq!(wanted.bytes_under_way(), 10 * asked);
    }
}

#[test]
fn so_many_are_asked_for_at_most_however_small_they_are() {
    let mut wanted = Wanted::new(usize::MAX, 1000, 1 << 20);
    announce(&mut wanted, 0, 0, &[1; 3 * MOST]);
    for _ in 0..3 {
        let asked = ask_all(&mut wanted);
        assert_eq!(asked.len(), MOST);
        for (get, room) in asked {
            _ = wanted.arrived(FROM, get.tag, room, 1).unwrap();
        }
    }
    assert!(wanted.is_settled() && !wanted.wants_more());
}

#[test]
fn a_datum_too_long_for_the_transport_comes_in_parts_and_whole() {
    let (mut wanted, mut unclaimed) = (Wanted::new(1, 7, 2), Unclaimed::default());
    let bytes: Vec<u8> = (0..50).collect();
    unclaimed.put(Rank(0), (3, 0), offered(bytes.clone()));
    announce(&mut wanted, 3, 0, &[50]);
    let mut parts = 0;
    loop {
        let (from, get, mut room) = wanted.ask(&Heap, Duration::ZERO).unwrap();
        assert!(wanted.bytes_under_way() <= 7);
        let (payload, wrong) = unclaimed.give(Rank(0), &get).unwrap();
        assert!(wrong.is_none(), "{wrong:?}");
        let filled = room.fill(&payload);
        parts += 1;
        match wanted.arrived(from, get.tag, room, filled).unwrap() {
            Progressed::Part => {}
            Progressed::Datum => unreachable!("it has one datum"),
            Progressed::Parcel(parcel) => {
                let goods = parcel.arrival.flows[0].1.as_ref().unwrap();
                assert_eq!(
                    (goods.body.bytes(), &goods.head[..]),
                    (&bytes[..], &[7][..])
                );
                break;
            }
        }
    }
    assert_eq!(parts, 8);
    assert!(wanted.is_settled());
}

#[test]
fn with_the_first_of_its_data_a_parcel_begins_and_with_no_other() {
    let mut wanted = Wanted::new(1000, 1000, 9);
    announce(&mut wanted, 4, 0, &[10, 20]);
    let tags: Vec<u32> = ask_all(&mut wanted)
        .iter()
        .map(|(get, _)| get.tag)
        .collect();
    let mut begins = tags.iter().map(|tag| wanted.begins(FROM, *tag).cloned());
    assert_eq!(begins.next().flatten(), Some(smallvec![4]));
    assert_eq!(begins.next().flatten(), None);
}

#[test]
fn a_parcel_is_complete_with_its_last_datum_in_any_order() {
    let mut wanted = Wanted::new(1000, 1000, 9);
    announce(&mut wanted, 0, 0, &[10, 20, 30]);
    let mut asked = ask_all(&mut wanted);
    asked.reverse();
    for (i, (get, room)) in asked.into_iter().enumerate() {
        let progressed = wanted
            .arrived(FROM, get.tag, room, get.length as usize)
            .unwrap();
        assert_eq!(matches!(progressed, Progressed::Parcel(_)), i == 2);
    }
}

#[test]
fn data_that_were_not_asked_for_or_have_another_length_are_refused() {
    let mut wanted = Wanted::new(1000, 1000, 9);
    announce(&mut wanted, 0, 0, &[10]);
    let (_, get, room) = wanted.ask(&Heap, Duration::ZERO).unwrap();
    let stray = Room {
        block: Heap.allocate(1),
        range: 0..1,
    };
    assert!(wanted.arrived(FROM, get.tag + 1, stray, 1).is_err());
    assert!(wanted.arrived(FROM, get.tag, room, 9).is_err());
}

#[test]
fn a_datum_is_given_once_in_order_and_to_whom_it_was_announced() {
    let mut unclaimed = Unclaimed::default();
    unclaimed.put(Rank(2), (1, 0), offered(vec![0; 10]));
    let get = |number, offset, length| Get {
        number,
        position: 0,
        tag: 1,
        offset,
        length,
    };
    for refused in [get(1, 1, 5), get(1, 0, 11), get(1, 0, 0), get(2, 0, 5)] {
        assert!(unclaimed.give(Rank(2), &refused).is_err(), "{refused:?}");
    }
    assert!(unclaimed.give(Rank(1), &get(1, 0, 5)).is_err());
    assert!(unclaimed.give(Rank(2), &get(1, 0, 5)).is_ok());
    assert!(
        unclaimed.give(Rank(2), &get(1, 0, 5)).is_err(),
        "given before"
    );
    assert!(unclaimed.give(Rank(2), &get(1, 5, 5)).is_ok());
    assert!(unclaimed.give(Rank(2), &get(1, 5, 5)).is_err(), "gone");
}

#[test]
fn a_duty_can_be_handed_back_once_and_only_before_anything_of_it_was_asked_for() {
    let mut unclaimed = Unclaimed::default();
    for number in 0..3 {
        unclaimed.put(Rank(2), (number, 0), offered(vec![0; 10]));
        let parcel = Parcel {
            to: smallvec![Rank(3)],
            task: smallvec![number],
            poisoned: false,
            priority: 0,
            flows: smallvec![],
        };
        let shape = TreeShape::Binomial;
        unclaimed.charge(Rank(2), number, Duty::new(parcel, shape));
    }
    let reach = BranchReach::default();
    let held: KeepAlive = Arc::new(());
    unclaimed.hold(Rank(2), 0, &held, reach.clone());
    let first = unclaimed.relieve(Rank(2), 0).unwrap();
    let branch = [2, 3].map(Rank);
    assert_eq!(reach.of(&branch), [Rank(2)], "others bring it to rank 3");
    assert_eq!((first.parcel.to[0], first.parcel.task[0]), (Rank(3), 0));
    let get = Get {
        number: 1,
        position: 0,
        tag: 1,
        offset: 0,
        length: 5,
    };
    assert!(unclaimed.give(Rank(2), &get).is_ok());
    for (rank, number) in [(2, 0), (2, 1), (1, 2), (2, 3)] {
        assert!(unclaimed.relieve(Rank(rank), number).is_err(), "{number}");
    }
    assert!(unclaimed.has_duties());
    assert!(unclaimed.relieve(Rank(2), 2).is_ok() && !unclaimed.has_duties());
}

#[test]
fn of_what_goes_on_that_is_handed_back_of_which_nothing_was_asked_for() {
    let mut wanted = Wanted::new(10, 1000, 9);
    for number in 0..4 {
        let onward = Onward {
            below: smallvec![Rank(3)],
            shape: TreeShape::Binary,
            priority: 0,
        };
        let mut parcel = parcel(number, 1);
        parcel.onward = (number != 2).then(|| Box::new(onward));
        wanted.announce(0, parcel, [(0, smallvec![7], 10)].into_iter());
    }
    let asked = ask_all(&mut wanted);
    assert_eq!(asked.len(), 1, "the window is as wide as one");
    let mut handed_back = || std::iter::from_fn(|| wanted.next_relief()).collect::<Vec<_>>();
    assert_eq!(handed_back(), [(FROM, 1), (FROM, 3)]);
    assert_eq!(handed_back(), []);
    let (mut asked, mut goes_on) = (asked, Vec::new());
    while let Some((get, room)) = asked.pop() {
        if let Ok(Progressed::Parcel(parcel)) = wanted.arrived(FROM, get.tag, room, 10) {
            goes_on.push((parcel.number, parcel.onward.is_some()));
        }
        asked.extend(ask_all(&mut wanted));
    }
    assert_eq!(goes_on, [(0, true), (1, false), (2, false), (3, false)]);
}

#[test]
fn nothing_goes_on_that_a_rank_has_stopped_to_wait_for() {
    let mut wanted = Wanted::new(10, 1000, 9);
    let mut parcel = parcel(0, 1);
    parcel.onward = Some(Box::new(Onward {
        below: smallvec![Rank(3)],
        shape: TreeShape::Binary,
        priority: 0,
    }));
    wanted.announce(0, parcel, [(0, smallvec![7], 10)].into_iter());
    assert!(wanted.has_duties());
    wanted.stop();
    assert!(!wanted.has_duties() && wanted.next_relief().is_none());
}

#[test]
fn tags_are_used_again_as_late_as_possible_and_never_twice_at_once() {
    let mut wanted = Wanted::new(1000, 1000, 3);
    (0..5).for_each(|number| announce(&mut wanted, number, 0, &[10]));
    let mut asked = ask_all(&mut wanted);
    assert_eq!(
        asked.iter().map(|(get, _)| get.tag).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    let (get, room) = asked.remove(1);
    assert!(wanted.arrived(FROM, get.tag, room, 10).is_ok());
    assert_eq!(ask_all(&mut wanted)[0].0.tag, 2, "the only free one");
}

#[test]
fn after_a_stop_nothing_is_asked_for_and_what_is_under_way_still_settles() {
    let mut wanted = Wanted::new(10, 1000, 9);
    (0..3).for_each(|number| announce(&mut wanted, number, 0, &[10]));
    let (get, room) = ask_all(&mut wanted).remove(0);
    assert_eq!(wanted.stop(), 3);
    assert!(!wanted.is_settled() && ask_all(&mut wanted).is_empty());
    assert!(matches!(
        wanted.arrived(FROM, get.tag, room, 10),
        Ok(Progressed::Part)
    ));
    assert!(wanted.is_settled());
}
