//! The transports whose ranks can be threads of one process do what every transport must.

use crate::conform::conform;
use dataflow_core::rank::Rank;
use dataflow_mpi::Machine;
use dataflow_mpi::transport::tcp::{Mesh, Token};
use dataflow_mpi::transport::{MessageLimits, Transport, local};
use std::net::TcpListener;
use std::thread;

#[test]
fn threads_of_one_process() {
    let tight = MessageLimits {
        message_bytes: 64,
        largest_tag: 2,
        in_order: true,
    };
    for transports in [
        local::connect(2),
        local::connect(4),
        local::connect_with(3, tight),
    ] {
        thread::scope(|ranks| {
            for transport in transports {
                ranks.spawn(|| conform(Box::new(transport), &*Machine::new(), usize::MAX));
            }
        });
    }
}

#[test]
fn sockets() {
    for n_ranks in [2, 3, 5] {
        let token = Token::random().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let root = listener.local_addr().unwrap();
        let run = |transport| {
            conform(
                Box::new(transport) as Box<dyn Transport>,
                &*Machine::new(),
                usize::MAX,
            )
        };
        thread::scope(|ranks| {
            for rank in 1..n_ranks {
                let mesh = Mesh::new(Rank(rank), n_ranks as usize, token);
                let own = TcpListener::bind("127.0.0.1:0").unwrap();
                ranks.spawn(move || run(mesh.join(&[root], own).unwrap()));
            }
            let mesh = Mesh::new(Rank(0), n_ranks as usize, token);
            run(mesh.lead(listener, &mut || None).unwrap());
        });
    }
}
