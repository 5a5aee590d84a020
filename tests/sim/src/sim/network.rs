//! A /24 in 127/8 for each simulator, so that those of parallel tests never meet.

use std::hash::BuildHasher;
use std::hash::RandomState;
use std::io;
use std::net::Ipv4Addr;
use std::net::TcpListener;

/// The port that is bound at the gateway's address: it says that the network is taken.
const CLAIM: u16 = 8006;

/// How many networks are tried.
const TRIES: u64 = 4096;

/// A number that differs from start to start.
pub(super) fn seed() -> u64 {
    RandomState::new().hash_one(0)
}

/// Takes a network that nobody has; the listener holds it.
pub(super) fn claim() -> io::Result<(Ipv4Addr, TcpListener)> {
    let start = seed();
    let mut last = io::Error::new(io::ErrorKind::AddrInUse, "no network is free");
    for step in 0..TRIES {
        let bytes = start.wrapping_add(step).to_be_bytes();
        // 127.0.0.0/24 is everybody's.
        let gateway = Ipv4Addr::new(127, bytes[6].max(1), bytes[7], 1);
        match TcpListener::bind((gateway, CLAIM)) {
            Ok(listener) => return Ok((gateway, listener)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Another address of the gateway's network.
pub(super) fn host(gateway: Ipv4Addr, last: u8) -> Ipv4Addr {
    let [first, second, third, _] = gateway.octets();
    Ipv4Addr::new(first, second, third, last)
}
