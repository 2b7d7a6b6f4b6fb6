//! Data of any type that `serde` knows, packed by postcard.
//!
//! # Law
//! A body is a byte and what follows it: 0 and the value, or 1 and a text that says why there is none.
//! So what `serde` refuses is an error of the run, on the rank that was to get it.

use super::memory::Block;
use postcard::ser_flavors::Size;
use serde::{Serialize, de::DeserializeOwned};
use std::any::type_name;

const VALUE: u8 = 0;
const FAULT: u8 = 1;

/// Why a value that is known only by what it looks like cannot be read.
const UNTOLD: &str = "the format does not tell what comes next, so its type, and those of its parts, are \
    without `#[serde(untagged)]`, `#[serde(tag = …)]` and `#[serde(flatten)]`, and ask for no \
    `deserialize_any`";

/// Makes types that are `Clone`, `Serialize` and `DeserializeOwned` data that travel: implements
/// [`Datum`](crate::data::Datum) and [`Wire`](crate::port::Wire), in the compact format of
/// [postcard](https://docs.rs/postcard). Needs the feature `serde`.
///
/// A value is packed twice when it leaves, the first time only to be measured, and copied: for many
/// numbers `Vec` is better, which travels as it lies.
///
/// A value that cannot be packed (maps and sequences of unknown length, `#[serde(flatten)]`) is an
/// error of the run; so is one whose `Serialize` panics. The format does not tell what comes next, so a value
/// that must be looked at to be read (`#[serde(untagged)]`, `#[serde(tag = …)]`) is an error too, where it
/// arrives. The error names the type. A text that its
/// `Serialize` or `Deserialize` gives to `Error::custom` is not in it: postcard keeps none. To see it, pack the
/// value with a format that does (`serde_json::to_string`), or let the task return the text before it puts
/// such a value.
///
/// # Examples
/// ```
/// use dataflow_core::port::{Heap, Memory, Wire};
/// use dataflow_core::wire_by_serde;
/// use serde::{Deserialize, Serialize};
/// use std::collections::BTreeMap;
///
/// #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// struct Words {
///     counts: BTreeMap<String, u64>,
///     longest: Option<String>,
/// }
///
/// wire_by_serde!(Words);
///
/// // What a rank sends, and another gets:
/// let counts = BTreeMap::from([("tile".into(), 7), ("task".into(), 3)]);
/// let sent = Words { counts, longest: Some("tile".into()) };
/// let mut body = Heap.allocate(sent.size());
/// body.bytes_mut().copy_from_slice(&sent.body());
/// assert_eq!(body.bytes().len(), 20);
/// assert_eq!(Words::unpack(&sent.head(), body)?, sent);
/// # Ok::<(), String>(())
/// ```
#[macro_export]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
macro_rules! wire_by_serde {
    ($($datum:ty),+ $(,)?) => {$(
        impl $crate::data::Datum for $datum {}

        impl $crate::port::Wire for $datum {
            fn head(&self) -> $crate::port::Head {
                $crate::port::Head::new()
            }

            fn size(&self) -> usize {
                $crate::port::by_serde::size(self)
            }

            fn body(&self) -> ::std::borrow::Cow<'_, [u8]> {
                ::std::borrow::Cow::Owned($crate::port::by_serde::body(self))
            }

            fn unpack(
                _: &[u8],
                body: ::std::boxed::Box<dyn $crate::port::Block>,
            ) -> ::std::result::Result<Self, ::std::string::String> {
                $crate::port::by_serde::unpack(&*body)
            }
        }
    )+};
}

/// How many bytes the body of a value has.
pub fn size<T: Serialize>(value: &T) -> usize {
    let packed = postcard::serialize_with_flavor(value, Size::default());
    1 + packed.unwrap_or_else(|fault| unpacked::<T>(fault).len())
}

/// The body of a value.
pub fn body<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![VALUE]).unwrap_or_else(|fault| {
        let text = unpacked::<T>(fault);
        [&[FAULT], text.as_bytes()].concat()
    })
}

/// The value of a body.
///
/// # Errors
/// If it has none, is of another type or is cut off.
pub fn unpack<T: DeserializeOwned>(body: &dyn Block) -> Result<T, String> {
    let wrong = |what: &str| format!("{} cannot be read: {what}", type_name::<T>());
    match body.bytes() {
        [VALUE, packed @ ..] => match postcard::take_from_bytes(packed) {
            Ok((value, [])) => Ok(value),
            Ok((_, [_])) => Err(wrong("1 byte is left over")),
            Ok((_, more)) => Err(wrong(&format!("{} bytes are left over", more.len()))),
            Err(postcard::Error::SerdeDeCustom) => Err(wrong(&refused("Deserialize"))),
            Err(postcard::Error::WontImplement) => Err(wrong(UNTOLD)),
            Err(fault) => Err(wrong(&fault.to_string())),
        },
        [FAULT, text @ ..] => Err(String::from_utf8_lossy(text).into_owned()),
        _ => Err(wrong("its first byte is neither 0 nor 1")),
    }
}

fn unpacked<T>(fault: postcard::Error) -> String {
    let fault = match fault {
        postcard::Error::SerdeSerCustom => refused("Serialize"),
        fault => fault.to_string(),
    };
    format!("{} cannot be packed: {fault}", type_name::<T>())
}

/// What is known where an implementation has said why, for postcard drops its text.
fn refused(by: &str) -> String {
    format!("its `{by}` refused (its text is not kept; see `wire_by_serde!`)")
}

#[cfg(test)]
mod tests {
    use crate::port::{Heap, Memory, Wire};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Shape {
        Empty,
        Named {
            name: String,
            corners: Vec<(f64, i32)>,
        },
        Nested(Box<Shape>, BTreeMap<u8, Option<char>>),
    }

    /// Says that it has a sequence of unknown length.
    #[derive(Clone, Deserialize)]
    struct Endless;

    impl Serialize for Endless {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            serde::ser::SerializeSeq::end(to.serialize_seq(None)?)
        }
    }

    /// Refuses to be packed, and what is packed as it would be.
    #[derive(Clone)]
    struct Refusing;

    impl Serialize for Refusing {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("cell 17 has no mesh"))
        }
    }

    impl<'d> Deserialize<'d> for Refusing {
        fn deserialize<D: Deserializer<'d>>(_: D) -> Result<Self, D::Error> {
            Err(serde::de::Error::custom("cell 17 has no mesh"))
        }
    }

    /// Either is known only by what it looks like.
    #[derive(Clone, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Bare {
        Number(u64),
    }

    /// Which of both it is stands among its fields.
    #[derive(Clone, Serialize, Deserialize)]
    #[serde(tag = "kind")]
    enum Tagged {
        Number { value: u64 },
    }

    wire_by_serde!(Shape, Endless, Refusing, Bare, Tagged);

    fn arrived<D: Wire>(datum: &D, more: usize) -> Result<D, String> {
        let body = datum.body();
        assert_eq!(body.len(), datum.size());
        let mut block = Heap.allocate(body.len() + more);
        block.bytes_mut()[..body.len()].copy_from_slice(&body);
        D::unpack(&datum.head(), block)
    }

    #[test]
    fn whatever_serde_knows_arrives_as_it_left() {
        let named = Shape::Named {
            name: "Dreieck".into(),
            corners: vec![(f64::MIN_POSITIVE, i32::MIN), (-0.0, 1), (f64::INFINITY, 2)],
        };
        let map = BTreeMap::from([(0, None), (255, Some('ß'))]);
        let nested = Shape::Nested(Box::new(named.clone()), map);
        for shape in [Shape::Empty, named, nested] {
            assert_eq!(arrived(&shape, 0), Ok(shape));
        }
    }

    #[test]
    fn what_is_no_value_says_what_is_wrong_with_it() {
        let text = arrived(&Endless, 0).err().unwrap_or_default();
        assert!(text.contains("Endless cannot be packed"), "{text}");
        let text = arrived(&Shape::Empty, 3).unwrap_err();
        assert!(
            text.contains("Shape") && text.contains("3 bytes are left over"),
            "{text}"
        );
        for wrong in [&[][..], &[2, 0], &[0, 1, 200]] {
            let mut block = Heap.allocate(wrong.len());
            block.bytes_mut().copy_from_slice(wrong);
            let text = Shape::unpack(&[], block).unwrap_err();
            assert!(text.contains("Shape cannot be read"), "{text}");
        }
    }

    /// The text was `Serde Serialization Error`, as if serde were at fault.
    #[test]
    fn an_implementation_that_refuses_is_named_though_its_text_is_not_kept() {
        let text = arrived(&Refusing, 0).err().unwrap_or_default();
        let told = "Refusing cannot be packed: its `Serialize` refused";
        assert!(text.contains(told), "{text}");
        let mut block = Heap.allocate(1);
        block.bytes_mut().fill(0);
        let text = Refusing::unpack(&[], block).err().unwrap_or_default();
        let told = "Refusing cannot be read: its `Deserialize` refused";
        assert!(text.contains(told), "{text}");
    }
    /// The text was `This is a feature that PostCard will never implement`.
    #[test]
    fn a_type_that_must_be_looked_at_to_be_read_names_the_attributes_that_make_it_so() {
        let bare = arrived(&Bare::Number(7), 0).err();
        let tagged = arrived(&Tagged::Number { value: 7 }, 0).err();
        for (name, text) in [("Bare", bare), ("Tagged", tagged)] {
            let text = text.unwrap_or_default();
            let told = format!("{name} cannot be read: the format does not tell what comes next");
            assert!(text.contains(&told), "{text}");
            assert!(
                text.contains("`#[serde(untagged)]`, `#[serde(tag = …)]`"),
                "{text}"
            );
        }
    }
}
