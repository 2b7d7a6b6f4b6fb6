//! Room for sockets: how many the operating system lets a process have, and how many may knock.

use super::{Mesh, MeshError};
use std::net::TcpListener;

/// Sockets and files beside those to other ranks: strangers at the door, and the program's own.
#[cfg(unix)]
const BESIDE: u64 = 128;

/// Raises the number of files that this process may open as far as it may, if there are too few.
///
/// # Errors
/// On rank 0, which is connected to all, if that does not suffice (`wrong_settings`): how many are
/// needed, and what the limit is.
#[cfg(unix)]
pub fn for_sockets(mesh: &Mesh) -> Result<(), MeshError> {
    use dataflow_core::error::Error;
    use dataflow_core::rank::Rank;
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let needed = (mesh.n_ranks as u64).saturating_add(BESIDE);
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return Ok(()); // a process that opens too many is told
    };
    let raised = soft < needed && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    let limit = if raised { hard } else { soft };
    if mesh.rank == Rank(0) && limit < needed {
        return Err(MeshError::Other(Error::wrong_settings(format!(
            "{} ranks over sockets need {needed} open files on rank 0, the system allows {limit} \
             (`ulimit -n`, hard limit {hard})",
            mesh.n_ranks
        ))));
    }
    Ok(())
}

/// Elsewhere the system tells when there are too many.
#[cfg(not(unix))]
pub fn for_sockets(_: &Mesh) -> Result<(), MeshError> {
    Ok(())
}

/// As many as the system allows may knock at once.
pub fn widen(listener: &TcpListener) {
    #[cfg(unix)]
    {
        use nix::sys::socket::{Backlog, listen};
        listen(listener, Backlog::MAXCONN).ok(); // fewer, then: others try again
    }
    #[cfg(not(unix))]
    let _ = listener; // the system's own number
}
