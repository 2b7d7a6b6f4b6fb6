//! Messengers of ranks that are threads of one process: what each transport must do, and what there is
//! between a messenger and its transport.

#[path = "../conform/mod.rs"]
mod conform;
#[path = "../engine/mod.rs"]
mod engine;
#[path = "../sockets/mod.rs"]
mod sockets;

mod commands;
mod conformance;
mod forwarding;
mod local;
mod packets;
mod pressure;
