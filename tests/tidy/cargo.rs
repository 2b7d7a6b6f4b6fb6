//! Cargo: which crate depends on which.

use crate::ARROWS;
use std::process::Command;

pub fn metadata() -> Option<serde_json::Value> {
    let mut cargo = Command::new(env!("CARGO"));
    let cargo = cargo.args([
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]);
    let out = cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()?;
    serde_json::from_slice(&out.stdout).ok()
}

/// Arrows between crates of this workspace that [`ARROWS`] does not allow, of any kind (normal, dev, build).
pub fn wrong_dependencies(metadata: &serde_json::Value) -> Vec<String> {
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let mut offenders = Vec::new();
    for package in list(&metadata["packages"]) {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(own, _)| *own == name) else {
            offenders.push(format!("Cargo.toml:1: crate {name} has no line in ARROWS"));
            continue;
        };
        for dependency in list(&package["dependencies"]) {
            let to = dependency["name"].as_str().unwrap_or_default();
            if dependency["path"].is_string() && !allowed.contains(&to) {
                offenders.push(format!("{name}/Cargo.toml:1: depends on {to}"));
            }
        }
    }
    offenders
}

mod tests {
    use super::*;

    #[test]
    fn a_dependency_against_the_order_is_seen() {
        let path = |name: &str| serde_json::json!({ "name": name, "path": "/p" });
        let metadata = serde_json::json!({ "packages": [
            { "name": "dataflow-core", "dependencies": [{ "name": "loom" }, path("dataflow-numa")] },
            { "name": "dataflow-linalg", "dependencies": [path("dataflow-core"), path("dataflow-mpi")] },
            { "name": "dataflow-gpu", "dependencies": [] },
        ]});
        let expected = [
            "dataflow-core/Cargo.toml:1: depends on dataflow-numa",
            "dataflow-linalg/Cargo.toml:1: depends on dataflow-mpi",
            "Cargo.toml:1: crate dataflow-gpu has no line in ARROWS",
        ];
        assert_eq!(wrong_dependencies(&metadata), expected);
    }
}
