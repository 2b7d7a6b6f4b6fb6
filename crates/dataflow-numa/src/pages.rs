//! Pages: which NUMA node memory lies on, and the wish where it shall lie.
//!
//! NUMA nodes go by the operating system's numbers here, as in [`NumaNode::os_index`].
//! Wishes are preferences, never bindings: on a full node the kernel takes the next one instead
//! of killing the process.
//!
//! # Law
//! Content never changes and no page is touched: a wish counts for pages that are touched first
//! after it. Transparent huge pages are placed as a whole, so what is placed apart should lie on
//! multiples of 2 MiB.
//!
//! # Cost
//! 0.2 µs for a question about one page, 23 µs for 512 of them; 0.6 µs for a wish about 2 MiB.
//! So ask once per tile, not once per task.
//!
//! [`NumaNode::os_index`]: crate::NumaNode::os_index

use crate::Answer;
use std::fmt;

/// The kernel reads a bit for each number up to the highest; Linux is built for 1,024 NUMA nodes at most.
const MOST_NODES: usize = 1 << 16;

/// Why pages were not asked about or placed. The program is right without; it only knows less.
///
/// # Examples
/// ```
/// use dataflow_numa::pages::{PagesError, Wish, place};
///
/// let mut memory = vec![0; 4096];
/// let refused = place(&mut memory, Wish::Prefer(100_000)).unwrap_err();
/// assert_eq!(refused, PagesError::TooHigh { node: 100_000 });
/// assert_eq!(refused.to_string(), "there is no NUMA node 100000 (their numbers are below 65536)");
/// ```
/// What the kernel refuses has its answer:
/// ```
/// use dataflow_numa::pages::{PagesError, Wish, place, size};
///
/// let mut memory = vec![0; 4 * size()];
/// let begin = memory.as_ptr().align_offset(size());
/// let whole_pages = &mut memory[begin..begin + 2 * size()];
/// if let Err(PagesError::Refused { call, nodes, reason }) = place(whole_pages, Wish::Prefer(1000)) {
///     assert_eq!((call, nodes), ("mbind", vec![1000]));
///     assert!(reason.error().raw_os_error().is_some());
/// } // elsewhere than on Linux, or in a container, another error
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PagesError {
    /// The operating system has no such call.
    Unsupported,
    /// Forbidden here, as in many containers: there is no locality to be had.
    Forbidden {
        /// The system call.
        call: &'static str,
    },
    /// The memory does not begin and end where pages do.
    NotAligned {
        /// The first address.
        address: usize,
        /// The length in bytes.
        length: usize,
        /// The size of a page.
        page: usize,
    },
    /// No NUMA node was named.
    NoNode,
    /// No system numbers a NUMA node so high: each has to be below 65,536.
    TooHigh {
        /// Its number.
        node: usize,
    },
    /// The kernel refused.
    Refused {
        /// The system call.
        call: &'static str,
        /// The NUMA nodes asked for, by the operating system's numbers.
        nodes: Vec<usize>,
        /// What it answered.
        reason: Answer,
    },
}

impl fmt::Display for PagesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PagesError::Unsupported => {
                write!(f, "pages cannot be placed on {}", std::env::consts::OS)
            }
            PagesError::Forbidden { call } => write!(
                f,
                "{call} is forbidden here (a container's rules?): memory has no known NUMA node"
            ),
            PagesError::NotAligned {
                address,
                length,
                page,
            } => write!(
                f,
                "{length} bytes from {address:#x} on are no whole pages (of {page} bytes)"
            ),
            PagesError::NoNode => f.write_str("pages cannot be spread over no NUMA node at all"),
            PagesError::TooHigh { node } => write!(
                f,
                "there is no NUMA node {node} (their numbers are below {MOST_NODES})"
            ),
            PagesError::Refused {
                call,
                nodes,
                reason,
            } => write!(f, "{call} to NUMA nodes {nodes:?} was refused: {reason}"),
        }
    }
}

impl std::error::Error for PagesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PagesError::Refused { reason, .. } => reason.as_source(),
            _ => None,
        }
    }
}

/// The NUMA node of the page at each of these offsets of `memory`; `None` for pages that lie
/// nowhere yet because nobody wrote to them.
///
/// # Errors
/// If the system cannot tell or does not want to.
///
/// # Panics
/// If an offset is beyond the memory.
///
/// ```
/// use dataflow_numa::pages;
/// let memory = vec![1_u8; 100_000];
/// match pages::nodes_of(&memory, &[0, 50_000]) {
///     Ok(nodes) => assert!(nodes[0].is_some()),
///     Err(error) => println!("{error}"), // a container, perhaps
/// }
/// ```
#[track_caller]
pub fn nodes_of(memory: &[u8], offsets: &[usize]) -> Result<Vec<Option<usize>>, PagesError> {
    let within = |offset: &usize| *offset < memory.len();
    assert!(offsets.iter().all(within), "beyond {} bytes", memory.len());
    kernel::nodes_of(memory, offsets)
}

/// The NUMA node of the first page of `memory`; `None` if it lies nowhere yet, or is empty.
///
/// # Errors
/// As [`nodes_of`].
pub fn node_of(memory: &[u8]) -> Result<Option<usize>, PagesError> {
    match memory.is_empty() {
        true => Ok(None),
        false => Ok(nodes_of(memory, &[0])?[0]),
    }
}

/// Where pages shall lie that are touched for the first time.
///
/// # Examples
/// See [`PagesError`](PagesError#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wish<'a> {
    /// With the thread that touches them: what holds without any wish.
    FirstTouch,
    /// On this NUMA node, while it has room.
    Prefer(usize),
    /// Page by page on these NUMA nodes in turn.
    Interleave(&'a [usize]),
}

impl Wish<'_> {
    /// The NUMA nodes that it names.
    fn nodes(&self) -> &[usize] {
        match self {
            Wish::FirstTouch => &[],
            Wish::Prefer(node) => std::slice::from_ref(node),
            Wish::Interleave(nodes) => nodes,
        }
    }
}

/// Tells the kernel where the pages of `memory` shall lie. Pages that are there already stay.
///
/// # Errors
/// If the memory does not consist of whole pages, if a NUMA node does not exist or may not be
/// used, or if the system cannot or does not want to.
pub fn place(memory: &mut [u8], wish: Wish) -> Result<(), PagesError> {
    let nodes = wish.nodes();
    if matches!(wish, Wish::Interleave([])) {
        return Err(PagesError::NoNode);
    }
    if let Some(&node) = nodes.iter().find(|&&node| node >= MOST_NODES) {
        return Err(PagesError::TooHigh { node });
    }
    if memory.is_empty() {
        return Ok(());
    }
    let (address, length, page) = (memory.as_ptr().addr(), memory.len(), size());
    if !address.is_multiple_of(page) || !length.is_multiple_of(page) {
        return Err(PagesError::NotAligned {
            address,
            length,
            page,
        });
    }
    kernel::place(memory, wish)
}

/// The size of a small page in bytes.
pub fn size() -> usize {
    kernel::page_size()
}

#[cfg(target_os = "linux")]
mod kernel {
    use super::{PagesError, Wish};
    use std::ffi::{c_int, c_long, c_ulong, c_void};
    use std::io;
    use std::ptr;

    const BITS: usize = c_ulong::BITS as usize;
    /// This process, to the kernel.
    const SELF: c_int = 0;

    pub fn page_size() -> usize {
        // SAFETY: asks for a number
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).unwrap_or(4096)
    }

    pub fn nodes_of(memory: &[u8], offsets: &[usize]) -> Result<Vec<Option<usize>>, PagesError> {
        let page = page_size();
        let start = |&offset: &usize| {
            let at = memory.as_ptr().wrapping_add(offset);
            at.wrapping_sub(at.addr() % page).cast::<c_void>()
        };
        let pages: Vec<*const c_void> = offsets.iter().map(start).collect();
        let mut status: Vec<c_int> = vec![-1; pages.len()];
        let no_targets = ptr::null::<c_int>();
        // SAFETY: - without targets the kernel moves nothing and only looks the addresses up
        //         - it reads and writes as many entries as both lists have
        let answer = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                SELF,
                pages.len() as c_ulong,
                pages.as_ptr(),
                no_targets,
                status.as_mut_ptr(),
                0 as c_int,
            )
        };
        checked("move_pages", answer, &[])?;
        // Negative: never written to, or only the shared page of zeros behind it.
        Ok(status
            .iter()
            .map(|&node| usize::try_from(node).ok())
            .collect())
    }

    pub fn place(memory: &mut [u8], wish: Wish) -> Result<(), PagesError> {
        let nodes = wish.nodes();
        let mode = match wish {
            Wish::FirstTouch => libc::MPOL_DEFAULT,
            Wish::Prefer(_) => libc::MPOL_PREFERRED,
            Wish::Interleave(_) => libc::MPOL_INTERLEAVE,
        };
        let words = nodes.iter().max().map_or(0, |last| last / BITS + 1);
        let mut mask: Vec<c_ulong> = vec![0; words];
        for node in nodes {
            mask[node / BITS] |= 1 << (node % BITS);
        }
        // The kernel reads one bit less than it is told.
        let n_bits = if words == 0 { 0 } else { words * BITS + 1 };
        let bits = if words == 0 {
            ptr::null()
        } else {
            mask.as_ptr()
        };
        // SAFETY: - the pages are ours alone; the call changes neither content nor mapping
        //         - the kernel reads `words` words of the mask, none if the pointer is null
        let answer = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                memory.as_mut_ptr(),
                memory.len() as c_ulong,
                mode,
                bits,
                n_bits as c_ulong,
                0 as c_int,
            )
        };
        checked("mbind", answer, nodes)
    }

    fn checked(call: &'static str, answer: c_long, nodes: &[usize]) -> Result<(), PagesError> {
        if answer == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        Err(match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => PagesError::Forbidden { call },
            Some(libc::ENOSYS) => PagesError::Unsupported,
            _ => PagesError::Refused {
                call,
                nodes: nodes.to_vec(),
                reason: error.into(),
            },
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::{PagesError, Wish};

    pub fn page_size() -> usize {
        4096
    }

    pub fn nodes_of(_: &[u8], _: &[usize]) -> Result<Vec<Option<usize>>, PagesError> {
        Err(PagesError::Unsupported)
    }

    pub fn place(_: &mut [u8], _: Wish) -> Result<(), PagesError> {
        Err(PagesError::Unsupported)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::{HugePages, Topology};
    use dataflow_core::port::{Block, Memory};

    const N_PAGES: usize = 64;

    /// Whole pages that nobody has touched, or `None` where a container forbids the question.
    fn untouched() -> Option<(HugePages, Box<dyn Block>)> {
        let arena = HugePages::new();
        let block = arena.allocate(N_PAGES * size());
        match node_of(block.bytes()) {
            Err(PagesError::Forbidden { call }) => {
                println!("skipped: {call} is forbidden here");
                None
            }
            _ => Some((arena, block)),
        }
    }

    fn offsets() -> Vec<usize> {
        (0..N_PAGES).map(|page| page * size() + 7).collect()
    }

    fn os_indices() -> Vec<usize> {
        let topology = Topology::of_this_process();
        topology
            .numa_nodes()
            .iter()
            .map(|node| node.os_index)
            .collect()
    }

    #[test]
    fn a_page_lies_nowhere_until_it_is_written_and_then_on_a_node_of_this_machine() {
        let Some((_arena, mut block)) = untouched() else {
            return;
        };
        assert_eq!(nodes_of(block.bytes(), &offsets()), Ok(vec![None; N_PAGES]));
        block.bytes_mut().fill(1);
        let nodes = os_indices();
        for node in nodes_of(block.bytes(), &offsets()).unwrap() {
            assert!(node.is_some_and(|node| nodes.contains(&node)), "{node:?}");
        }
        assert_eq!(node_of(&[]), Ok(None));
    }

    #[test]
    fn pages_lie_where_they_were_wished() {
        let nodes = os_indices();
        let Some((_arena, mut block)) = untouched() else {
            return;
        };
        let mut obeying = Vec::new();
        for &node in &nodes {
            let (_arena, mut block) = untouched().unwrap();
            match place(block.bytes_mut(), Wish::Prefer(node)) {
                // It has no memory, or none for this process.
                Err(PagesError::Refused { .. }) => continue,
                answer => answer.unwrap(),
            }
            block.bytes_mut().fill(1);
            assert_eq!(
                nodes_of(block.bytes(), &offsets()).unwrap(),
                vec![Some(node); N_PAGES]
            );
            obeying.push(node);
        }
        assert!(!obeying.is_empty(), "{nodes:?}");
        place(block.bytes_mut(), Wish::Interleave(&nodes)).unwrap();
        block.bytes_mut().fill(1);
        let found = nodes_of(block.bytes(), &offsets()).unwrap();
        for node in obeying.iter().copied().map(Some) {
            let share = found.iter().filter(|&&other| other == node).count();
            assert!(share >= N_PAGES / obeying.len(), "{node:?}: {found:?}");
        }
        place(block.bytes_mut(), Wish::FirstTouch).unwrap();
    }

    #[test]
    fn what_cannot_be_placed_is_refused_by_name() {
        let Some((_arena, mut block)) = untouched() else {
            return;
        };
        let error = place(&mut block.bytes_mut()[1..], Wish::Prefer(0)).unwrap_err();
        assert!(matches!(error, PagesError::NotAligned { .. }), "{error}");
        // One of them is the last bit of a word of the mask.
        for node in [895, 900] {
            let error = place(block.bytes_mut(), Wish::Prefer(node)).unwrap_err();
            assert!(error.to_string().contains(&node.to_string()), "{error}");
        }
        assert_eq!(
            place(block.bytes_mut(), Wish::Interleave(&[])),
            Err(PagesError::NoNode)
        );
        assert_eq!(place(&mut [], Wish::Prefer(0)), Ok(()));
    }

    /// The mask that the kernel reads has a bit for each number: memory for it ended the process.
    #[test]
    fn a_numa_node_that_no_system_has_is_refused_before_a_mask_is_made_for_it() {
        let mut memory = vec![0; 2 * size()];
        let first = memory.as_ptr().align_offset(size());
        let page = &mut memory[first..first + size()];
        for node in [MOST_NODES, 1 << 44, usize::MAX] {
            for wish in [Wish::Prefer(node), Wish::Interleave(&[0, node])] {
                let error = place(page, wish).unwrap_err();
                assert_eq!(error, PagesError::TooHigh { node });
                assert!(error.to_string().contains("65536"), "{error}");
            }
        }
        let topology = Topology::new(
            [0, 1]
                .map(|at| crate::topology::Core {
                    numa_node: at,
                    package: 0,
                    pus: vec![at],
                })
                .to_vec(),
            [0, usize::MAX]
                .map(|os_index| crate::topology::NumaNode { os_index })
                .to_vec(),
            None,
        );
        for placing in [crate::Placing::Near, crate::Placing::Interleaved] {
            HugePages::on(&topology, placing).allocate(4 << 20);
        }
    }
}
