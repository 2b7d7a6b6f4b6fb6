//! Data that cannot be sent as they are: a panic, or a head that is too long.

use super::*;
use crate::depot::post::LONGEST_HEAD;

/// Panics as it is asked for its head, its size or its bytes, of which it has so many.
struct Mute(&'static str, usize);

impl Mute {
    fn tell<T>(&self, what: &str, told: T) -> T {
        if self.0 == what {
            std::panic::resume_unwind(Box::new(format!("it has no {what}")));
        }
        told
    }
}

impl Cargo for Mute {
    fn head(&self) -> SmallVec<[u8; 32]> {
        self.tell("head", SmallVec::new())
    }
    fn size(&self) -> usize {
        self.tell("size", self.1)
    }
    fn body(&self) -> Cow<'_, [u8]> {
        self.tell("body", Cow::Owned(vec![1; self.1]))
    }
}

/// The error named no task, and ranks could make no other run together.
#[test]
fn a_datum_that_panics_as_it_is_sent_fails_the_run_and_no_other() {
    // The bytes of the last are asked for.
    let mute = [("head", 8), ("size", 8), ("body", 8), ("body", 10_000)];
    for (what, size) in mute {
        let mut depots = pair(LIMITS);
        open(&mut depots);
        let mut parcel = parcel(1, &[]);
        parcel.flows.push((0, Some(Arc::new(Mute(what, size)))));
        depots[0].post(parcel, false);
        exchange(&mut depots);
        let text = format!("a datum panicked as it was sent: it has no {what}");
        for closed in close(&mut depots) {
            let failure = closed.expect("ranks go on").expect("the run has failed");
            let expected = ("malformed", &text[..], &[7][..]);
            let told = (&failure.kind[..], &failure.message[..], &failure.name[..]);
            assert_eq!(told, expected);
        }
        open(&mut depots);
        assert_eq!(close(&mut depots), [Ok(None), Ok(None)]);
    }
}

/// A datum of eight bytes with a head of so many.
struct Headed(usize);

impl Cargo for Headed {
    fn head(&self) -> SmallVec<[u8; 32]> {
        SmallVec::from_elem(1, self.0)
    }
    fn size(&self) -> usize {
        8
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Owned(vec![1; 8])
    }
}

/// Heads of 4 GiB, whether of one datum or of many together, made messages whose length was told wrong.
#[test]
fn a_head_is_a_few_bytes_and_a_longer_one_fails_the_run_with_its_task() {
    for (length, fails) in [(LONGEST_HEAD, false), (LONGEST_HEAD + 1, true)] {
        let mut depots = pair(LIMITS);
        open(&mut depots);
        let mut parcel = parcel(1, &[]);
        parcel.flows.push((0, Some(Arc::new(Headed(length)))));
        depots[0].post(parcel, false);
        exchange(&mut depots);
        for closed in close(&mut depots) {
            let failure = closed.expect("ranks go on");
            assert_eq!(failure.is_some(), fails, "{failure:?}");
            let Some(failure) = failure else { continue };
            let text = "a datum has a head of 32769 bytes (at most 32768 are allowed)";
            assert_eq!((&failure.message[..], &failure.name[..]), (text, &[7][..]));
        }
        open(&mut depots);
        assert_eq!(close(&mut depots), [Ok(None), Ok(None)]);
    }
}
