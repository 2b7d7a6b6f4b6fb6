//! Ranks as threads of one process, with sockets between them.

use dataflow_core::rank::Rank;
use dataflow_mpi::transport::tcp::{Mesh, Tcp, Token};
use std::net::TcpListener;
use std::thread;

/// The ends of so many ranks, by rank.
pub fn connect(n_ranks: usize) -> Vec<Tcp> {
    let token = Token::random().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let root = listener.local_addr().unwrap();
    thread::scope(|ranks| {
        let join = |rank: u32| {
            let own = TcpListener::bind("127.0.0.1:0").unwrap();
            let mesh = Mesh::new(Rank(rank), n_ranks, token);
            ranks.spawn(move || mesh.join(&[root], own).unwrap())
        };
        let others: Vec<_> = (1..n_ranks as u32).map(join).collect();
        let mesh = Mesh::new(Rank(0), n_ranks, token);
        let mut all = vec![mesh.lead(listener, &mut || None).unwrap()];
        all.extend(others.into_iter().map(|other| other.join().unwrap()));
        all
    })
}
