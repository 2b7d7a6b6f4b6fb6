//! The calls of libhwloc that the crate `hwloc2` lacks, declared by hand.
//!
//! Read are only those fields of `struct hwloc_obj` and `struct hwloc_distances_s` that hwloc's
//! manual documents for 2.x, whose layout all releases 2.x share; [`Topology`], [`Bitmap`] and
//! [`NewDistances`] stay opaque. The crate `hwloc2` brings the library to the linker.
//!
//! # Source
//! hwloc 2.9, `hwloc.h`, `hwloc/bitmap.h`, `hwloc/cpukinds.h`, `hwloc/distances.h`, `hwloc/export.h`.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
// For the linker only: the crate's own topologies and ours never meet.
use hwloc2 as _;

/// A topology: only its address is ours.
#[repr(C)]
pub struct Topology([u8; 0]);

/// A set of numbers.
#[repr(C)]
pub struct Bitmap([u8; 0]);

/// Distances on their way into a topology.
pub type NewDistances = *mut c_void;

/// `struct hwloc_obj` as far as the field `cpuset`.
#[repr(C)]
pub struct Object {
    pub kind: c_int,
    pub subtype: *const c_char,
    pub os_index: c_uint,
    pub name: *const c_char,
    pub total_memory: u64,
    pub attributes: *const c_void,
    pub depth: c_int,
    pub logical_index: c_uint,
    pub cousins: [*const Object; 2],
    pub parent: *const Object,
    pub sibling_rank: c_uint,
    pub siblings: [*const Object; 2],
    pub arity: c_uint,
    pub children: *const *const Object,
    pub first_and_last_child: [*const Object; 2],
    pub symmetric_subtree: c_int,
    pub memory_arity: c_uint,
    pub first_memory_child: *const Object,
    pub io_arity: c_uint,
    pub first_io_child: *const Object,
    pub misc_arity: c_uint,
    pub first_misc_child: *const Object,
    pub cpuset: *const Bitmap,
}

/// `struct hwloc_distances_s`.
#[repr(C)]
pub struct Distances {
    pub n_objects: c_uint,
    pub objects: *const *const Object,
    pub kind: c_ulong,
    pub values: *const u64,
}

/// `hwloc_obj_type_t`.
pub const PACKAGE: c_int = 1;
pub const CORE: c_int = 2;
pub const PU: c_int = 3;
pub const NUMA_NODE: c_int = 13;
/// Data or unified caches of levels 1 to 5.
pub const CACHES: [c_int; 5] = [4, 5, 6, 7, 8];

/// A bit of `enum hwloc_topology_flags_e`.
pub const INCLUDE_DISALLOWED: c_ulong = 1;

/// Bits of `enum hwloc_distances_kind_e`.
pub const FROM_USER: c_ulong = 1 << 1;
pub const MEANS_LATENCY: c_ulong = 1 << 2;

unsafe extern "C" {
    pub fn hwloc_get_api_version() -> c_uint;

    pub fn hwloc_topology_init(topology: *mut *mut Topology) -> c_int;
    pub fn hwloc_topology_set_xmlbuffer(
        topology: *mut Topology,
        text: *const c_char,
        length: c_int,
    ) -> c_int;
    pub fn hwloc_topology_set_synthetic(
        topology: *mut Topology,
        description: *const c_char,
    ) -> c_int;
    pub fn hwloc_topology_set_flags(topology: *mut Topology, flags: c_ulong) -> c_int;
    pub fn hwloc_topology_load(topology: *mut Topology) -> c_int;
    pub fn hwloc_topology_destroy(topology: *mut Topology);
    pub fn hwloc_topology_export_xml(
        topology: *mut Topology,
        path: *const c_char,
        flags: c_ulong,
    ) -> c_int;

    pub fn hwloc_get_type_depth(topology: *mut Topology, kind: c_int) -> c_int;
    pub fn hwloc_get_nbobjs_by_depth(topology: *mut Topology, depth: c_int) -> c_uint;
    pub fn hwloc_get_obj_by_depth(
        topology: *mut Topology,
        depth: c_int,
        index: c_uint,
    ) -> *const Object;

    pub fn hwloc_cpukinds_get_by_cpuset(
        topology: *mut Topology,
        cpuset: *const Bitmap,
        flags: c_ulong,
    ) -> c_int;
    pub fn hwloc_cpukinds_get_info(
        topology: *mut Topology,
        kind: c_uint,
        cpuset: *mut Bitmap,
        efficiency: *mut c_int,
        n_infos: *mut c_uint,
        infos: *mut *mut c_void,
        flags: c_ulong,
    ) -> c_int;

    pub fn hwloc_bitmap_next(bitmap: *const Bitmap, previous: c_int) -> c_int;

    pub fn hwloc_distances_get_by_type(
        topology: *mut Topology,
        kind: c_int,
        count: *mut c_uint,
        distances: *mut *mut Distances,
        means: c_ulong,
        flags: c_ulong,
    ) -> c_int;
    pub fn hwloc_distances_release(topology: *mut Topology, distances: *mut Distances);
    pub fn hwloc_distances_release_remove(
        topology: *mut Topology,
        distances: *mut Distances,
    ) -> c_int;
    pub fn hwloc_distances_add_create(
        topology: *mut Topology,
        name: *const c_char,
        kind: c_ulong,
        flags: c_ulong,
    ) -> NewDistances;
    pub fn hwloc_distances_add_values(
        topology: *mut Topology,
        distances: NewDistances,
        n_objects: c_uint,
        objects: *const *const Object,
        values: *const u64,
        flags: c_ulong,
    ) -> c_int;
    pub fn hwloc_distances_add_commit(
        topology: *mut Topology,
        distances: NewDistances,
        flags: c_ulong,
    ) -> c_int;
}
