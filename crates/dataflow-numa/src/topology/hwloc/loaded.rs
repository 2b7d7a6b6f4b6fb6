//! Loaded: one topology of libhwloc, owned, behind safe methods.
//!
//! # Law
//! What a method returns borrows the topology; it changes only through `&mut self`. Pointers
//! into it never leave this file.

use super::calls;
use crate::pin::MOST_PUS;
use crate::topology::TopologyError;
use std::ffi::{CStr, CString, c_int};
use std::io;
use std::path::Path;
use std::ptr::{self, NonNull};

/// A topology of libhwloc.
pub struct Loaded(NonNull<calls::Topology>);

/// Where one comes from.
pub enum TopologySource<'a> {
    Live,
    Xml(&'a [u8]),
    Synthetic(&'a CStr),
}

/// An object of a topology: a core, a NUMA node, a package …
#[derive(Clone, Copy)]
pub struct Object<'t>(&'t calls::Object);

impl Loaded {
    /// Loads a topology. Of this machine, what this process may not use for good (its cgroup) is left
    /// out; of a file nothing, whatever was forbidden where it was written.
    ///
    /// # Errors
    /// If the library is not hwloc 2, or refuses; the reason is the system's.
    pub fn load(source: &TopologySource) -> Result<Loaded, TopologyError> {
        // SAFETY: asks for a number that is compiled into the library
        let version = unsafe { calls::hwloc_get_api_version() };
        if version >> 16 != 2 {
            return Err(TopologyError::WrongHwloc { version });
        }
        let load = || {
            let empty = Loaded::empty()?;
            empty.read_from(source)?;
            // SAFETY: the topology was initialised and not yet loaded
            accepted(unsafe { calls::hwloc_topology_load(empty.pointer()) })?;
            Ok(empty)
        };
        load().map_err(|error: io::Error| refused("load a topology", error))
    }

    fn empty() -> io::Result<Loaded> {
        let mut topology = ptr::null_mut();
        // SAFETY: writes one pointer, which is ours
        accepted(unsafe { calls::hwloc_topology_init(&mut topology) })?;
        NonNull::new(topology)
            .map(Loaded)
            .ok_or_else(io::Error::last_os_error)
    }

    fn read_from(&self, source: &TopologySource) -> io::Result<()> {
        match source {
            TopologySource::Live => Ok(()),
            TopologySource::Xml(text) => {
                // hwloc wants the zero at the end, and counts it.
                let text = CString::new(*text)?;
                let length = c_int::try_from(text.as_bytes_with_nul().len())
                    .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
                let flags = calls::INCLUDE_DISALLOWED;
                // SAFETY: the topology was initialised and not yet loaded
                accepted(unsafe { calls::hwloc_topology_set_flags(self.pointer(), flags) })?;
                // SAFETY: - the topology was initialised and not yet loaded
                //         - `length` bytes are there, the last of them zero; hwloc copies them
                accepted(unsafe {
                    calls::hwloc_topology_set_xmlbuffer(self.pointer(), text.as_ptr(), length)
                })
            }
            // SAFETY: - the topology was initialised and not yet loaded
            //         - the text ends with a zero and is only read during the call
            TopologySource::Synthetic(text) => accepted(unsafe {
                calls::hwloc_topology_set_synthetic(self.pointer(), text.as_ptr())
            }),
        }
    }

    /// The objects of one kind in their logical order; none if there is no such level.
    pub fn objects(&self, kind: c_int) -> Vec<Object<'_>> {
        // SAFETY: the topology was loaded
        let depth = unsafe { calls::hwloc_get_type_depth(self.pointer(), kind) };
        // SAFETY: the topology was loaded; a depth without objects has 0 of them
        let n = unsafe { calls::hwloc_get_nbobjs_by_depth(self.pointer(), depth) };
        let object = |index| {
            // SAFETY: the topology was loaded; an index beyond the level gives null
            let object = unsafe { calls::hwloc_get_obj_by_depth(self.pointer(), depth, index) };
            // SAFETY: null, or an object that lives and stays as it is while `self` is borrowed
            unsafe { object.as_ref() }.map(Object)
        };
        (0..n).filter_map(object).collect()
    }

    /// How fast the cores of an object are beside others: more is faster. `None` if they are of
    /// several kinds, or hwloc does not know.
    pub fn speed(&self, object: Object) -> Option<u64> {
        // SAFETY: the topology was loaded, and the set of PUs is that of an object of it
        let kind =
            unsafe { calls::hwloc_cpukinds_get_by_cpuset(self.pointer(), object.0.cpuset, 0) };
        let kind = u32::try_from(kind).ok()?;
        let (nobody, nothing, none) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let mut efficiency = -1;
        // SAFETY: - the topology was loaded and has this kind
        //         - one number is written, which is ours; null asks for nothing
        let answer = unsafe {
            calls::hwloc_cpukinds_get_info(
                self.pointer(),
                kind,
                nobody,
                &mut efficiency,
                nothing,
                none,
                0,
            )
        };
        accepted(answer).ok()?;
        u64::try_from(efficiency).ok()
    }

    /// The first matrix that says how far every NUMA node is from every other: row by row, in
    /// the order of [`objects`](Self::objects). Bandwidths are no distances.
    pub fn latencies(&self) -> Option<Vec<u64>> {
        let nodes = self.objects(calls::NUMA_NODE);
        let matrices = self.latency_matrices();
        let found = matrices.iter().find_map(|matrix| {
            // SAFETY: hwloc filled the structure in, and it is released only below
            let matrix = unsafe { matrix.as_ref() };
            let n = matrix.n_objects as usize;
            // SAFETY: the structure holds `n_objects` pointers to objects
            let objects = unsafe { std::slice::from_raw_parts(matrix.objects, n) };
            // SAFETY: the structure holds `n_objects` squared values
            let values = unsafe { std::slice::from_raw_parts(matrix.values, n * n) };
            let row = |node: &Object| objects.iter().position(|&other| ptr::eq(other, node.0));
            let rows: Vec<usize> = nodes.iter().map(row).collect::<Option<_>>()?;
            let row = |&from: &usize| rows.iter().map(move |to| values[from * n + to]);
            Some(rows.iter().flat_map(row).collect())
        });
        for matrix in matrices {
            // SAFETY: it came from this topology and is not used afterwards
            unsafe { calls::hwloc_distances_release(self.pointer(), matrix.as_ptr()) };
        }
        found
    }

    /// Puts a latency matrix over all NUMA nodes in the place of those that are there; `values`
    /// as in [`latencies`](Self::latencies).
    ///
    /// A single node is as far from itself as ever: nothing changes.
    ///
    /// # Errors
    /// If hwloc refuses.
    pub fn replace_latencies(&mut self, values: &[u64]) -> Result<(), TopologyError> {
        let nodes: Vec<*const calls::Object> = {
            let nodes = self.objects(calls::NUMA_NODE);
            nodes.iter().map(|node| ptr::from_ref(node.0)).collect()
        };
        assert_eq!(values.len(), nodes.len() * nodes.len(), "a square matrix");
        if nodes.len() < 2 {
            return Ok(());
        }
        let replace = || {
            for old in self.latency_matrices() {
                // SAFETY: it came from this topology and is not used afterwards
                accepted(unsafe {
                    calls::hwloc_distances_release_remove(self.pointer(), old.as_ptr())
                })?;
            }
            let kind = calls::FROM_USER | calls::MEANS_LATENCY;
            let name = c"NUMALatency".as_ptr();
            // SAFETY: the topology was loaded; the name is copied
            let new = unsafe { calls::hwloc_distances_add_create(self.pointer(), name, kind, 0) };
            if new.is_null() {
                return Err(io::Error::last_os_error());
            }
            let n = nodes.len() as u32;
            // SAFETY: - `new` was just made for this topology
            //         - `n` objects of this topology and `n` squared values are there to be copied
            accepted(unsafe {
                calls::hwloc_distances_add_values(
                    self.pointer(),
                    new,
                    n,
                    nodes.as_ptr(),
                    values.as_ptr(),
                    0,
                )
            })?;
            // SAFETY: `new` has its values; a refusal above has already freed it
            accepted(unsafe { calls::hwloc_distances_add_commit(self.pointer(), new, 0) })
        };
        replace().map_err(|error| refused("take a matrix of distances", error))
    }

    /// Writes an XML file of format 2.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn export(&self, path: &Path) -> Result<(), TopologyError> {
        let export = || {
            let path = CString::new(path.as_os_str().as_encoded_bytes())?;
            // SAFETY: the topology was loaded; the path ends with a zero
            accepted(unsafe { calls::hwloc_topology_export_xml(self.pointer(), path.as_ptr(), 0) })
        };
        export().map_err(|error| refused(&format!("write {}", path.display()), error))
    }

    /// All matrices of latencies over NUMA nodes. Each is to be released.
    fn latency_matrices(&self) -> Vec<NonNull<calls::Distances>> {
        let ask = |matrices: &mut [*mut calls::Distances]| {
            let mut n = matrices.len() as u32;
            // SAFETY: - the topology was loaded
            //         - at most `n` pointers are written, which is how many there is room for
            let answer = unsafe {
                calls::hwloc_distances_get_by_type(
                    self.pointer(),
                    calls::NUMA_NODE,
                    &mut n,
                    matrices.as_mut_ptr(),
                    calls::MEANS_LATENCY,
                    0,
                )
            };
            if answer == 0 { n as usize } else { 0 }
        };
        let mut matrices = vec![ptr::null_mut(); ask(&mut [])];
        let n = ask(&mut matrices).min(matrices.len());
        matrices[..n]
            .iter()
            .copied()
            .filter_map(NonNull::new)
            .collect()
    }

    fn pointer(&self) -> *mut calls::Topology {
        self.0.as_ptr()
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: initialised by `empty`, owned by `self` alone, and nothing borrows it any more
        unsafe { calls::hwloc_topology_destroy(self.pointer()) }
    }
}

impl<'t> Object<'t> {
    /// The operating system's number, if it has one.
    pub fn os_index(self) -> Option<usize> {
        (self.0.os_index != u32::MAX).then_some(self.0.os_index as usize)
    }

    /// What sort of its kind it is: `MCDRAM`, `HBM`; mostly nothing.
    pub fn subtype(self) -> &'t [u8] {
        if self.0.subtype.is_null() {
            return &[];
        }
        // SAFETY: a string of the topology, which is borrowed for `'t`
        unsafe { CStr::from_ptr(self.0.subtype) }.to_bytes()
    }

    /// The PUs in it, ascending, by the operating system's numbers.
    pub fn pus(self) -> Vec<usize> {
        let next = |&last: &c_int| {
            // SAFETY: objects of the main tree and NUMA nodes have a set of PUs
            let next = unsafe { calls::hwloc_bitmap_next(self.0.cpuset, last) };
            (next >= 0).then_some(next)
        };
        // A file may name a set without end.
        let pus = std::iter::successors(Some(-1), next).skip(1).take(MOST_PUS);
        pus.map(|pu| pu as usize).collect()
    }

    /// The bytes that a cache holds.
    ///
    /// # Panics
    /// If it is none.
    pub fn cache_bytes(self) -> u64 {
        assert!(
            calls::CACHES.contains(&self.0.kind),
            "only caches have a size"
        );
        // SAFETY: the attributes of a cache begin with its size
        unsafe { *self.0.attributes.cast::<u64>() }
    }

    /// Parent, grandparent, up to the machine.
    pub fn ancestors(self) -> impl Iterator<Item = Object<'t>> {
        // SAFETY: null at the machine, otherwise an object of the same topology
        let parent = |object: &Object<'t>| unsafe { object.0.parent.as_ref() }.map(Object);
        std::iter::successors(parent(&self), parent)
    }

    pub fn is_package(self) -> bool {
        self.0.kind == calls::PACKAGE
    }
}

/// The same object, not merely an equal one.
impl PartialEq for Object<'_> {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.0, other.0)
    }
}

/// hwloc answers 0, or -1 with the reason where the system leaves its own.
fn accepted(answer: c_int) -> io::Result<()> {
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn refused(what: &str, error: io::Error) -> TopologyError {
    TopologyError::Refused {
        what: what.to_owned(),
        reason: error.into(),
    }
}
