//! Credit: how many bytes may travel inside activations from one rank to another.
//!
//! Credit returns when the bytes have arrived, whatever has run: a rank that computes for long blocks
//! nobody. Only where much has come that no task uses it returns later (`depot`). Who has none left
//! does not wait; it announces the datum and the receiver asks for it.
//!
//! # Law
//! Bytes under way never exceed the credit. What is said is how many bytes arrived in all, so a
//! later word makes up for an earlier one.

/// No credit is larger: what travels inside of one message is counted in 32 bits.
pub const MOST: usize = 1 << 30;

/// Half of a credit is worth a packet.
pub const ALONE: u64 = 2;
/// An eighth is worth a message in a packet that leaves anyway: to say it and to heed it takes some 500 instructions, a
/// tenth of what a small parcel takes on both ranks together.
pub const ALONG: u64 = 8;

/// One rank's credit with another, and the other's with it.
#[derive(Clone, Debug)]
pub struct Credit {
    most: u64,
    sent: u64,
    returned: u64,
    arrived: u64,
    told: u64,
}

impl Credit {
    /// At most so many bytes under way, and never more than [`MOST`].
    pub fn new(most: usize) -> Self {
        Credit {
            most: most.min(MOST) as u64,
            sent: 0,
            returned: 0,
            arrived: 0,
            told: 0,
        }
    }

    /// Uses up credit for so many bytes, if there is enough.
    #[must_use]
    pub fn spend(&mut self, bytes: usize) -> bool {
        let enough = self.under_way() + bytes as u64 <= self.most;
        if enough {
            self.sent += bytes as u64;
        }
        enough
    }

    /// Bytes that were sent and, for all this rank knows, have not arrived.
    pub fn under_way(&self) -> u64 {
        self.sent - self.returned
    }

    /// The other rank says how many bytes have arrived in all; false if it cannot be so.
    #[must_use]
    pub fn returned(&mut self, arrived: u64) -> bool {
        let possible = (self.returned..=self.sent).contains(&arrived);
        if possible {
            self.returned = arrived;
        }
        possible
    }

    /// Bytes of the other rank have arrived; says whether word of them is worth [a message](ALONG) now, and was
    /// not before.
    #[must_use]
    pub fn arrived(&mut self, bytes: usize) -> bool {
        let was_due = self.is_due(ALONG);
        self.arrived += bytes as u64;
        !was_due && self.is_due(ALONG)
    }

    /// Whether the other rank is owed word of one of so many parts of its credit.
    pub fn is_due(&self, parts: u64) -> bool {
        let owed = self.arrived - self.told;
        owed > 0 && owed.saturating_mul(parts) >= self.most
    }

    /// What to tell it, if it is.
    pub fn due(&mut self, parts: u64) -> Option<u64> {
        let due = self.is_due(parts);
        if due {
            self.told = self.arrived;
        }
        due.then_some(self.arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_under_way_never_exceed_the_credit() {
        let mut credit = Credit::new(100);
        assert!(credit.spend(60) && !credit.spend(41) && credit.spend(40));
        assert!(credit.spend(0) && !credit.spend(1));
        assert!(credit.returned(60));
        assert_eq!(credit.under_way(), 40);
        assert!(credit.spend(60) && !credit.spend(1));
    }

    /// The length of a message wrapped, and its receiver took the rest for other messages.
    #[test]
    fn however_much_is_asked_for_no_message_is_longer_than_can_be_said() {
        let mut credit = Credit::new(usize::MAX);
        assert!(!credit.spend(u32::MAX as usize + 1) && credit.spend(MOST) && !credit.spend(1));
    }

    /// Every part of no credit is reached by nothing: word would follow word.
    #[test]
    fn who_is_owed_no_word_is_told_none_though_there_is_no_credit() {
        let mut credit = Credit::new(0);
        assert!(!credit.arrived(0) && credit.due(ALONG).is_none());
        assert!(credit.arrived(1));
        assert_eq!([(); 2].map(|()| credit.due(ALONE)), [Some(1), None]);
    }

    #[test]
    fn a_return_that_goes_back_or_beyond_what_was_sent_is_refused() {
        let mut credit = Credit::new(100);
        assert!(credit.spend(50) && credit.returned(20));
        assert!(!credit.returned(19) && !credit.returned(51));
    }

    #[test]
    fn half_the_credit_is_worth_a_packet_and_an_eighth_goes_along_with_another() {
        let mut credit = Credit::new(100);
        assert!(!credit.arrived(0) && !credit.arrived(12));
        assert_eq!(credit.due(ALONG), None);
        assert!(credit.arrived(1) && !credit.arrived(1), "once");
        assert_eq!(credit.due(ALONE), None);
        assert_eq!(credit.due(ALONG), Some(14));
        assert!(credit.arrived(30) && !credit.arrived(20));
        assert_eq!(credit.due(ALONE), Some(64));
    }
}
