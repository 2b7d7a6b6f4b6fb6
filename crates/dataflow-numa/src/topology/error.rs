//! Errors of reading a machine's description; each names the file, text or PUs that were asked for.

use crate::Answer;
use std::fmt;
use std::path::PathBuf;

/// Why there is no topology.
///
/// # Examples
/// See [`Topology`](super::Topology#examples).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// This build cannot read it: the feature `hwloc` is off.
    NeedsHwloc {
        /// What was to be read or written.
        asked_for: String,
    },
    /// The library found at run time is not hwloc 2, for which this crate was written.
    WrongHwloc {
        /// Its interface version, as `hwloc_get_api_version` tells it.
        version: u32,
    },
    /// The file cannot be read at all.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system answered.
        reason: Answer,
    },
    /// The file is no topology that hwloc 2 reads.
    NotATopology {
        /// The file.
        path: PathBuf,
        /// The version of the format it claims, if it claims one.
        version: Option<String>,
    },
    /// The text is no synthetic description.
    NotSynthetic {
        /// The text.
        description: String,
    },
    /// None of the PUs that this process may use is in the topology.
    NothingAllowed {
        /// The PUs, by the operating system's numbers.
        pus: Vec<usize>,
        /// The variable of the environment that describes it, with its value, if one does.
        described_by: Option<String>,
    },
    /// hwloc refused.
    Refused {
        /// What was asked of it.
        what: String,
        /// What it answered.
        reason: Answer,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopologyError::NeedsHwloc { asked_for } => write!(
                f,
                "{asked_for} needs the feature `hwloc`, which this program was built without"
            ),
            TopologyError::WrongHwloc { version } => {
                let (major, minor) = (version >> 16, (version >> 8) & 0xff);
                write!(f, "the hwloc found here is {major}.{minor} (2.x is needed)")
            }
            TopologyError::Unreadable { path, reason } => {
                write!(f, "{} cannot be read: {reason}", path.display())
            }
            TopologyError::NotATopology { path, version } => {
                let path = path.display();
                match version {
                    Some(version) => write!(
                        f,
                        "{path} is not read by hwloc 2: its format is {version}, or it is damaged (allowed: an hwloc XML file of format 1 or 2)"
                    ),
                    None => write!(
                        f,
                        "{path} is not a topology (allowed: an hwloc XML file of format 1 or 2)"
                    ),
                }
            }
            TopologyError::NotSynthetic { description } => write!(
                f,
                "{description:?} describes no machine (allowed: hwloc's synthetic strings, like \"Package:2 [NUMANode] Core:4 PU:2\")"
            ),
            TopologyError::NothingAllowed { pus, described_by } => write!(
                f,
                "the topology{} has none of the processors {pus:?} that this process may use",
                DescribedBy(described_by.as_deref())
            ),
            TopologyError::Refused { what, reason } => {
                write!(f, "hwloc refused to {what}: {reason}")
            }
        }
    }
}

impl TopologyError {
    /// It is about a machine that something in the environment describes.
    pub(super) fn described_by(self, by: String) -> Self {
        match self {
            TopologyError::NothingAllowed { pus, .. } => TopologyError::NothingAllowed {
                pus,
                described_by: Some(by),
            },
            other => other,
        }
    }
}

/// Whose topology it is, if somebody says so.
struct DescribedBy<'a>(Option<&'a str>);

impl fmt::Display for DescribedBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |by| write!(f, " of {by}"))
    }
}

impl std::error::Error for TopologyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TopologyError::Unreadable { reason, .. } | TopologyError::Refused { reason, .. } => {
                reason.as_source()
            }
            _ => None,
        }
    }
}
