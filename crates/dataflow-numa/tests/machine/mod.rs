//! Made-up machines of several NUMA nodes, and workers that sit on them.

use dataflow_numa::topology::system;
use dataflow_numa::{Bind, Topology, Workers};
use std::{env, fs, process};

/// NUMA nodes in a row with so many cores each; a step farther is 10 more.
pub fn in_a_row(name: &str, cores: &[usize]) -> Topology {
    let root = env::temp_dir().join(format!("dataflow-policies-{name}-{}", process::id()));
    let (mut next, n_nodes) = (0, cores.len());
    for (node, cores) in cores.iter().enumerate() {
        let folder = root.join(format!("node/node{node}"));
        fs::create_dir_all(&folder).unwrap();
        let pus: Vec<String> = (next..next + cores).map(|pu| pu.to_string()).collect();
        next += cores;
        fs::write(folder.join("cpulist"), pus.join(",")).unwrap();
        let to = |to: usize| (10 + 10 * to.abs_diff(node)).to_string();
        let row: Vec<String> = (0..n_nodes).map(to).collect();
        fs::write(folder.join("distance"), row.join(" ")).unwrap();
    }
    let topology = system::read(&root, &(0..next).collect::<Vec<_>>());
    fs::remove_dir_all(&root).unwrap();
    assert_eq!(
        (topology.n_cores(), topology.n_numa_nodes()),
        (next, cores.len())
    );
    topology
}

/// Workers that sit where the machine says but are not bound to cores that are not there.
pub fn workers(topology: &Topology, policy: &str) -> Workers {
    Workers::builder()
        .topology(topology.clone())
        .bind(Bind::None)
        .policy(policy.parse().unwrap())
        .build()
        .unwrap()
}
