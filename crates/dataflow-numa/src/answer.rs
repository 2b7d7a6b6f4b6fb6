//! Answer: an error of the operating system, as errors of this crate keep it.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

/// What the operating system answered: an [`io::Error`] that can be copied and compared.
///
/// Two are equal if they have the same kind and the same text.
#[derive(Clone, Debug)]
pub struct Answer(Arc<io::Error>);

impl Answer {
    /// The error itself.
    pub fn error(&self) -> &io::Error {
        &self.0
    }

    /// The error as the source of another.
    pub(crate) fn as_source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

impl From<io::Error> for Answer {
    fn from(error: io::Error) -> Self {
        Answer(Arc::new(error))
    }
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.0.kind() == other.0.kind() && self.to_string() == other.to_string()
    }
}

impl Eq for Answer {}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
