//! Which VMID a job gets: the lowest number of the range that no guest has and whose address is silent.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use pve_api::Vmid;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::problem::Problem;
use super::pve_directory::Members;
use super::pve_directory::PveDirectory;
use super::settings::Settings;
use crate::lease::Lease;
use crate::lease::Leases;

/// How many addresses are asked at a time.
const AT_A_TIME: usize = 8;
/// How long an address has to be silent to be free.
const SILENCE: Duration = Duration::from_secs(1);
/// How long the answer to a probe is good for.
const FRESH: Duration = Duration::from_secs(30);

/// Gives out VMIDs; the jobs of this process share what one of them has found.
#[derive(Debug, Default)]
pub(crate) struct Allocator {
    leases: Leases,
    /// Held through a sweep: those who come meanwhile wait for its result instead of asking again.
    seen: tokio::sync::Mutex<BTreeMap<u32, Seen>>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    at: Instant,
    free: bool,
}

impl Allocator {
    /// Takes a VMID that was asked for; it is not looked at, only kept from the other jobs.
    pub(crate) fn take(&self, vmid: Vmid) -> Option<Lease> {
        self.leases.take(vmid)
    }

    /// Takes the lowest free VMID that is not in `beside`.
    pub(crate) async fn lowest(
        &self,
        settings: &Settings,
        directory: &PveDirectory,
        beside: &BTreeSet<u32>,
    ) -> Result<Lease, Problem> {
        let mut seen = self.seen.lock().await;
        let began = Instant::now();
        loop {
            // What this call has asked itself stays good until it ends, however long the range is.
            seen.retain(|_, seen| seen.at >= began || seen.at.elapsed() < FRESH);
            let members = directory.members().map_err(Problem::file("read the cluster's nodes"))?;
            let guests = directory.guests().map_err(Problem::file("list the cluster's guests"))?;
            let mut taken: BTreeSet<u32> = self.leases.taken().into_iter().map(Vmid::get).collect();
            taken.extend(guests.iter().chain(beside));
            let candidates = candidates(settings, &members, &taken);
            let silent = |number: &u32| seen.get(number).is_none_or(|seen| seen.free);
            let open: Vec<u32> = candidates.iter().copied().filter(silent).collect();
            let Some(lowest) = open.first() else {
                return Err(Problem::Refused(full(settings, candidates.len(), guests.len())));
            };
            if seen.contains_key(lowest) {
                let vmid =
                    Vmid::try_from(*lowest).map_err(|error| Problem::Refused(error.to_string()))?;
                if let Some(lease) = self.leases.take(vmid) {
                    return Ok(lease);
                }
                continue;
            }
            let asked =
                open.into_iter().filter(|number| !seen.contains_key(number)).take(AT_A_TIME);
            let asked: Vec<(u32, Ipv4Addr)> = asked
                .filter_map(|number| Some((number, settings.gateway.guest(number)?)))
                .collect();
            let free = sweep(asked.iter().map(|(_, address)| *address), settings.ssh_port).await;
            let at = Instant::now();
            seen.extend(
                asked.iter().zip(free).map(|((number, _), free)| (*number, Seen { at, free })),
            );
        }
    }

    /// Whether the address of a VMID is still silent; asked once more after a long download.
    pub(crate) async fn is_still_free(&self, settings: &Settings, vmid: Vmid) -> bool {
        let Some(address) = settings.gateway.guest(vmid.get()) else { return false };
        let free = sweep([address].into_iter(), settings.ssh_port).await.contains(&true);
        self.seen.lock().await.insert(vmid.get(), Seen { at: Instant::now(), free });
        free
    }
}

/// The numbers of the range that are neither taken nor the address of the gateway or of a node.
fn candidates(settings: &Settings, members: &Members, taken: &BTreeSet<u32>) -> Vec<u32> {
    let gateway = settings.gateway;
    let mut reserved: BTreeSet<u32> =
        members.addresses().filter_map(|address| gateway.host(address)).collect();
    reserved.extend(gateway.host(gateway.address));
    reserved.extend(settings.nodes.values().filter_map(|node| {
        let host = node.split(':').next()?;
        gateway.host(host.parse().ok()?)
    }));
    let last = settings.last_vmid.min(gateway.last_host());
    (settings.first_vmid.max(Vmid::MIN.get())..=last)
        .filter(|number| !taken.contains(number) && !reserved.contains(number))
        .collect()
}

fn full(settings: &Settings, candidates: usize, guests: usize) -> String {
    let range = format!("{} to {}", settings.first_vmid, settings.last_vmid);
    if candidates == 0 {
        format!(
            "no VMID is free from {range}: guests of the cluster ({guests} in all), running jobs and node addresses \
             have them all; widen ASSIGN_IP_START and ASSIGN_IP_END or remove guests"
        )
    } else {
        format!(
            "no VMID is free from {range}: {candidates} have no guest, but each of their addresses is in use by some \
             other machine; widen ASSIGN_IP_START and ASSIGN_IP_END or free an address"
        )
    }
}

/// Asks all addresses at once; for each, whether it is free.
async fn sweep(addresses: impl Iterator<Item = Ipv4Addr> + Clone, port: u16) -> Vec<bool> {
    let silent =
        futures_util::future::join_all(addresses.clone().map(|address| is_silent(address, port)))
            .await;
    // Who does not answer the port may still have answered for the address.
    let neighbours = tokio::fs::read_to_string("/proc/net/arp").await.unwrap_or_default();
    let neighbours = answering_neighbours(&neighbours);
    addresses
        .zip(silent)
        .map(|(address, silent)| silent && !neighbours.contains(&address))
        .collect()
}

async fn is_silent(address: Ipv4Addr, port: u16) -> bool {
    match tokio::time::timeout(SILENCE, TcpStream::connect((address, port))).await {
        Err(_) => true,
        Ok(Ok(_)) => false,
        Ok(Err(error)) => match error.kind() {
            // On the loopback every address answers for the machine itself.
            io::ErrorKind::ConnectionRefused => address.is_loopback(),
            io::ErrorKind::ConnectionReset => false,
            _ => true,
        },
    }
}

/// The addresses that the kernel has a complete entry for, from `/proc/net/arp`.
fn answering_neighbours(table: &str) -> BTreeSet<Ipv4Addr> {
    const COMPLETE: u32 = 2;
    let entry = |line: &str| {
        let mut columns = line.split_whitespace();
        let address = columns.next()?.parse().ok()?;
        let flags = u32::from_str_radix(columns.nth(1)?.strip_prefix("0x")?, 16).ok()?;
        (flags & COMPLETE != 0).then_some(address)
    };
    table.lines().skip(1).filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::plan::tests::settings;

    #[test]
    fn gateway_and_node_addresses_are_never_given_out() {
        let members = Members::parse(
            r#"{"nodename":"pve1","version":3,"cluster":{"quorate":1},
                "nodelist":{"pve1":{"online":1,"ip":"192.168.0.103"},"pve2":{"online":0,"ip":"192.168.0.104"}}}"#,
        )
        .unwrap();
        let mut settings = settings();
        settings.gateway = "192.168.0.101".parse().unwrap();
        settings.nodes.insert("pve3".to_owned(), "192.168.0.105:2222".to_owned());
        settings.last_vmid = 108;
        assert_eq!(candidates(&settings, &members, &BTreeSet::from([107])), [100, 102, 106, 108]);
    }

    #[test]
    fn a_complete_neighbour_is_in_use() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                     192.168.0.120    0x1         0x2         bc:24:11:00:00:01     *        vmbr0\n\
                     192.168.0.121    0x1         0x0         00:00:00:00:00:00     *        vmbr0\n\
                     192.168.0.122    0x1         0x6         bc:24:11:00:00:02     *        vmbr0\n";
        let used = answering_neighbours(table);
        assert_eq!(
            used,
            BTreeSet::from([Ipv4Addr::new(192, 168, 0, 120), Ipv4Addr::new(192, 168, 0, 122)])
        );
    }

    #[tokio::test]
    async fn on_the_loopback_an_open_port_is_in_use_and_a_closed_one_free() {
        let address = Ipv4Addr::new(127, 77, 3, 9);
        let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let other = Ipv4Addr::new(127, 77, 3, 10);
        assert_eq!(sweep([address, other].into_iter(), port).await, [false, true]);
    }
}
