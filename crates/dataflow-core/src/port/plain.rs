//! Plain values as data: numbers, vectors of numbers, and `()`.

use super::courier::{Head, Wire};
use super::memory::Block;
use crate::data::Datum;
use crate::words::counted;
use bytemuck::Pod;
use std::borrow::Cow;

/// A vector of plain values: numbers, complex numbers, or a `struct` that derives
/// [`bytemuck::Pod`]. Nothing is packed when it leaves; it is copied once where it arrives.
///
/// # Examples
/// ```
/// use dataflow_core::prelude::*;
/// use dataflow_core::port::Inline;
/// use dataflow_core::sequence::{read, record::record, write};
///
/// let rows = Store::new("rows", [vec![1.0, 2.0], vec![0.0, 0.0]]);
/// let double = record("double", 1, |r| {
///     let [from, to] = [0, 1].map(|row| r.home(&rows, row, Rank(0)));
///     r.task((read(&from), write(&to)), |(from, to)| {
///         to.iter_mut().zip(from).for_each(|(to, from)| *to = 2.0 * from);
///     });
/// })?;
/// double.run(&Inline)?;
/// assert_eq!(*rows.get(1).unwrap(), [2.0, 4.0]);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
impl<T: Pod + Send + Sync> Datum for Vec<T> {
    fn bytes(&self) -> usize {
        size_of_val(&self[..])
    }
}

impl<T: Pod + Send + Sync> Wire for Vec<T> {
    fn head(&self) -> Head {
        Head::new()
    }

    fn size(&self) -> usize {
        self.bytes()
    }

    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(bytemuck::cast_slice(self))
    }

    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        let (length, each) = (body.bytes().len(), size_of::<T>());
        if each == 0 || !length.is_multiple_of(each) {
            return Err(format!(
                "{} (must be a multiple of {each}, the size of a value)",
                counted(length, "byte")
            ));
        }
        Ok(bytemuck::pod_collect_to_vec(body.bytes()))
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl Datum for $number {}

        impl Wire for $number {
            fn head(&self) -> Head {
                Head::new()
            }

            fn size(&self) -> usize {
                size_of::<$number>()
            }

            fn body(&self) -> Cow<'_, [u8]> {
                Cow::Owned(bytemuck::bytes_of(self).to_vec())
            }

            fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
                bytemuck::try_pod_read_unaligned(body.bytes()).map_err(|_| {
                    let (length, size) = (body.bytes().len(), size_of::<$number>());
                    format!("{} (a number of this kind has {size})", counted(length, "byte"))
                })
            }
        }
    )+};
}
numbers!(u8, u16, u32, u64, u128, usize);
numbers!(i8, i16, i32, i64, i128, isize);
numbers!(f32, f64);

impl Datum for () {}

impl Wire for () {
    fn head(&self) -> Head {
        Head::new()
    }

    fn size(&self) -> usize {
        0
    }

    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }

    fn unpack(_: &[u8], _: Box<dyn Block>) -> Result<Self, String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{Heap, Memory};

    fn arrived<D: Wire>(datum: &D) -> Result<D, String> {
        let mut block = Heap.allocate(datum.size());
        block.bytes_mut().copy_from_slice(&datum.body());
        D::unpack(&datum.head(), block)
    }

    #[test]
    fn plain_data_arrive_as_they_left() {
        assert_eq!(arrived(&-7i16), Ok(-7));
        assert_eq!(arrived(&f64::MIN_POSITIVE), Ok(f64::MIN_POSITIVE));
        assert_eq!(arrived(&vec![1.5f32, -0.0, 3.0]), Ok(vec![1.5, -0.0, 3.0]));
        assert_eq!(arrived(&Vec::<u64>::new()), Ok(Vec::new()));
        assert_eq!(arrived(&()), Ok(()));
    }

    #[test]
    fn bytes_that_are_no_whole_number_of_values_are_refused() {
        let text = Vec::<u32>::unpack(&[], Heap.allocate(6)).unwrap_err();
        assert!(
            text.contains("6 bytes") && text.contains("multiple of 4"),
            "{text}"
        );
        assert!(u64::unpack(&[], Heap.allocate(7)).is_err());
    }
}
