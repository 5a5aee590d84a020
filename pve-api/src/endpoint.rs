//! Every call of the Proxmox VE API that this crate makes: one row each, from which the requests
//! are built and the table in the crate's documentation is made. `task` marks those whose work is
//! done by a task.

use http::Method;

use crate::request::Endpoint;

macro_rules! endpoints {
    ($($name:ident = $method:ident $path:literal $($task:ident)?, $function:literal, $privilege:literal, $since:literal;)+) => {
        $(
            pub(crate) static $name: Endpoint = Endpoint {
                method: Method::$method,
                path: $path,
                starts_task: !stringify!($($task)?).is_empty(),
                function: $function,
                privilege: $privilege,
                since: $since,
            };
        )+

        /// All of them, in the order of the documentation.
        #[cfg(test)]
        pub(crate) static ALL: &[&Endpoint] = &[$(&$name,)+];
    };
}

endpoints! {
    VERSION = GET "/version", "Client::version", "any login", "";
    DOMAINS = GET "/access/domains", "Server::realms", "none, not even a login", "";
    TICKET = POST "/access/ticket", "Server::login, Challenge::totp, Challenge::recovery, Challenge::yubico", "none, not even a login", "";
    PERMISSIONS = GET "/access/permissions", "Client::permissions, Client::permissions_on", "any login, about itself", "";
    CLUSTER_STATUS = GET "/cluster/status", "Cluster::status", "`Sys.Audit` on `/`", "";
    CLUSTER_RESOURCES = GET "/cluster/resources", "Cluster::resources", "any login; lists what it may see", "";
    NEXT_ID = GET "/cluster/nextid", "Cluster::next_id, Cluster::is_free", "any login", "";
    CLUSTER_OPTIONS = GET "/cluster/options", "Cluster::options", "any login; all of it with `Sys.Audit` on `/`", "";
    HA_LIST = GET "/cluster/ha/resources", "Ha::resources", "`Sys.Audit` on `/`", "";
    HA_ADD = POST "/cluster/ha/resources", "Ha::add", "`Sys.Console` on `/`", "";
    HA_GET = GET "/cluster/ha/resources/{sid}", "Ha::resource", "`Sys.Audit` on `/`", "";
    HA_SET = PUT "/cluster/ha/resources/{sid}", "Ha::set_state", "`Sys.Console` on `/`", "";
    HA_REMOVE = DELETE "/cluster/ha/resources/{sid}", "Ha::remove", "`Sys.Console` on `/`", "";
    HA_GROUPS = GET "/cluster/ha/groups", "Ha::groups", "`Sys.Audit` on `/`", "until 8";
    POOLS = GET "/pools", "Client::pools, Client::pool", "any login; lists those with `Pool.Audit`", "";
    NODES = GET "/nodes", "Client::nodes", "any login; figures with `Sys.Audit` on `/nodes/{node}`", "";
    NODE_STATUS = GET "/nodes/{node}/status", "Node::status", "`Sys.Audit` on `/nodes/{node}`", "";
    NETWORK = GET "/nodes/{node}/network", "Node::network", "any login; bridges with `SDN.Audit` or `SDN.Use`", "";
    CPU_MODELS = GET "/nodes/{node}/capabilities/qemu/cpu", "Node::cpu_models", "any login", "";
    CPU_FLAGS = GET "/nodes/{node}/capabilities/qemu/cpu-flags", "Node::cpu_flags", "any login", "9.0";
    MACHINES = GET "/nodes/{node}/capabilities/qemu/machines", "Node::machines", "any login", "";
    STORAGES = GET "/nodes/{node}/storage", "Node::storages", "any login; lists those with `Datastore.Audit` or `Datastore.AllocateSpace`", "";
    STORAGE_STATUS = GET "/nodes/{node}/storage/{storage}/status", "Storage::status", "`Datastore.Audit` or `Datastore.AllocateSpace` on `/storage/{storage}`", "";
    CONTENT = GET "/nodes/{node}/storage/{storage}/content", "Storage::content", "`Datastore.Audit` or `Datastore.AllocateSpace` on `/storage/{storage}`", "";
    VOLUME = GET "/nodes/{node}/storage/{storage}/content/{volume}", "Storage::volume", "as the volume's use demands", "";
    DELETE_VOLUME = DELETE "/nodes/{node}/storage/{storage}/content/{volume}" task, "Storage::delete", "`Datastore.Allocate` on `/storage/{storage}`, or as the volume's use demands", "";
    DOWNLOAD_URL = POST "/nodes/{node}/storage/{storage}/download-url" task, "Storage::download", "`Datastore.AllocateTemplate` on `/storage/{storage}`, and `Sys.AccessNetwork` on `/nodes/{node}` or `Sys.Audit` and `Sys.Modify` on `/`", "content `import` since 8.3";
    UPLOAD = POST "/nodes/{node}/storage/{storage}/upload" task, "Storage::upload", "`Datastore.AllocateTemplate` on `/storage/{storage}`", "content `import` since 8.3";
    URL_METADATA = GET "/nodes/{node}/query-url-metadata", "Node::url_metadata", "`Sys.AccessNetwork` on `/nodes/{node}`, or `Sys.Audit` and `Sys.Modify` on `/`", "";
    QEMU_LIST = GET "/nodes/{node}/qemu", "Node::guests", "any login; lists those with `VM.Audit`", "";
    QEMU_CREATE = POST "/nodes/{node}/qemu" task, "Node::create", "`VM.Allocate` on `/vms/{vmid}` or `/pool/{pool}`, and more for each kind of parameter", "";
    QEMU_CONFIG = GET "/nodes/{node}/qemu/{vmid}/config", "Qemu::config, Qemu::active_config", "`VM.Audit` on `/vms/{vmid}`", "";
    QEMU_CONFIG_PUT = PUT "/nodes/{node}/qemu/{vmid}/config", "Qemu::set_config", "`VM.Config.*` on `/vms/{vmid}`", "";
    QEMU_CONFIG_POST = POST "/nodes/{node}/qemu/{vmid}/config" task, "Qemu::start_config", "`VM.Config.*` on `/vms/{vmid}`", "";
    QEMU_PENDING = GET "/nodes/{node}/qemu/{vmid}/pending", "Qemu::pending", "`VM.Audit` on `/vms/{vmid}`", "";
    QEMU_RESIZE = PUT "/nodes/{node}/qemu/{vmid}/resize" task, "Qemu::resize", "`VM.Config.Disk` on `/vms/{vmid}`", "a task since 8.0";
    QEMU_STATUS = GET "/nodes/{node}/qemu/{vmid}/status/current", "Qemu::status", "`VM.Audit` on `/vms/{vmid}`", "";
    QEMU_START = POST "/nodes/{node}/qemu/{vmid}/status/start" task, "Qemu::start", "`VM.PowerMgmt` on `/vms/{vmid}`", "";
    QEMU_STOP = POST "/nodes/{node}/qemu/{vmid}/status/stop" task, "Qemu::stop", "`VM.PowerMgmt` on `/vms/{vmid}`", "";
    QEMU_SHUTDOWN = POST "/nodes/{node}/qemu/{vmid}/status/shutdown" task, "Qemu::shutdown", "`VM.PowerMgmt` on `/vms/{vmid}`", "";
    QEMU_REBOOT = POST "/nodes/{node}/qemu/{vmid}/status/reboot" task, "Qemu::reboot", "`VM.PowerMgmt` on `/vms/{vmid}`", "";
    QEMU_MIGRATE_CHECK = GET "/nodes/{node}/qemu/{vmid}/migrate", "Qemu::check_migration", "`VM.Migrate` on `/vms/{vmid}`", "";
    QEMU_MIGRATE = POST "/nodes/{node}/qemu/{vmid}/migrate" task, "Qemu::migrate", "`VM.Migrate` on `/vms/{vmid}`", "";
    QEMU_DESTROY = DELETE "/nodes/{node}/qemu/{vmid}" task, "Qemu::destroy", "`VM.Allocate` on `/vms/{vmid}`", "";
    CLOUDINIT_PENDING = GET "/nodes/{node}/qemu/{vmid}/cloudinit", "Qemu::cloudinit_pending", "`VM.Audit` on `/vms/{vmid}`", "";
    CLOUDINIT_DUMP = GET "/nodes/{node}/qemu/{vmid}/cloudinit/dump", "Qemu::cloudinit_dump", "`VM.Audit` on `/vms/{vmid}`", "";
    AGENT_PING = POST "/nodes/{node}/qemu/{vmid}/agent/ping", "Qemu::agent_ping", "`VM.GuestAgent.Audit` on `/vms/{vmid}`; until 8 `VM.Monitor`", "";
    AGENT_INTERFACES = GET "/nodes/{node}/qemu/{vmid}/agent/network-get-interfaces", "Qemu::agent_interfaces", "`VM.GuestAgent.Audit` on `/vms/{vmid}`; until 8 `VM.Monitor`", "";
    TASKS = GET "/nodes/{node}/tasks", "Node::tasks", "any login; lists its own, all with `Sys.Audit` on `/nodes/{node}`", "";
    TASK_STATUS = GET "/nodes/{node}/tasks/{upid}/status", "Task::status, Task::wait, Task::follow", "its own task, or `Sys.Audit` on `/nodes/{node}`", "";
    TASK_LOG = GET "/nodes/{node}/tasks/{upid}/log", "Task::log, Task::wait, Task::follow", "its own task, or `Sys.Audit` on `/nodes/{node}`", "";
    TASK_STOP = DELETE "/nodes/{node}/tasks/{upid}", "Task::stop", "its own task, or `Sys.Modify` on `/nodes/{node}`", "";
}
