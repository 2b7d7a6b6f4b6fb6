//! The simulated network by itself: what a message costs in virtual time, and what faults do.

use dataflow_core::port::{Heap, Memory};
use dataflow_core::rank::Rank;
use dataflow_mpi::Turn;
use dataflow_mpi::transport::raw::{Raw, Sendable};
use dataflow_mpi::transport::simulated::{
    Cluster, Hung, MessageCosts, Shared, Simulated, Weather, World, spend,
};
use dataflow_mpi::transport::{Event, Load, Room, Transport};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Each rank sends `n` messages of `bytes` to the last one, which notes when each has come.
fn arrivals(weather: Weather, n_ranks: usize, n: usize, bytes: usize) -> Vec<Duration> {
    arrivals_in(&World::new(weather), n_ranks, n, bytes).unwrap()
}

/// The same, if they come.
fn arrivals_in(
    world: &World,
    n_ranks: usize,
    n: usize,
    bytes: usize,
) -> Result<Vec<Duration>, Hung> {
    let ends = world
        .connect(n_ranks)
        .into_iter()
        .map(|end| Mutex::new(Some(end)));
    let ends: Vec<Mutex<Option<Simulated>>> = ends.collect();
    let inside = world.clone();
    let times = world.run(n_ranks, move |rank| {
        let transport = ends[rank.0 as usize].lock().unwrap().take().unwrap();
        let host = inside.host(rank);
        let mut raw = Raw::new(Box::new(transport), &*host, false);
        let last = Rank(n_ranks as u32 - 1);
        if rank != last {
            spend(Duration::from_secs(1)); // room is made first
            let sendable = Sendable::new(vec![rank.0 as u8; bytes]);
            (0..n).for_each(|_| raw.send(last, &sendable));
            return vec![];
        }
        let mut times = vec![];
        for from in (0..last.0).map(Rank) {
            for _ in 0..n {
                let block = raw.receive(from, Heap.allocate(bytes)).unwrap();
                assert!(block.bytes().iter().all(|byte| *byte == from.0 as u8));
                times.push(host.now() - Duration::from_secs(1));
            }
        }
        times
    });
    times.map(|mut times| times.pop().unwrap())
}

fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

#[test]
fn a_message_costs_latency_and_its_bytes_time_and_a_free_network_nothing() {
    let fair = Weather::default();
    assert_eq!(arrivals(fair.clone(), 2, 1, 0), [micros(5)]);
    assert_eq!(arrivals(fair, 2, 1, 1_000_000), [micros(105)]);
    let fair = Weather::default();
    let (one_way_out, one_way_in) = (
        arrivals(fair.clone(), 2, 3, 1_000_000),
        arrivals(fair, 3, 1, 1_000_000),
    );
    assert_eq!(one_way_out, [micros(105), micros(205), micros(305)]);
    assert_eq!(one_way_in, [micros(105), micros(205)]);
    assert_eq!(arrivals(Weather::free(), 2, 1, 1_000_000), [Duration::ZERO]);
}

/// A message that chance delayed left the way in free, so that fifteen came in the time of one.
#[test]
fn many_messages_to_one_rank_take_their_bytes_time_however_late_each_is() {
    let last = |jitter| {
        let weather = Weather {
            jitter,
            ..Weather::default()
        };
        arrivals(weather, 16, 1, 1_000_000).into_iter().max()
    };
    let (punctual, late) = (last(Duration::ZERO), last(micros(20)));
    assert_eq!(punctual, Some(micros(1505)));
    assert!(punctual <= late && late < Some(micros(1525)), "{late:?}");
}

/// Messages of so many bytes from rank to rank, all sent at once; when each receiver has its own.
fn one_each(weather: Weather, messages: &'static [(u32, u32)], bytes: usize) -> Vec<Duration> {
    let n_ranks = 1 + messages
        .iter()
        .map(|&(from, to)| from.max(to))
        .max()
        .unwrap();
    let world = World::new(weather);
    let ends = world.connect(n_ranks as usize).into_iter();
    let ends: Vec<_> = ends.map(|end| Mutex::new(Some(end))).collect();
    let inside = world.clone();
    let times = world.run(n_ranks as usize, move |rank| {
        let transport = ends[rank.0 as usize].lock().unwrap().take().unwrap();
        let host = inside.host(rank);
        let mut raw = Raw::new(Box::new(transport), &*host, false);
        let of_me = |of: u32| of == rank.0;
        if messages.iter().any(|&(from, _)| of_me(from)) {
            spend(Duration::from_secs(1));
        }
        let mine = messages.iter().filter(|&&(from, _)| of_me(from));
        mine.for_each(|&(_, to)| raw.send(Rank(to), &Sendable::new(vec![0; bytes])));
        let &(from, _) = messages.iter().find(|&&(_, to)| of_me(to))?;
        raw.receive(Rank(from), Heap.allocate(bytes)).unwrap();
        Some(host.now() - Duration::from_secs(1))
    });
    times.unwrap().into_iter().flatten().collect()
}

fn nanos(n: u64) -> Duration {
    Duration::from_nanos(n)
}

#[test]
fn senders_pay_before_a_message_goes_receivers_after_it_came_and_ways_rest_in_between() {
    let costs = MessageCosts {
        send: micros(1),
        receive: micros(2),
        gap: nanos(500),
        ..MessageCosts::default()
    };
    let cluster = Cluster {
        costs,
        ..Cluster::default()
    };
    let weather = Weather {
        cluster,
        ..Weather::default()
    };
    // Sent at 1 µs, there after the latency of 5.
    assert_eq!(arrivals(weather.clone(), 2, 1, 0), [micros(6)]);
    // A microsecond each on the way. Out at 1 to 2, 2.5 to 3.5, 4 to 5; in by 7, 8.5, 10; and the
    // receiver, busy for 2 µs with each, takes the second at 9 and the third at 11.
    let three = arrivals(weather, 2, 3, 10_000);
    assert_eq!(three, [micros(7), micros(9), micros(11)]);
}

#[test]
fn ranks_of_one_host_share_its_ways_and_reach_each_other_through_memory() {
    let million = |hosts: Vec<u32>, shared: Option<Shared>, messages| {
        let cluster = Cluster {
            hosts,
            shared,
            ..Cluster::default()
        };
        let weather = Weather {
            cluster,
            ..Weather::default()
        };
        one_each(weather, messages, 1_000_000)
    };
    let apart: &[(u32, u32)] = &[(0, 2), (1, 3)];
    assert_eq!(million(vec![], None, apart), [micros(105), micros(105)]);
    let together = million(vec![0, 0, 1, 2], None, apart);
    assert_eq!(together, [micros(105), micros(205)], "one way out");
    let together = million(vec![0, 1, 2, 2], None, apart);
    assert_eq!(together, [micros(105), micros(205)], "one way in");
    let memory = Shared {
        latency: nanos(300),
        bytes_per_second: 20e9,
        costs: MessageCosts::default(),
    };
    let beside: &[(u32, u32)] = &[(0, 1), (0, 2)];
    let times = million(vec![0, 0, 1], Some(memory), beside);
    assert_eq!(times, [nanos(50_300), micros(105)], "neither waits");
    let over = million(vec![0, 0, 1], None, beside);
    assert_eq!(over, [micros(105), micros(205)], "over the network");
}

/// The way in was taken when a message was sent: what stood in the queue of its sender's way out kept it from
/// everybody else.
#[test]
fn nobody_waits_at_the_way_in_for_what_has_not_left_its_sender() {
    let million = |messages| one_each(Weather::default(), messages, 1_000_000);
    // Rank 0's second leaves from 100 µs on, comes at 105 and is in by 205; rank 3's is in by 105.
    let to_its_second = million(&[(0, 1), (0, 2), (3, 2)]);
    assert_eq!(to_its_second, [micros(105), micros(205)]);
    let to_the_other = million(&[(0, 1), (3, 2), (0, 2)]);
    assert_eq!(to_the_other, [micros(105), micros(105)]);
}

/// Rank 0 sends something that rank 1 makes room for and waits for: when it has come, and when each is
/// through with it.
fn moved(
    costs: MessageCosts,
    bytes_per_second: f64,
    send: fn(&mut Simulated),
    make_room: fn(&mut Simulated),
) -> Vec<[Duration; 2]> {
    let cluster = Cluster {
        costs,
        ..Cluster::default()
    };
    let world = World::new(Weather {
        cluster,
        bytes_per_second,
        ..Weather::default()
    });
    let ends = Mutex::new(world.connect(2));
    let inside = world.clone();
    let times = world.run(2, move |rank| {
        let mut transport = ends.lock().unwrap().remove(0);
        let host = inside.host(rank);
        if rank == Rank(0) {
            send(&mut transport);
            assert_eq!(host.now(), Duration::ZERO, "its time passes when it rests");
            spend(Duration::ZERO);
            return [host.now(); 2];
        }
        make_room(&mut transport);
        let bell = transport.bell(&*host).unwrap();
        let has_come = |event| matches!(event, Some(Event::Packet { .. } | Event::Data { .. }));
        while !has_come(transport.poll()) {
            bell.wait(None);
        }
        let came = host.now();
        spend(Duration::ZERO);
        [came, host.now()]
    });
    times.unwrap()
}

#[test]
fn packets_are_copied_at_both_ends_by_whoever_moves_them() {
    let costs = MessageCosts {
        send: micros(1),
        receive: micros(2),
        copied_bytes_per_second: 1e9,
        ..MessageCosts::default()
    };
    let send = |transport: &mut Simulated| transport.send(Rank(1), vec![0; 1000]);
    let times = moved(costs, 10e9, send, |_| ());
    // 1 µs and 1 of copying, 0.1 on the way, 5 of latency; then 2 and 1 of copying.
    let expected = [[micros(2); 2], [nanos(7_100), nanos(10_100)]];
    assert_eq!(times, expected);
}

#[test]
fn data_are_copied_at_both_ends_where_processors_carry_them() {
    let costs = MessageCosts {
        data_copied_bytes_per_second: 1e9,
        ..MessageCosts::default()
    };
    let send = |transport: &mut Simulated| {
        let load = Load::Packed(vec![0; 4000].into());
        transport.send_data(Rank(1), 3, load.part(0..4000));
    };
    let make_room = |transport: &mut Simulated| {
        let (block, range) = (Heap.allocate(4000), 0..4000);
        transport.receive(Rank(0), 3, Room { block, range });
    };
    let times = moved(costs, 1e15, send, make_room);
    // 4 µs of copying, 5 of latency, 4 of copying.
    assert_eq!(times, [[micros(4); 2], [micros(9), micros(13)]]);
}

/// In which order numbered packets come, each of which is delayed by chance.
fn order(reorder: bool) -> Vec<u8> {
    let world = World::new(Weather {
        jitter: micros(100),
        reorder,
        ..Weather::default()
    });
    let ends = world.connect(2).into_iter();
    let ends: Vec<_> = ends.map(|end| Mutex::new(Some(end))).collect();
    let came = world.run(2, move |rank| {
        let mut end = ends[rank.0 as usize].lock().unwrap().take().unwrap();
        if rank == Rank(0) {
            (0..50).for_each(|number| end.send(Rank(1), vec![number]));
            return vec![];
        }
        spend(Duration::from_secs(1));
        let events = std::iter::from_fn(|| end.poll());
        let numbers = events.filter_map(|event| match event {
            Event::Packet { bytes, .. } => Some(bytes[0]),
            _ => None,
        });
        numbers.collect()
    });
    came.unwrap().pop().unwrap()
}

#[test]
fn packets_overtake_each_other_only_in_weather_that_lets_them() {
    assert!(order(false).into_iter().eq(0..50));
    let mut mixed = order(true);
    assert!(!mixed.is_sorted());
    mixed.sort_unstable();
    assert!(mixed.into_iter().eq(0..50), "none is lost");
}

/// What it owes for a message passes while it waits, not besides.
#[test]
fn whoever_pays_for_a_message_waits_no_longer_for_it_by_turns_or_where_it_stands() {
    for by_turns in [false, true] {
        let send = micros(300);
        let costs = MessageCosts {
            send,
            ..MessageCosts::default()
        };
        let cluster = Cluster {
            costs,
            ..Cluster::default()
        };
        let world = World::new(Weather {
            cluster,
            ..Weather::default()
        });
        let end = Mutex::new(world.connect(2).into_iter().next());
        let inside = world.clone();
        let woke = world.run(1, move |rank| {
            let (host, mut end) = (inside.host(rank), end.lock().unwrap().take().unwrap());
            let (bell, woke) = (host.bell(), Arc::new(Mutex::new(Duration::ZERO)));
            if !by_turns {
                end.send(Rank(1), vec![0]);
                bell.wait(Some(micros(1000)));
                return host.now();
            }
            let (at, clock, mut has_sent) = (woke.clone(), inside.host(rank), false);
            let turn = move || {
                if std::mem::replace(&mut has_sent, true) {
                    *at.lock().unwrap() = clock.now();
                    return Turn::Ends;
                }
                end.send(Rank(1), vec![0]);
                Turn::Rests(bell.clone(), Some(micros(1000)))
            };
            assert!(
                host.start_turns("sender".into(), Box::new(turn))
                    .unwrap()
                    .join()
            );
            let woke = woke.lock().unwrap();
            *woke
        });
        assert_eq!(woke.unwrap(), [micros(1000)], "by turns: {by_turns}");
    }
}

#[test]
fn fibers_have_the_stack_that_they_are_given() {
    fn deep(frames: u64) -> u64 {
        let kilobyte = std::hint::black_box([frames; 128]);
        match frames {
            0 => 0,
            _ => deep(frames - 1) + kilobyte[127] - frames + 1,
        }
    }
    let world = World::on_fibers(Weather::default(), 8 << 20);
    let sums = world.run(2, |_| deep(2_000));
    assert_eq!(sums.unwrap(), [2_000; 2]);
}

#[test]
fn blocking_code_that_waits_for_nothing_is_a_world_that_hangs_and_says_who() {
    let world = World::new(Weather::default());
    let ends = Mutex::new(world.connect(2));
    let inside = world.clone();
    let hung = world.run(2, move |rank| {
        let transport = ends.lock().unwrap().remove(0);
        if rank == Rank(1) {
            let host = inside.host(rank);
            let mut raw = Raw::new(Box::new(transport), &*host, false);
            raw.receive(Rank(0), Heap.allocate(1)).unwrap();
        }
    });
    let text = hung.unwrap_err().to_string();
    assert!(
        text.contains("nobody in the world can run") && text.ends_with("asleep are rank 1"),
        "{text}"
    );
}

#[test]
fn a_world_ends_at_its_deadline() {
    let weather = Weather {
        deadline: Duration::from_secs(60),
        ..Weather::default()
    };
    let world = World::new(weather);
    let hung = world.run(1, |_| {
        loop {
            spend(Duration::from_secs(1));
        }
    });
    let hung: Result<Vec<()>, _> = hung;
    assert!(hung.unwrap_err().to_string().contains("deadline"));
}

#[test]
fn a_world_that_hangs_gives_back_what_has_not_begun() {
    let for_ever = Duration::from_secs(1_000_000);
    let world = World::new(Weather {
        freezes: vec![(Rank(1), Duration::ZERO, for_ever)],
        ..Weather::default()
    });
    let held = Arc::new(());
    let kept = held.clone();
    let hung = world.run(2, move |_| Arc::strong_count(&kept));
    assert!(hung.unwrap_err().to_string().ends_with("asleep are rank 1"));
    assert_eq!(Arc::strong_count(&held), 1);
}

/// Times were added beyond what a number holds: the message came at once, or the world panicked.
#[test]
fn what_takes_for_ever_does_not_come() {
    let fair = Weather::default;
    let costly = |costs| Weather {
        cluster: Cluster {
            costs,
            ..Cluster::default()
        },
        ..fair()
    };
    let free = MessageCosts::default;
    for weather in [
        Weather {
            slow_links: vec![(Rank(0), Rank(1), 0.0)],
            ..fair()
        },
        Weather {
            bytes_per_second: 0.0,
            ..fair()
        },
        Weather {
            latency: Duration::MAX,
            ..fair()
        },
        Weather {
            jitter: Duration::MAX,
            duplication: 1.0,
            ..fair()
        },
        Weather {
            deadline: Duration::MAX,
            bytes_per_second: f64::MIN_POSITIVE,
            ..fair()
        },
        costly(MessageCosts {
            send: Duration::MAX,
            ..free()
        }),
        costly(MessageCosts {
            gap: Duration::MAX,
            ..free()
        }),
        costly(MessageCosts {
            receive: Duration::MAX,
            data_copied_bytes_per_second: 0.0,
            ..free()
        }),
    ] {
        let hung = arrivals_in(&World::new(weather.clone()), 2, 3, 1000);
        let text = hung.map_err(|hung| hung.to_string());
        let is_told = |text: &String| text.contains("deadline") && text.ends_with("are rank 1");
        assert!(text.as_ref().is_err_and(is_told), "{text:?}: {weather:?}");
    }
}

/// A message had to be out as a whole before it went on over the link.
#[test]
fn a_slow_link_takes_the_time_of_its_bytes_and_one_that_is_not_slow_none() {
    let seconds = |slow_links| {
        let fair = Weather {
            bytes_per_second: 1e6,
            latency: Duration::ZERO,
            slow_links,
            ..Weather::default()
        };
        let last = arrivals(fair, 2, 3, 1_000_000).pop().unwrap();
        last.as_secs_f64()
    };
    let near = |found: f64, expected: f64| (found - expected).abs() < 1e-3 * expected;
    let plain = seconds(vec![]);
    assert!(near(plain, 3.0), "{plain}");
    for (rate, factor) in [(1e9, 1.0), (1e6, 1.0), (0.8e6, 1.25), (0.1e6, 10.0)] {
        let found = seconds(vec![(Rank(0), Rank(1), rate)]);
        assert!(near(found, factor * plain), "{rate}: {found}");
    }
}

/// All parts were planned when the first byte came, fifty a second.
#[test]
fn whoever_waits_for_a_very_slow_message_hears_of_each_byte_once() {
    let world = World::new(Weather {
        slow_links: vec![(Rank(0), Rank(1), 1.0)],
        deadline: Duration::from_millis(61_500), // a minute after it was sent, and a little
        ..Weather::default()
    });
    assert!(arrivals_in(&world, 2, 1, 10_000).is_err());
    assert_eq!(world.faults().parts, 60);
}

#[test]
fn a_rank_that_never_moves_again_hangs_its_world() {
    let world = World::new(Weather {
        freezes: vec![(Rank(0), Duration::from_secs(1), Duration::MAX)],
        ..Weather::default()
    });
    let hung = world.run(2, |_| spend(Duration::from_secs(2)));
    assert!(hung.unwrap_err().to_string().ends_with("asleep are rank 0"));
}

#[test]
fn a_rank_that_stands_still_does_nothing_until_it_moves_again() {
    let freezes = vec![(Rank(0), Duration::from_secs(1), Duration::from_secs(7))];
    let world = World::new(Weather {
        freezes,
        ..Weather::default()
    });
    let inside = world.clone();
    let ends = world.run(2, move |_| {
        spend(Duration::from_secs(2));
        inside.now().as_secs()
    });
    assert_eq!(ends.unwrap(), [8, 2]);
    assert_eq!(world.faults().frozen, 1);
}

#[test]
#[should_panic(expected = "a body of rank 1")]
fn a_body_that_panics_panics_where_the_world_was_run() {
    let world = World::new(Weather::default());
    let ends = world.run(2, |rank| {
        if rank == Rank(1) {
            panic!("a body of {rank}");
        }
    });
    drop(ends);
}

/// The world said that it hung, and not why.
#[test]
#[should_panic(expected = "a body of rank 0")]
fn a_body_that_panics_does_so_too_if_another_waits_for_ever() {
    let world = World::new(Weather::default());
    let inside = world.clone();
    let ends = world.run(2, move |rank| match rank {
        Rank(0) => panic!("a body of {rank}"),
        _ => inside.host(rank).bell().wait(None),
    });
    drop(ends);
}

#[test]
fn outside_of_a_world_nobody_spends_time() {
    spend(Duration::from_secs(1_000_000));
}
