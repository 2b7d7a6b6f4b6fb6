//! Arena: large blocks from regions of huge pages, all of them meant for one place.
//!
//! An arena maps regions at multiples of 2 MiB, asks the kernel for huge pages (it gives small
//! ones where it has no others) on the NUMA node it is meant for, and cuts blocks from them.
//!
//! # Law
//! An [`OwnedRange`] is the only owner of its range of a region: ranges are cut from a fresh region or
//! from a range that was given back, and never overlap. A region is unmapped when neither the
//! arena nor a range holds it. Memory is always initialised: the kernel maps zeros, and what is
//! used again holds what was written before.
//! A block says where its first page really lies, not where it was wished: the kernel prefers a
//! node, and takes the next one where that is full.
//!
//! # Waste
//! A block is rounded up to a multiple of 64 bytes, from 64 KiB on to a multiple of 4 KiB (it
//! then starts at a page, where pages are no larger). Ranges given back join their neighbours, and the smallest that
//! fits is taken first. Of those of up to 1 KiB some are kept as they are, for the next block of that size: data of
//! messages come and go. They join their neighbours when nothing else fits.
//! Freed memory stays mapped, and its pages where they lie, for the next block. Where a block that is larger than any step finds no room, the regions that hold no block are
//! unmapped, for they are all too short: what grows would pile up.

use super::RegionSite;
use crate::pages;
use crate::sync::held;
use dataflow_core::port::{Block, Heap, Memory};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Blocks smaller than this do not start at a page.
const LARGE: usize = 64 << 10;
const SMALL_GRANULE: usize = 64;
const PAGE: usize = 4 << 10;
/// With pages of 4 KiB. Where those are larger, huge ones are too (512 MiB with 64 KiB, of AArch64), and a
/// region that is smaller has none: one huge page would be more than most programs need.
const HUGE_PAGE: usize = 2 << 20;
/// Ranges up to this length are kept for the next block of that length, at most so many of each.
const KEPT_LENGTH: usize = 1 << 10;
const KEPT: usize = 64;
/// Regions are as large as all before them together, between one huge page and this.
const LARGEST_STEP: usize = 64 << 20;

/// An arena of regions on huge pages. Clones share it; blocks may outlive it.
///
/// On systems other than Linux, and where the kernel maps nothing more, blocks come from the
/// global allocator.
#[derive(Clone)]
pub(super) struct Arena {
    site: RegionSite,
    lists: Arc<Mutex<FreeLists>>,
}

impl Arena {
    /// An arena that has mapped nothing yet.
    pub fn new(site: RegionSite) -> Self {
        let lists = Arc::default();
        Arena { site, lists }
    }

    /// Bytes of address space mapped, in use or not.
    pub fn mapped_bytes(&self) -> usize {
        let lists = held(&self.lists);
        lists.small.mapped + lists.large.mapped
    }

    /// Unmaps regions that hold no block.
    pub fn release_unused(&self) {
        let mut lists = held(&self.lists);
        let unused = [lists.small.take_unused(), lists.large.take_unused()];
        // Unmapping is slow: after the lock.
        drop(lists);
        drop(unused);
    }
}

impl Memory for Arena {
    /// One lock and a search among the free ranges, well below a microsecond; a new region now
    /// and then. The first touch of each page costs more than all of this.
    fn allocate(&self, bytes: usize) -> Box<dyn Block> {
        let mut outgrown = Vec::new();
        let range = (bytes > 0)
            .then(|| held(&self.lists).cut(bytes, &self.site, &mut outgrown))
            .flatten();
        // Unmapping is slow: after the lock.
        drop(outgrown);
        match range {
            Some(range) => {
                let home = Arc::downgrade(&self.lists);
                Box::new(HugeBlock {
                    range: Some(range),
                    bytes,
                    site: self.site.clone(),
                    numa_node: AtomicUsize::new(NOT_ASKED),
                    home,
                })
            }
            // Nothing to map, or the kernel refuses: the global allocator has the last word.
            None => Heap.allocate(bytes),
        }
    }
}

/// The node of a block of which nobody has asked the kernel yet, or in vain.
const NOT_ASKED: usize = usize::MAX;

/// A range on loan, and the lists it goes back to.
struct HugeBlock {
    /// `None` only while it is being dropped.
    range: Option<OwnedRange>,
    bytes: usize,
    site: RegionSite,
    /// The answer of the kernel, once there was one.
    numa_node: AtomicUsize,
    home: Weak<Mutex<FreeLists>>,
}

impl Block for HugeBlock {
    fn bytes(&self) -> &[u8] {
        self.range
            .as_ref()
            .map_or(&[], |range| &range.bytes()[..self.bytes])
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.bytes;
        self.range
            .as_mut()
            .map_or(&mut [], |range| &mut range.bytes_mut()[..bytes])
    }

    fn numa_node(&self) -> Option<usize> {
        match self.numa_node.load(Ordering::Relaxed) {
            NOT_ASKED => self.ask(),
            known => Some(known),
        }
    }
}

impl HugeBlock {
    /// Asks where the first page lies and keeps the answer: pages stay where they are.
    #[cold]
    fn ask(&self) -> Option<usize> {
        let node = self.site.node_of(self.bytes())?;
        self.numa_node.store(node, Ordering::Relaxed);
        Some(node)
    }
}

impl Drop for HugeBlock {
    fn drop(&mut self) {
        // Without its arena a range just lets go of its region.
        if let (Some(range), Some(home)) = (self.range.take(), self.home.upgrade()) {
            held(&home).give_back(range, self.bytes);
        }
    }
}

/// Small and large blocks come from different regions: so large ones always start at a page.
struct FreeLists {
    small: FreeList,
    large: FreeList,
}

impl Default for FreeLists {
    fn default() -> Self {
        FreeLists {
            small: FreeList::new(SMALL_GRANULE, 1 + KEPT_LENGTH / SMALL_GRANULE),
            large: FreeList::new(PAGE, 0),
        }
    }
}

impl FreeLists {
    /// A range; regions that hold no block, and are too short for it, go to `outgrown`.
    fn cut(
        &mut self,
        bytes: usize,
        site: &RegionSite,
        outgrown: &mut Vec<OwnedRange>,
    ) -> Option<OwnedRange> {
        let list = self.of(bytes);
        let length = bytes.checked_next_multiple_of(list.granule)?;
        list.cut(length, site, outgrown)
    }

    /// Takes back what `cut(bytes)` gave.
    fn give_back(&mut self, range: OwnedRange, bytes: usize) {
        self.of(bytes).give_back(range);
    }

    /// The one for blocks of so many bytes.
    fn of(&mut self, bytes: usize) -> &mut FreeList {
        match bytes < LARGE {
            true => &mut self.small,
            false => &mut self.large,
        }
    }
}

/// Where a range starts: region, then offset.
type Position = (usize, usize);

/// Regions and their free ranges.
struct FreeList {
    granule: usize,
    mapped: usize,
    /// Free ranges by position: neighbours are found here.
    free: BTreeMap<Position, OwnedRange>,
    /// The same by length: the smallest that fits is found here.
    by_length: BTreeSet<(usize, Position)>,
    /// Ranges that are free, too, by their number of granules; their neighbours do not know.
    kept: Box<[Vec<OwnedRange>]>,
}

impl FreeList {
    fn new(granule: usize, n_kept: usize) -> Self {
        FreeList {
            granule,
            mapped: 0,
            free: BTreeMap::new(),
            by_length: BTreeSet::new(),
            kept: (0..n_kept).map(|_| Vec::new()).collect(),
        }
    }

    fn cut(
        &mut self,
        length: usize,
        site: &RegionSite,
        outgrown: &mut Vec<OwnedRange>,
    ) -> Option<OwnedRange> {
        if let Some(range) = self.kept_like(length).and_then(Vec::pop) {
            return Some(range);
        }
        let found = self.smallest(length).or_else(|| {
            self.join_kept();
            self.smallest(length)
        });
        let mut range = match found {
            Some(range) => range,
            None => {
                if length > LARGEST_STEP {
                    outgrown.append(&mut self.take_unused());
                }
                self.map(length, site)?
            }
        };
        if let Some(rest) = range.split_off(length) {
            self.put(rest);
        }
        Some(range)
    }

    fn give_back(&mut self, range: OwnedRange) {
        match self.kept_like(range.length) {
            Some(kept) if kept.len() < KEPT => kept.push(range),
            _ => self.join(range),
        }
    }

    /// Where ranges of that length are kept, if they are.
    #[inline]
    fn kept_like(&mut self, length: usize) -> Option<&mut Vec<OwnedRange>> {
        self.kept.get_mut(length / self.granule)
    }

    /// What is kept becomes free for other lengths.
    fn join_kept(&mut self) {
        for granules in 0..self.kept.len() {
            while let Some(range) = self.kept[granules].pop() {
                self.join(range);
            }
        }
    }

    /// The smallest range that fits.
    fn smallest(&mut self, length: usize) -> Option<OwnedRange> {
        let fits = self.by_length.range((length, (0, 0))..).next();
        let (_, position) = *fits?;
        self.take(position)
    }

    /// A range joins its neighbours.
    fn join(&mut self, mut range: OwnedRange) {
        let (region, offset) = range.position();
        if let Some((&after, _)) = self.free.range((region, offset)..).next()
            && after == (region, offset + range.length)
            && let Some(next) = self.take(after)
        {
            range.append(next);
        }
        if let Some((&before, earlier)) = self.free.range(..(region, offset)).next_back()
            && (before.0, before.1 + earlier.length) == (region, offset)
            && let Some(mut earlier) = self.take(before)
        {
            earlier.append(range);
            range = earlier;
        }
        self.put(range);
    }

    /// A fresh region, whole.
    fn map(&mut self, length: usize, site: &RegionSite) -> Option<OwnedRange> {
        let step = self.mapped.clamp(HUGE_PAGE, LARGEST_STEP);
        let length = length.checked_next_multiple_of(HUGE_PAGE)?.max(step);
        let region = Arc::new(Region::map(length)?);
        self.mapped += length;
        let mut range = OwnedRange {
            region,
            offset: 0,
            length,
        };
        // Nobody has touched it yet. Where the kernel refuses, pages lie with the thread that does.
        site.with_wish(|wish| pages::place(range.bytes_mut(), wish).ok());
        Some(range)
    }

    fn put(&mut self, range: OwnedRange) {
        self.by_length.insert((range.length, range.position()));
        self.free.insert(range.position(), range);
    }

    fn take(&mut self, position: Position) -> Option<OwnedRange> {
        let range = self.free.remove(&position)?;
        self.by_length.remove(&(range.length, position));
        Some(range)
    }

    fn take_unused(&mut self) -> Vec<OwnedRange> {
        self.join_kept();
        let whole = |(_, range): &(&Position, &OwnedRange)| range.length == range.region.length();
        let positions: Vec<Position> = self
            .free
            .iter()
            .filter(whole)
            .map(|(&position, _)| position)
            .collect();
        let unused: Vec<OwnedRange> = positions
            .into_iter()
            .filter_map(|position| self.take(position))
            .collect();
        self.mapped -= unused.iter().map(|range| range.length).sum::<usize>();
        unused
    }
}

/// A range of a region. The thread that holds the range owns the bytes; it cannot be cloned.
struct OwnedRange {
    region: Arc<Region>,
    offset: usize,
    length: usize,
}

impl OwnedRange {
    fn position(&self) -> Position {
        (self.region.address(), self.offset)
    }

    /// Shortens the range to `length` and returns what follows, if anything does.
    fn split_off(&mut self, length: usize) -> Option<OwnedRange> {
        let rest = self.length.checked_sub(length).filter(|&rest| rest > 0)?;
        self.length = length;
        let region = Arc::clone(&self.region);
        Some(OwnedRange {
            region,
            offset: self.offset + length,
            length: rest,
        })
    }

    /// Joins the range that starts where this one ends.
    fn append(&mut self, next: OwnedRange) {
        assert!(
            Arc::ptr_eq(&self.region, &next.region) && self.offset + self.length == next.offset,
            "only neighbours can be joined"
        );
        self.length += next.length;
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: - the range lies inside the mapping, which `region` keeps alive
        //         - the memory is initialised: mapped as zeros, written only as bytes
        //         - this `OwnedRange` is the only owner of its bytes, and it is borrowed: nobody writes
        unsafe { std::slice::from_raw_parts(self.start(), self.length) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: - the range lies inside the mapping, which `region` keeps alive
        //         - the memory is initialised: mapped as zeros, written only as bytes
        //         - this `OwnedRange` is the only owner of its bytes, and it is borrowed exclusively
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.length) }
    }

    fn start(&self) -> *mut u8 {
        debug_assert!(self.offset + self.length <= self.region.length());
        // SAFETY: ranges are cut from whole regions, so `offset` is inside the mapping
        unsafe { self.region.start().add(self.offset) }
    }
}

#[cfg(target_os = "linux")]
use linux::Region;

#[cfg(target_os = "linux")]
mod linux {
    //! Mapping and unmapping.

    use super::HUGE_PAGE;
    use std::ptr::NonNull;

    /// Private memory from the kernel, at a multiple of 2 MiB; unmapped when dropped.
    pub struct Region {
        start: NonNull<u8>,
        length: usize,
    }

    // SAFETY: a region is an address and a length; the memory behind it is owned by ranges, and
    //         any thread may unmap it
    unsafe impl Send for Region {}
    // SAFETY: a shared region gives out its address and length, nothing else
    unsafe impl Sync for Region {}

    impl Region {
        /// `length` bytes, a multiple of 2 MiB; `None` if the kernel has no more.
        pub fn map(length: usize) -> Option<Region> {
            // One huge page more than needed: somewhere in there lies a multiple of 2 MiB.
            let roomy = length.checked_add(HUGE_PAGE)?;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: - a new mapping at an address the kernel chooses touches no other memory
            //         - anonymous: no file, so descriptor -1 and offset 0 are right
            let mapped =
                unsafe { libc::mmap(std::ptr::null_mut(), roomy, protection, flags, -1, 0) };
            if mapped == libc::MAP_FAILED {
                return None;
            }
            let mapped = mapped.cast::<u8>();
            let head = mapped.align_offset(HUGE_PAGE);
            // `wrapping_add` stays inside the mapping: head ≤ 2 MiB and head + length ≤ roomy.
            let start = mapped.wrapping_add(head);
            unmap(mapped, head);
            unmap(start.wrapping_add(length), roomy - head - length);
            let region = Region {
                start: NonNull::new(start)?,
                length,
            };
            region.ask_for_huge_pages();
            Some(region)
        }

        pub fn start(&self) -> *mut u8 {
            self.start.as_ptr()
        }

        pub fn address(&self) -> usize {
            self.start.addr().get()
        }

        pub fn length(&self) -> usize {
            self.length
        }

        fn ask_for_huge_pages(&self) {
            // SAFETY: - the range is our own mapping
            //         - the advice changes page sizes, never content
            let answer =
                unsafe { libc::madvise(self.start().cast(), self.length, libc::MADV_HUGEPAGE) };
            // A kernel without huge pages says EINVAL; the region then has small ones.
            let _ = answer;
        }
    }

    impl Drop for Region {
        fn drop(&mut self) {
            unmap(self.start(), self.length);
        }
    }

    /// Unmaps `length` bytes of a mapping of ours that nobody uses.
    fn unmap(start: *mut u8, length: usize) {
        if length == 0 {
            return;
        }
        // SAFETY: - both callers pass a part of their own mapping, page by page
        //         - nothing refers to it: head and tail were never given out, and a region is
        //           dropped after its last range
        let answer = unsafe { libc::munmap(start.cast(), length) };
        debug_assert_eq!(answer, 0, "munmap of our own mapping");
    }
}

#[cfg(not(target_os = "linux"))]
use elsewhere::Region;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    //! No regions: every block comes from the global allocator.

    /// There is no value of this type.
    pub enum Region {}

    impl Region {
        pub fn map(_length: usize) -> Option<Region> {
            None
        }

        pub fn start(&self) -> *mut u8 {
            match *self {}
        }

        pub fn address(&self) -> usize {
            match *self {}
        }

        pub fn length(&self) -> usize {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HugePages, Placing};
    use super::*;
    use crate::topology::{Core, NumaNode, Topology};

    fn fill(block: &mut Box<dyn Block>, seed: u8) {
        block
            .bytes_mut()
            .iter_mut()
            .enumerate()
            .for_each(|(at, byte)| *byte = at as u8 ^ seed);
    }

    fn is_filled(block: &dyn Block, seed: u8) -> bool {
        block
            .bytes()
            .iter()
            .enumerate()
            .all(|(at, &byte)| byte == at as u8 ^ seed)
    }

    fn address(block: &dyn Block) -> usize {
        block.bytes().as_ptr() as usize
    }

    #[test]
    fn blocks_have_their_length_alignment_and_zeros() {
        let memory = Arena::new(RegionSite::Anywhere);
        for bytes in [
            0,
            1,
            64,
            65,
            4095,
            65_535,
            65_536,
            65_537,
            3 << 20,
            200 << 20,
        ] {
            let block = memory.allocate(bytes);
            assert_eq!(block.bytes().len(), bytes);
            let starts_at_a_page = bytes >= LARGE && cfg!(target_os = "linux");
            let multiple = if starts_at_a_page { PAGE } else { 64 };
            assert_eq!(address(&*block) % multiple, 0, "{bytes}");
            let last = block.bytes().last().copied();
            assert_eq!(
                (
                    block.bytes().first().copied().unwrap_or(0),
                    last.unwrap_or(0)
                ),
                (0, 0)
            );
            drop(block);
            memory.release_unused();
            assert_eq!(memory.mapped_bytes(), 0, "{bytes}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_block_that_was_given_back_is_used_again() {
        let memory = Arena::new(RegionSite::Anywhere);
        let block = memory.allocate(1 << 20);
        let first = address(&*block);
        drop(block);
        let block = memory.allocate(1 << 20);
        assert_eq!(address(&*block), first);
        assert_eq!(memory.mapped_bytes(), HUGE_PAGE);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn neighbours_that_were_given_back_make_room_for_a_larger_block() {
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let memory = Arena::new(RegionSite::Anywhere);
            let third = (HUGE_PAGE / 3) & !(PAGE - 1);
            let mut blocks: Vec<_> = (0..3).map(|_| Some(memory.allocate(third))).collect();
            order.into_iter().for_each(|at| drop(blocks[at].take()));
            let whole = memory.allocate(HUGE_PAGE);
            assert_eq!(memory.mapped_bytes(), HUGE_PAGE, "{order:?}");
            drop(whole);
            memory.release_unused();
            assert_eq!(memory.mapped_bytes(), 0);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn small_blocks_that_are_kept_for_others_like_them_make_room_for_larger_ones() {
        let memory = Arena::new(RegionSite::Anywhere);
        let blocks = |bytes| -> Vec<_> {
            let n = HUGE_PAGE / bytes;
            (0..n).map(|_| memory.allocate(bytes)).collect()
        };
        drop(blocks(KEPT_LENGTH));
        let n_kept = || -> usize { held(&memory.lists).small.kept.iter().map(Vec::len).sum() };
        assert_eq!(n_kept(), KEPT);
        let larger = blocks(LARGE / 2);
        assert_eq!(memory.mapped_bytes(), HUGE_PAGE);
        drop(larger);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_large_block_starts_at_a_page_whatever_small_ones_lie_there() {
        let memory = Arena::new(RegionSite::Anywhere);
        let _small = [1, LARGE - 1].map(|bytes| memory.allocate(bytes));
        let large = [LARGE, LARGE + 1, LARGE].map(|bytes| memory.allocate(bytes));
        for block in &large {
            assert_eq!(address(&**block) % PAGE, 0, "{block:?}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn of_the_ranges_that_were_given_back_the_smallest_that_fits_is_taken() {
        let memory = Arena::new(RegionSite::Anywhere);
        let sizes = [32 << 10, 64, 1024, 64, 2048, 64];
        let mut blocks = sizes.map(|bytes| Some(memory.allocate(bytes)));
        let smallest = blocks[2].as_deref().map(address);
        for at in [0, 2, 4] {
            drop(blocks[at].take());
        }
        let again = memory.allocate(1000);
        assert_eq!(Some(address(&*again)), smallest);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_region_is_as_large_as_all_before_it_together() {
        let memory = Arena::new(RegionSite::Anywhere);
        let mut blocks = Vec::new();
        let mapped = [(); 5].map(|()| {
            blocks.push(memory.allocate(HUGE_PAGE));
            memory.mapped_bytes() / HUGE_PAGE
        });
        assert_eq!(mapped, [1, 2, 4, 4, 8]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn regions_that_are_unmapped_leave_nothing_in_the_address_space() {
        let pages_of_this_process = || {
            let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
            let all = sizes.split_whitespace().next().unwrap();
            all.parse::<usize>().unwrap()
        };
        let before = pages_of_this_process();
        for _ in 0..10_000 {
            let memory = Arena::new(RegionSite::Anywhere);
            drop(memory.allocate(HUGE_PAGE));
        }
        // Each took two huge pages, for a moment. Other tests map some, too, and so do allocators for threads.
        let grown = pages_of_this_process().saturating_sub(before);
        assert!(grown < 4000 * HUGE_PAGE / PAGE, "by {grown} pages");
    }

    #[test]
    fn memory_is_wished_for_by_the_numbers_of_the_operating_system_where_there_are_cores() {
        let core = |(pu, numa_node)| Core {
            numa_node,
            package: 0,
            pus: vec![pu],
        };
        let cores = [0, 2].into_iter().enumerate().map(core).collect();
        let nodes = [5, 0, 7].map(|os_index| NumaNode { os_index });
        let topology = Topology::new(cores, nodes.to_vec(), None);
        let wishes = |placing| -> Vec<String> {
            let wish = |arena: &Arena| {
                let mut told = String::new();
                arena.site.with_wish(|wish| {
                    told = format!("{wish:?}");
                    Some(())
                });
                told
            };
            let memory = HugePages::on(&topology, placing);
            memory.arenas.iter().map(wish).collect()
        };
        let near = ["Prefer(5)", "Prefer(0)", "Prefer(7)", ""];
        assert_eq!(wishes(Placing::Near), near);
        assert_eq!(wishes(Placing::Interleaved), ["Interleave([5, 7])"]);
    }

    #[test]
    fn blocks_outlive_their_arena() {
        let memory = Arena::new(RegionSite::Anywhere);
        let mut blocks: Vec<_> = [100, 70_000, 5 << 20]
            .map(|bytes| memory.allocate(bytes))
            .into();
        drop(memory);
        for (seed, block) in blocks.iter_mut().enumerate() {
            fill(block, seed as u8);
        }
        for (seed, block) in blocks.iter().enumerate() {
            assert!(is_filled(&**block, seed as u8));
        }
    }

    #[test]
    fn blocks_never_overlap_whatever_is_taken_and_given_back_by_several_threads() {
        let memory = Arena::new(RegionSite::Anywhere);
        std::thread::scope(|scope| {
            for thread in 0..3_u64 {
                let memory = &memory;
                scope.spawn(move || {
                    let mut held: Vec<(Box<dyn Block>, u8)> = Vec::new();
                    let mut random = thread * 7919 + 1;
                    for round in 0..2000_u64 {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        let draw = (random >> 33) as usize;
                        if held.len() > 20 || (draw & 1 == 1 && !held.is_empty()) {
                            let (block, seed) = held.swap_remove(draw % held.len());
                            assert!(is_filled(&*block, seed));
                        } else {
                            let mut block = memory.allocate(1 + draw % (3 * LARGE));
                            let seed = (thread * 85 + round) as u8;
                            fill(&mut block, seed);
                            held.push((block, seed));
                        }
                    }
                    assert!(held.iter().all(|(block, seed)| is_filled(&**block, *seed)));
                });
            }
        });
        memory.release_unused();
        assert_eq!(
            memory.mapped_bytes(),
            0,
            "every range found its neighbours again"
        );
    }

    /// Ten rounds of a matrix whose tiles have another order each time.
    #[test]
    #[cfg(target_os = "linux")]
    fn changing_sizes_do_not_pile_up() {
        let memory = Arena::new(RegionSite::Anywhere);
        for order in 90..100_usize {
            drop(
                (0..64)
                    .map(|_| memory.allocate(order * order * 8))
                    .collect::<Vec<_>>(),
            );
        }
        let largest = 64 * (99_usize * 99 * 8).next_multiple_of(PAGE);
        assert!(
            memory.mapped_bytes() <= 3 * largest,
            "{} bytes",
            memory.mapped_bytes()
        );
    }

    /// Each had a region of its own, and all of them stayed.
    #[test]
    #[cfg(target_os = "linux")]
    fn large_blocks_that_grow_do_not_pile_up() {
        let memory = Arena::new(RegionSite::Anywhere);
        for step in 1..=20 {
            let bytes = LARGEST_STEP + step * HUGE_PAGE;
            let block = memory.allocate(bytes);
            assert_eq!(memory.mapped_bytes(), bytes);
            drop(block);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn regions_are_marked_for_huge_pages() {
        let memory = Arena::new(RegionSite::Anywhere);
        let block = memory.allocate(HUGE_PAGE);
        let line = format!("{:x}-", address(&*block));
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        // The region may have been joined to a neighbour: then another line covers it.
        let flags = maps
            .split_once(&line)
            .and_then(|(_, rest)| rest.split_once("VmFlags:"));
        if let Some((_, flags)) = flags
            && std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists()
        {
            let flags = flags.lines().next().unwrap_or_default();
            assert!(flags.split_whitespace().any(|flag| flag == "hg"), "{flags}");
        }
    }
}
