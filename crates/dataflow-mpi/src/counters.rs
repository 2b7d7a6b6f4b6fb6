//! Counters: what travelled, per rank and in total.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $form:ident),* $(,)?) => {
        /// What a rank has sent, dropped and held since it was started; or the sum of all ranks.
        ///
        /// # Examples
        /// No datum crosses in a run of independent tasks; what opens and closes it does.
        /// ```
        /// use dataflow_core::port::{Context, Heap, Inline};
        /// use dataflow_core::{Error, run_across, space::Independent};
        /// use dataflow_mpi::{Counters, Machine, Messenger, Settings, transport::local};
        /// use std::sync::Arc;
        ///
        /// let ranks = local::connect(2).into_iter().map(|transport| std::thread::spawn(move || {
        ///     let courier = Messenger::new(Box::new(transport), Settings::default(), Machine::new(), Arc::new(Heap))?;
        ///     let before: Counters = courier.counters();
        ///     let nothing = Independent::new("nothing", 100, |_| Ok(())).across(2);
        ///     run_across(&nothing, &Context::new(&Inline).across(&courier))?;
        ///     Ok::<_, Error>(courier.counters().since(&before))
        /// }));
        /// for rank in ranks.collect::<Vec<_>>() {
        ///     let sent = rank.join().unwrap()?;
        ///     assert!(sent.messages == 0 && sent.bytes() == 0 && sent.packets > 0);
        /// }
        /// # Ok::<(), Error>(())
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters { $($(#[$doc])* pub $name: u64),* }

        impl Counters {
            /// Names and values, for reports.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }

            pub(crate) fn numbers(&self) -> Vec<u64> {
                vec![$(self.$name),*]
            }

            pub(crate) fn of_numbers(numbers: &[u64]) -> Self {
                let mut numbers = numbers.iter().copied();
                Counters { $($name: numbers.next().unwrap_or(0)),* }
            }

            /// Whether of several ranks the largest counts, not the sum.
            pub(crate) fn is_peak(index: usize) -> bool {
                const PEAKS: &[bool] = &[$(counters!(@$form)),*];
                PEAKS.get(index).copied().unwrap_or(false)
            }
        }
    };
    (@sum) => { false };
    (@peak) => { true };
}

counters! {
    /// Data sent to other ranks: one per datum and destination.
    messages: sum,
    /// Payload bytes that travelled inside activations.
    inline_bytes: sum,
    /// Payload bytes that were asked for.
    fetched_bytes: sum,
    /// Activations sent.
    activations: sum,
    /// Packets sent.
    packets: sum,
    /// Bytes of packets that are not payload.
    control_bytes: sum,
    /// GETs sent.
    gets: sum,
    /// Packets and data dropped because they had come before.
    duplicates_dropped: sum,
    /// Messages dropped because their run had ended.
    stale_dropped: sum,
    /// CREDITs sent.
    credits_sent: sum,
    /// CREDITs that came.
    credits_came: sum,
    /// Most bytes that were asked for and under way.
    peak_fetched_bytes: peak,
    /// Most inline bytes under way from one rank to another.
    peak_inline_bytes: peak,
}

impl Counters {
    /// What was sent since an earlier reading of the same rank; peaks are those since its start.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let numbers = self.numbers().into_iter().zip(earlier.numbers());
        let less = |(index, (now, before)): (usize, (u64, u64))| match Counters::is_peak(index) {
            true => now,
            false => now.saturating_sub(before),
        };
        Counters::of_numbers(&numbers.enumerate().map(less).collect::<Vec<_>>())
    }

    /// Payload bytes in all.
    pub fn bytes(&self) -> u64 {
        self.inline_bytes + self.fetched_bytes
    }

    /// How well small messages share packets; 0 if none was sent.
    pub fn activations_per_packet(&self) -> f64 {
        self.activations as f64 / self.packets.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_travel_as_numbers_and_come_back() {
        let counters = Counters {
            messages: 1,
            packets: 5,
            peak_inline_bytes: 13,
            ..Counters::default()
        };
        assert_eq!(Counters::of_numbers(&counters.numbers()), counters);
        let since = counters.since(&Counters {
            packets: 2,
            ..counters
        });
        assert_eq!(
            (since.messages, since.packets, since.peak_inline_bytes),
            (0, 3, 13)
        );
        let peaks = (0..counters.numbers().len()).filter(|&i| Counters::is_peak(i));
        let named: Vec<_> = peaks.map(|i| counters.named()[i].0).collect();
        assert_eq!(named, ["peak_fetched_bytes", "peak_inline_bytes"]);
    }
}
