//! Names of tasks: small values, each of which identifies one task.

use crate::wire::WireName;
use std::cmp::Ordering;
use std::fmt::{self, Debug};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::marker::PhantomData;
use std::sync::Arc;

/// Bits a packed name may use.
pub(crate) const PACKED_BITS: u32 = 55;

/// The name of a task: its class and parameters.
///
/// [`task_names!`](crate::task_names) makes an enum of classes into one; integers and tuples of
/// integers are names of spaces with a single class.
///
/// Names of at most 55 bits travel through queues as they are. Wider names work too, but each step of
/// such a task looks the name up in a table under a lock.
///
/// # Examples
/// A name of one's own, of a task for each weekday:
/// ```
/// use dataflow_core::space::TaskName;
///
/// #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
/// enum Day { Monday, Tuesday, Wednesday }
/// const DAYS: [Day; 3] = [Day::Monday, Day::Tuesday, Day::Wednesday];
///
/// impl TaskName for Day {
///     fn class(self) -> usize { 0 }
///     fn pack(self) -> Option<u64> { Some(self as u64) }
///     fn unpack(packed: u64) -> Self { DAYS[packed as usize] }
/// }
/// assert_eq!(Day::unpack(Day::Tuesday.pack().unwrap()), Day::Tuesday);
/// assert_eq!((3u32, 5u32).pack().map(<(u32, u32)>::unpack), Some((3, 5)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `TaskName`: it cannot name tasks",
    label = "no name of a task",
    note = "`task_names!` makes an enum of names: `task_names! {{ pub enum Task {{ Tile {{ i, j }} }} }}`; unsigned integers and tuples of them are names too"
)]
pub trait TaskName: Copy + Eq + Hash + Ord + Debug + Send + Sync + 'static {
    /// How many classes there are: indices are below.
    const N_CLASSES: usize = 1;

    /// Whether a name means nothing without its space, which tells in [errors](super::TaskSpace::explained)
    /// what it stands for.
    #[doc(hidden)]
    const IS_NUMBERED: bool = false;

    /// Index of the class, in the order in which [`describe`](super::TaskSpace::describe) names them.
    fn class(self) -> usize;

    /// The name as a number below 2⁵⁵, a different one for each name; `None` if it does not fit.
    /// Waiting tasks whose names differ only in the last four bits (three, if tasks have more than three
    /// flows; two, if more than seven) share a record, which is faster: so the parameter in which
    /// neighbouring tasks differ belongs last.
    fn pack(self) -> Option<u64>;

    /// The inverse of [`pack`](Self::pack).
    fn unpack(packed: u64) -> Self;

    /// The name as other ranks read it, in an order that agrees with that of the tasks; `None` if it
    /// cannot be sent. By default it is made from [`pack`](Self::pack).
    fn to_wire(self) -> Option<WireName> {
        self.pack().map(words)
    }

    /// The inverse of [`to_wire`](Self::to_wire); `None` for words that it never makes.
    fn from_wire(words: &[u32]) -> Option<Self> {
        let &[high, low] = words else { return None };
        let packed = u64::from(high) << 32 | u64::from(low);
        (packed >> PACKED_BITS == 0).then(|| Self::unpack(packed))
    }
}

/// What is read from the names of a space where only their numbers are at hand.
#[doc(hidden)]
#[derive(Clone)]
pub struct Spelling(pub(crate) Arc<dyn Spell>);

/// Reads names of one kind.
pub(crate) trait Spell: Send + Sync {
    /// The text of a packed name.
    fn text(&self, packed: u64) -> String;
    /// The number of a name as ranks send it.
    fn number(&self, words: &[u32]) -> Option<Number>;
}

/// A name as a number.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// The name itself.
    Packed(u64),
    /// What stands for a name that does not pack; for two by chance the same, one time in 2⁶⁴.
    Wide(u64),
}

impl Number {
    #[inline(always)]
    pub(crate) fn of<T: TaskName>(task: T) -> Self {
        let wide = || Number::Wide(number_of(task, 0));
        task.pack().map_or_else(wide, Number::Packed)
    }
}

/// A source and its flow as a number; of two by chance the same, one time in 2⁶⁴.
pub(crate) fn number_of<T: TaskName>(source: T, flow: usize) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one((source, flow))
}

impl Spelling {
    pub(crate) fn of<T: TaskName>() -> Self {
        Spelling(Arc::new(OfType::<T>(PhantomData)))
    }

    /// Of tasks that have numbers only, and are shown like this.
    pub(crate) fn of_numbers(text: fn(u64) -> String) -> Self {
        Spelling(Arc::new(OfNumbers(text)))
    }
}

impl fmt::Debug for Spelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spelling")
    }
}

struct OfType<T>(PhantomData<fn() -> T>);

impl<T: TaskName> Spell for OfType<T> {
    fn text(&self, packed: u64) -> String {
        format!("{:?}", T::unpack(packed))
    }

    fn number(&self, words: &[u32]) -> Option<Number> {
        T::from_wire(words).map(Number::of)
    }
}

struct OfNumbers(fn(u64) -> String);

impl Spell for OfNumbers {
    fn text(&self, number: u64) -> String {
        (self.0)(number)
    }

    fn number(&self, _: &[u32]) -> Option<Number> {
        None
    }
}

/// A number as two words, the higher one first.
fn words(number: u64) -> WireName {
    [(number >> 32) as u32, number as u32].into_iter().collect()
}

/// Packs a class and its parameters, the last one innermost. Used by `task_names!`.
#[doc(hidden)]
#[inline(always)]
pub fn pack_parameters<const N: usize>(
    class: u64,
    n_classes: u64,
    parameters: [u64; N],
) -> Option<u64> {
    let bits = parameter_bits(n_classes, N);
    let mut packed = 0;
    for parameter in parameters {
        if parameter >> bits != 0 {
            return None;
        }
        packed = packed << bits | parameter;
    }
    // The class stands at a fixed place, whatever the number of parameters.
    Some(packed | class << (PACKED_BITS - class_bits(n_classes)))
}

/// The parameters that [`pack_parameters`] packed.
#[doc(hidden)]
#[inline(always)]
pub fn unpack_parameters<const N: usize>(n_classes: u64, mut packed: u64) -> [u64; N] {
    let bits = parameter_bits(n_classes, N);
    let mut parameters = [0; N];
    for parameter in parameters.iter_mut().rev() {
        *parameter = packed & ((1 << bits) - 1);
        packed >>= bits;
    }
    parameters
}

/// A class and its parameters as other ranks read them, if each fits. Used by `task_names!`.
#[doc(hidden)]
#[inline]
pub fn wire_parameters<const N: usize>(words: [u64; N]) -> Option<WireName> {
    let mut name = WireName::new();
    for word in words {
        name.push(u32::try_from(word).ok()?);
    }
    Some(name)
}

/// The class of a packed name. Used by `task_names!`.
#[doc(hidden)]
#[inline(always)]
pub fn unpack_class(n_classes: u64, packed: u64) -> u64 {
    packed >> (PACKED_BITS - class_bits(n_classes))
}

#[inline(always)]
pub(super) const fn class_bits(n_classes: u64) -> u32 {
    u64::BITS - (n_classes - 1).leading_zeros()
}

#[inline(always)]
const fn parameter_bits(n_classes: u64, n: usize) -> u32 {
    let all = PACKED_BITS - class_bits(n_classes);
    let each = if n == 0 { 0 } else { all / n as u32 };
    if each > 32 { 32 } else { each }
}

/// Declares the names of a space's tasks: an enum with one variant per class, each with
/// parameters of type `u32`, or `usize` where that is said.
///
/// What is said changes no name in queues and on the wire, where a parameter has 32 bits: a task with
/// a larger one runs, but is sent to no other rank. Names of `u32` take half the room.
///
/// # Examples
/// ```
/// dataflow_core::task_names! {
///     /// The tasks of tile Cholesky.
///     pub enum Task { Potrf { k }, Trsm { m, k }, Syrk { m, k }, Gemm { m, n, k } }
/// }
/// use dataflow_core::space::TaskName;
/// let task = Task::Gemm { m: 5, n: 3, k: 1 };
/// assert_eq!(format!("{task:?}"), "Gemm { m: 5, n: 3, k: 1 }");
/// assert_eq!(task.class(), 3);
/// assert_eq!(Task::unpack(task.pack().unwrap()), task);
/// ```
/// Parameters with which one computes indices:
/// ```
/// dataflow_core::task_names! { enum Task { Row { i: usize }, Cell { i: usize, j: usize } } }
/// use dataflow_core::space::TaskName;
/// let cells = [[0.5; 4]; 3];
/// let Task::Cell { i, j } = (Task::Cell { i: 2, j: 3 }) else { unreachable!() };
/// assert_eq!(cells[i][j], 0.5);
/// assert!(Task::Row { i: 1 << 40 }.to_wire().is_none());
/// ```
#[macro_export]
macro_rules! task_names {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident {
            $($class:ident { $($parameter:ident $(: $type:ident)?),* $(,)? }),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs)]
        $visibility enum $name {
            $($class { $($parameter: $crate::type_of_parameter!($($type)?)),* }),+
        }

        const _: () = {
            enum __ClassOfTask { $($class),+ }
            const N_CLASSES: u64 = [$(__ClassOfTask::$class as u64),+].len() as u64;
            $($($crate::expect_parameter!($parameter $(: $type)?);)*)+

            impl $crate::space::TaskName for $name {
                const N_CLASSES: usize = N_CLASSES as usize;

                #[inline(always)]
                fn class(self) -> usize {
                    match self { $(Self::$class { .. } => __ClassOfTask::$class as usize),+ }
                }

                #[inline(always)]
                fn pack(self) -> ::core::option::Option<u64> {
                    match self {
                        $(Self::$class { $($parameter),* } => $crate::space::pack_parameters(
                            __ClassOfTask::$class as u64, N_CLASSES, [$($parameter as u64),*],
                        )),+
                    }
                }

                #[inline(always)]
                fn unpack(packed: u64) -> Self {
                    let class = $crate::space::unpack_class(N_CLASSES, packed);
                    $(if class == __ClassOfTask::$class as u64 {
                        let [$($parameter),*] = $crate::space::unpack_parameters(N_CLASSES, packed);
                        return Self::$class { $($parameter: $parameter as _),* };
                    })+
                    ::core::unreachable!("{packed:#x} was not packed from a {}", ::core::stringify!($name))
                }

                fn to_wire(self) -> ::core::option::Option<$crate::wire::WireName> {
                    match self {
                        $(Self::$class { $($parameter),* } => $crate::space::wire_parameters(
                            [__ClassOfTask::$class as u64, $($parameter as u64),*],
                        )),+
                    }
                }

                fn from_wire(words: &[u32]) -> ::core::option::Option<Self> {
                    let (&class, parameters) = words.split_first()?;
                    $(if class == __ClassOfTask::$class as u32 {
                        let &[$($parameter),*] = parameters else { return ::core::option::Option::None };
                        return ::core::option::Option::Some(Self::$class { $($parameter: $parameter as _),* });
                    })+
                    ::core::option::Option::None
                }
            }
        };
    };
}

/// The type of a parameter of a name. Used by `task_names!`.
#[doc(hidden)]
#[macro_export]
macro_rules! type_of_parameter {
    () => {
        u32
    };
    (u32) => {
        u32
    };
    (usize) => {
        usize
    };
    // Refused once, beside the type: an error in its place would leave `()` there, and more errors wherever
    // the parameter is used.
    ($other:ident) => {
        $other
    };
}

/// Refuses a parameter of another type. Used by `task_names!`.
#[doc(hidden)]
#[macro_export]
macro_rules! expect_parameter {
    ($parameter:ident) => {};
    ($parameter:ident: u32) => {};
    ($parameter:ident: usize) => {};
    ($parameter:ident: $other:ident) => {
        compile_error!(concat!(
            "parameter `",
            stringify!($parameter),
            "` of a name is of type `",
            stringify!($other),
            "` (`u32` and `usize` are allowed)"
        ));
    };
}

macro_rules! integer_name {
    ($($integer:ty),+) => {$(
        impl TaskName for $integer {
            #[inline(always)]
            fn class(self) -> usize {
                0
            }
            #[inline(always)]
            fn pack(self) -> Option<u64> {
                let packed = self as u64;
                (packed >> PACKED_BITS == 0).then_some(packed)
            }
            #[inline(always)]
            fn unpack(packed: u64) -> Self {
                packed as $integer
            }
            fn to_wire(self) -> Option<WireName> {
                Some(words(self as u64))
            }
            fn from_wire(words: &[u32]) -> Option<Self> {
                let &[high, low] = words else { return None };
                (u64::from(high) << 32 | u64::from(low)).try_into().ok()
            }
        }
    )+};
}
integer_name!(u32, u64, usize);

macro_rules! tuple_name {
    ($n:literal, $($type:ty => $i:ident),+) => {
        impl TaskName for ($($type),+) {
            #[inline(always)]
            fn class(self) -> usize {
                0
            }
            #[inline(always)]
            fn pack(self) -> Option<u64> {
                let ($($i),+) = self;
                pack_parameters(0, 1, [$($i as u64),+])
            }
            #[inline(always)]
            fn unpack(packed: u64) -> Self {
                let [$($i),+] = unpack_parameters::<$n>(1, packed);
                ($($i as $type),+)
            }
            fn to_wire(self) -> Option<WireName> {
                let ($($i),+) = self;
                Some([$(u32::try_from($i).ok()?),+].into_iter().collect())
            }
            fn from_wire(words: &[u32]) -> Option<Self> {
                let &[$($i),+] = words else { return None };
                Some(($($i as $type),+))
            }
        }
    };
}
tuple_name!(2, u32 => a, u32 => b);
tuple_name!(3, u32 => a, u32 => b, u32 => c);
tuple_name!(4, u32 => a, u32 => b, u32 => c, u32 => d);
tuple_name!(2, usize => a, usize => b);
tuple_name!(3, usize => a, usize => b, usize => c);
tuple_name!(4, usize => a, usize => b, usize => c, usize => d);

/// The numbers below `n` in the order that `compare` tells: names of any type are sorted by one copy of the code.
pub(crate) fn in_order(n: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..n).collect();
    numbers.sort_unstable_by(|one, other| compare(*one, *other));
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    task_names! { enum Task { Nothing {}, One { a }, Three { m, n, k }, Five { a, b, c, d, e } } }

    fn comes_back(task: Task) -> Result<(), TestCaseError> {
        if let Some(packed) = task.pack() {
            prop_assert!(packed >> PACKED_BITS == 0);
            prop_assert_eq!(Task::unpack(packed), task);
        }
        let words = task.to_wire().unwrap_or_default();
        prop_assert_eq!(Task::from_wire(&words), Some(task));
        prop_assert_eq!(
            Task::from_wire(&words[1..]).filter(|other| *other == task),
            None
        );
        Ok(())
    }

    proptest! {
        #[test]
        fn every_name_that_packs_comes_back(a: u32, m in 0u32..1 << 18, n in 0u32..1 << 18, k in 0u32..1 << 18, e in 0u32..1 << 11) {
            comes_back(Task::Nothing {})?;
            comes_back(Task::One { a })?;
            comes_back(Task::Three { m, n, k })?;
            comes_back(Task::Five { a: e, b: m & 0x3ff, c: n & 0x3ff, d: k & 0x3ff, e })?;
            let triple = (m, n, k);
            if let Some(packed) = triple.pack() {
                prop_assert_eq!(<(u32, u32, u32)>::unpack(packed), triple);
            }
        }

        #[test]
        fn names_compare_on_the_wire_as_they_do_here(m: u32, n: u32, a: u32, b: u64, c: u64) {
            let tasks = [Task::Nothing {}, Task::One { a }, Task::One { a: m }, Task::Three { m, n, k: a }, Task::Three { m: n, n: m, k: 1 }];
            for x in tasks {
                for y in tasks {
                    prop_assert_eq!(x.cmp(&y), x.to_wire().cmp(&y.to_wire()));
                }
            }
            prop_assert_eq!(b.cmp(&c), b.to_wire().cmp(&c.to_wire()));
            prop_assert_eq!((m, n).cmp(&(n, a)), (m, n).to_wire().cmp(&(n, a).to_wire()));
            prop_assert_eq!(u64::from_wire(&b.to_wire().unwrap_or_default()), Some(b));
        }

        #[test]
        fn different_names_pack_differently(m in 0u32..40, n in 0u32..40, k in 0u32..40, a in 0u32..40) {
            let names = [Task::One { a }, Task::Three { m, n, k }, Task::Three { m: n, n: k, k: m }, Task::Nothing {}];
            for x in names {
                for y in names {
                    prop_assert_eq!(x == y, x.pack() == y.pack());
                }
            }
        }
    }

    #[test]
    fn parameters_of_usize_are_the_same_names_and_too_large_ones_do_not_travel() {
        task_names! { enum Wide { One { a: usize }, Three { m: usize, n, k: usize } } }
        task_names! { enum Narrow { One { a }, Three { m, n, k } } }
        let (wide, narrow) = (
            Wide::Three { m: 5, n: 3, k: 1 },
            Narrow::Three { m: 5, n: 3, k: 1 },
        );
        assert_eq!(format!("{wide:?}"), format!("{narrow:?}"));
        assert_eq!(
            (wide.pack(), wide.to_wire()),
            (narrow.pack(), narrow.to_wire())
        );
        let words = wide.to_wire().unwrap_or_default();
        assert_eq!(Wide::from_wire(&words), Some(wide));
        assert_eq!(wide.pack().map(Wide::unpack), Some(wide));
        assert_eq!((5usize, 3usize).pack(), (5u32, 3u32).pack());
        assert_eq!(
            <(usize, usize)>::unpack((5u32, 3u32).pack().unwrap()),
            (5, 3)
        );
        for a in [u32::MAX as usize + 1, usize::MAX] {
            let name = Wide::One { a };
            assert_eq!((name.pack(), name.to_wire()), (None, None));
            assert_eq!((a, 0usize).to_wire(), None);
        }
    }

    #[test]
    fn a_name_that_is_too_wide_says_so() {
        assert_eq!(
            Task::Three {
                m: u32::MAX,
                n: 0,
                k: 0
            }
            .pack(),
            None
        );
        assert_eq!(u64::MAX.pack(), None);
        assert!(Task::One { a: u32::MAX }.pack().is_some());
    }
}
