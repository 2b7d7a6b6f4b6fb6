//! Terms: what ranks must have in common, whatever they run, to understand each other and compute the same bits.

use crate::agreement::NamedValues;
use crate::wire::VERSION;

/// What one of so many ranks says of itself.
pub fn of_this_rank(n_ranks: usize) -> NamedValues {
    let byte_order = if cfg!(target_endian = "little") {
        "little"
    } else {
        "big"
    };
    [
        ("protocol", VERSION.to_string()),
        ("version", env!("CARGO_PKG_VERSION").to_string()),
        ("processor", std::env::consts::ARCH.to_string()),
        ("vector features", vector_features()),
        ("byte order", byte_order.to_string()),
        ("ranks", n_ranks.to_string()),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into()
}

/// What kernels choose their instructions by: with others they may round differently, and the same
/// run would have other bits on another rank.
#[cfg(target_arch = "x86_64")]
fn vector_features() -> String {
    let features = [
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512cd", is_x86_feature_detected!("avx512cd")),
        ("avx512dq", is_x86_feature_detected!("avx512dq")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
    ];
    let found = features.iter().filter(|(_, found)| *found);
    found.map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
}

/// The architecture has them all, or kernels use none beyond it.
#[cfg(not(target_arch = "x86_64"))]
fn vector_features() -> String {
    String::new()
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn ranks_tell_the_vector_features_that_the_kernel_tells() {
        let told = of_this_rank(2);
        let told = told.iter().find(|(name, _)| name == "vector features");
        let told = &told.unwrap().1;
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
        let flags: Vec<&str> = flags.unwrap().split_whitespace().collect();
        for feature in ["avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl"] {
            let is_told = told.split(' ').any(|name| name == feature);
            assert_eq!(is_told, flags.contains(&feature), "{feature} in {told:?}");
        }
    }
}
