//! Which function answers which endpoint.

use serde_json::Value;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Request;
use crate::call::access;
use crate::call::agent;
use crate::call::cloud_init;
use crate::call::cluster;
use crate::call::create;
use crate::call::destroy;
use crate::call::list;
use crate::call::migrate;
use crate::call::node;
use crate::call::power;
use crate::call::resize;
use crate::call::resources;
use crate::call::storage;
use crate::call::task;
use crate::call::transfer;
use crate::call::update;
use crate::world::World;

/// Answers a call that has been checked.
pub(super) fn dispatch(
    world: &mut World,
    endpoint: &str,
    request: Request<'_>,
    path: &str,
) -> Result<Answer, Died> {
    match endpoint {
        "GET /version" => Ok(list::version(world)),
        "GET /nodes" => Ok(list::nodes(world, request)),
        "GET /nodes/{node}/status" => Ok(list::node_status(world, request)),
        "GET /cluster/resources" => Ok(resources::resources(world, request)),
        "GET /cluster/status" => Ok(list::cluster_status(world)),
        "GET /cluster/nextid" => list::next_id(world, request),
        "GET /nodes/{node}/qemu" => Ok(list::vms(world, request)),
        "GET /nodes/{node}/lxc" => Ok(Answer::data(Value::Array(Vec::new()))),
        "GET /nodes/{node}/qemu/{vmid}/config" => list::configuration(world, request),
        "GET /nodes/{node}/qemu/{vmid}/pending" => list::pending(world, request),
        "GET /nodes/{node}/qemu/{vmid}/status/current" => list::status(world, request),
        "GET /nodes/{node}/storage" => storage::list(world, request),
        "GET /nodes/{node}/storage/{storage}/status" => storage::status(world, request),
        "GET /nodes/{node}/storage/{storage}/content" => storage::content(world, request),
        "POST /nodes/{node}/storage/{storage}/content" => storage::allocate(world, request),
        "POST /storage" => storage::add(world, request),
        "PUT /storage/{storage}" => storage::change(world, request),
        "DELETE /storage/{storage}" => storage::remove(world, request),
        "GET /nodes/{node}/storage/{storage}/content/{volume}" => storage::volume(world, request),
        "DELETE /nodes/{node}/storage/{storage}/content/{volume}" => {
            storage::delete(world, request)
        }
        "GET /storage" => Ok(storage::definitions(world, request)),
        "GET /storage/{storage}" => storage::definition(world, request),
        "POST /nodes/{node}/qemu" => create::create(world, request),
        "PUT /nodes/{node}/qemu/{vmid}/config" => update::update(world, request),
        "POST /nodes/{node}/qemu/{vmid}/config" => update::update_later(world, request),
        "PUT /nodes/{node}/qemu/{vmid}/resize" => resize::resize(world, request),
        "PUT /nodes/{node}/qemu/{vmid}/unlink" => update::unlink(world, request),
        "POST /nodes/{node}/qemu/{vmid}/status/start" => power::start(world, request),
        "POST /nodes/{node}/qemu/{vmid}/status/stop" => power::stop(world, request),
        "POST /nodes/{node}/qemu/{vmid}/status/shutdown" => power::shutdown(world, request),
        "POST /nodes/{node}/qemu/{vmid}/status/reboot" => power::reboot(world, request),
        "POST /nodes/{node}/qemu/{vmid}/status/reset" => power::nudge(world, request, "qmreset"),
        "POST /nodes/{node}/qemu/{vmid}/status/suspend" => power::nudge(world, request, "qmpause"),
        "POST /nodes/{node}/qemu/{vmid}/status/resume" => power::nudge(world, request, "qmresume"),
        "GET /nodes/{node}/qemu/{vmid}/migrate" => migrate::precheck(world, request),
        "POST /nodes/{node}/qemu/{vmid}/migrate" => migrate::migrate(world, request),
        "DELETE /nodes/{node}/qemu/{vmid}" => destroy::destroy(world, request),
        "GET /nodes/{node}/qemu/{vmid}/cloudinit/dump" => cloud_init::dump(world, request),
        "GET /nodes/{node}/qemu/{vmid}/cloudinit" => cloud_init::get(world, request),
        "PUT /nodes/{node}/qemu/{vmid}/cloudinit" => cloud_init::regenerate(world, request),
        _ => {
            let answer = access::dispatch(world, endpoint, request)
                .or_else(|| task::dispatch(world, endpoint, request))
                .or_else(|| cluster::dispatch(world, endpoint, request))
                .or_else(|| node::dispatch(world, endpoint, request))
                .or_else(|| agent::dispatch(world, endpoint, request))
                .or_else(|| transfer::dispatch(world, endpoint, request));
            answer.unwrap_or_else(|| {
                let (method, _) = endpoint.split_once(' ').unwrap_or_default();
                let text = format!("Method '{method} {path}' not implemented");
                Err(Died { status: 501, exit: 1, ..Died::new(text) })
            })
        }
    }
}
