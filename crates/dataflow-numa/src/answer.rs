//! Answer: an error of the operating system, as errors of this crate keep it.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

/// What the operating system answered: an [`io::Error`] that can be copied and compared.
///
/// Two are equal if they have the same kind and the same text.
///
/// # Examples
/// See [`PagesError`](crate::pages::PagesError) and [`TopologyError`](crate::TopologyError), whose source it is.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::PagesError;
    use crate::pin::PinError;
    use crate::{TopologyError, WorkersError};

    #[test]
    fn what_the_system_answered_is_the_source_of_each_error_that_tells_it() {
        let reason: Answer = io::Error::from_raw_os_error(12).into();
        let topology = TopologyError::Refused {
            what: "load".into(),
            reason: reason.clone(),
        };
        let nodes = vec![1];
        let errors: [Box<dyn Error>; 5] = [
            Box::new(WorkersError::ThreadNotStarted {
                worker: 3,
                reason: reason.clone(),
            }),
            Box::new(PinError::Refused {
                pus: vec![7],
                reason: reason.clone(),
            }),
            Box::new(PagesError::Refused {
                call: "mbind",
                nodes,
                reason: reason.clone(),
            }),
            Box::new(topology.clone()),
            Box::new(WorkersError::Topology(topology)),
        ];
        for error in errors {
            assert!(error.to_string().contains(&reason.to_string()), "{error}");
            let mut source = error.source();
            while let Some(next) = source.and_then(Error::source) {
                source = Some(next);
            }
            let answered = source.and_then(|source| source.downcast_ref::<io::Error>());
            assert_eq!(answered.and_then(io::Error::raw_os_error), Some(12));
        }
    }

    #[test]
    fn answers_are_equal_if_they_say_the_same() {
        let of = |code| Answer::from(io::Error::from_raw_os_error(code));
        assert_eq!(of(12), of(12));
        assert_ne!(of(12), of(13));
        assert_eq!(of(13).error().kind(), io::ErrorKind::PermissionDenied);
    }
}
