//! VMs that exist: the list, their status, power, size, place and end.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::Response;
use pve_provision::install::Found;
use pve_provision::install::Operation;
use pve_provision::install::OperationError;
use serde_json::json;

use super::start_job;
use super::stopping;
use crate::answer::Problem;
use crate::app::App;
use crate::body::Fields;
use crate::body::JsonBody;
use crate::body::Segment;

impl From<OperationError> for Problem {
    fn from(error: OperationError) -> Self {
        let status = match &error {
            OperationError::NotFound(_) => StatusCode::NOT_FOUND,
            OperationError::Invalid(_) => StatusCode::BAD_REQUEST,
            OperationError::NotOurs(_) | OperationError::Protected(_) => StatusCode::CONFLICT,
            _ => return Self::server(StatusCode::INTERNAL_SERVER_ERROR, error),
        };
        Self::input(status, error)
    }
}

/// `GET /api/vm/list`: the VMs and nodes of the cluster.
pub(super) async fn list(State(app): State<App>) -> Result<Response, Problem> {
    Ok(Json(app.installer().inventory().await?).into_response())
}

/// `GET /api/vm/{id}/status`: `running` or `stopped`.
pub(super) async fn status(
    State(app): State<App>,
    Segment(id): Segment,
) -> Result<String, Problem> {
    let vm = find(&app, &id)?;
    Ok(app.installer().status(&vm).await?)
}

/// `POST /api/vm/{id}/start`: starts a VM and waits until it is ready.
pub(super) async fn start(
    State(app): State<App>,
    Segment(id): Segment,
) -> Result<Response, Problem> {
    operate(&app, find(&app, &id)?, Operation::Start).await
}

/// `POST /api/vm/{id}/reboot`: reboots a VM and waits until it is ready again.
pub(super) async fn reboot(
    State(app): State<App>,
    Segment(id): Segment,
) -> Result<Response, Problem> {
    operate(&app, find(&app, &id)?, Operation::Reboot).await
}

/// `POST /api/vm/{id}/set/node`: migrates a VM.
pub(super) async fn set_node(
    State(app): State<App>,
    Segment(id): Segment,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let vm = find(&app, &id)?;
    let target = app.installer().migration_target(&vm, Fields::parse(&body)?.text("node")?)?;
    operate(&app, vm, Operation::Migrate(target)).await
}

/// `POST /api/vm/{id}/stop`: cuts the power.
pub(super) async fn stop(State(app): State<App>, Segment(id): Segment) -> Result<String, Problem> {
    let vm = find(&app, &id)?;
    change(&app, async move |app| {
        app.installer().stop(&vm).await?;
        Ok(format!("VM {id} is stopped"))
    })
    .await
}

/// `POST /api/vm/{id}/shutdown`: asks the guest to shut down.
pub(super) async fn shut_down(
    State(app): State<App>,
    Segment(id): Segment,
) -> Result<String, Problem> {
    let vm = find(&app, &id)?;
    change(&app, async move |app| {
        app.installer().shut_down(&vm).await?;
        Ok(format!("VM {id} is shut down"))
    })
    .await
}

/// `POST /api/vm/{id}/destroy`: destroys a VM; one without our mark only with `{"force":true}`.
pub(super) async fn destroy(
    State(app): State<App>,
    Segment(id): Segment,
    JsonBody(body): JsonBody,
) -> Result<String, Problem> {
    let vm = find(&app, &id)?;
    let force = !body.is_empty() && Fields::parse(&body)?.switch("force")?;
    change(&app, async move |app| {
        app.installer().destroy(&vm, force).await?;
        Ok(format!("VM {id} is destroyed"))
    })
    .await
}

/// `POST /api/vm/{id}/set/cpu`: sets the number of cores.
pub(super) async fn set_cpu(
    State(app): State<App>,
    Segment(id): Segment,
    JsonBody(body): JsonBody,
) -> Result<String, Problem> {
    let vm = find(&app, &id)?;
    let cores = Fields::parse(&body)?.integer("cpu")?;
    change(&app, async move |app| app.installer().set_cpu(&vm, cores).await).await
}

/// `POST /api/vm/{id}/set/memory`: sets the memory, in MiB.
pub(super) async fn set_memory(
    State(app): State<App>,
    Segment(id): Segment,
    JsonBody(body): JsonBody,
) -> Result<String, Problem> {
    let vm = find(&app, &id)?;
    let mib = Fields::parse(&body)?.integer("memory")?;
    change(&app, async move |app| app.installer().set_memory(&vm, mib).await).await
}

/// `POST /api/vm/{id}/set/disk`: grows the disk by so much.
pub(super) async fn set_disk(
    State(app): State<App>,
    Segment(id): Segment,
    JsonBody(body): JsonBody,
) -> Result<String, Problem> {
    let vm = find(&app, &id)?;
    let size = Fields::parse(&body)?.text("disk")?.to_owned();
    change(&app, async move |app| app.installer().grow_disk(&vm, &size).await).await
}

/// A text that is no VMID is the id of no VM.
fn find(app: &App, id: &str) -> Result<Found, Problem> {
    let unknown = || {
        let shown: String = id.chars().take(20).collect();
        Problem::input(StatusCode::NOT_FOUND, format!("there is no VM {shown}"))
    };
    Ok(app.installer().find(id.parse().ok().ok_or_else(unknown)?)?)
}

/// Does something to a VM as a job, and reads it to its end.
async fn operate(app: &App, vm: Found, operation: Operation) -> Result<Response, Problem> {
    let (name, target) = match &operation {
        Operation::Start => ("start", None),
        Operation::Reboot => ("reboot", None),
        Operation::Migrate(target) => ("migrate", Some(target)),
    };
    let request =
        json!({ "operation": name, "id": vm.vmid(), "node": vm.node(), "target": target });
    let installer = app.installer().clone();
    start_job(app, request, async move |job| installer.operate(vm, operation, job).await).await
}

/// Changes a VM to the end, even when the caller leaves: the command must not be dropped.
async fn change<Work>(app: &App, work: impl FnOnce(App) -> Work) -> Result<String, Problem>
where
    Work: Future<Output = Result<String, OperationError>> + Send + 'static,
{
    let admission = app.admit().ok_or_else(stopping)?;
    match admission.finish(work(app.clone())).await {
        Ok(result) => Ok(result?),
        Err(error) => {
            tracing::error!(%error, "a change broke off");
            let message = "the change broke off by a fault in the server; its log says where";
            Err(Problem::server(StatusCode::INTERNAL_SERVER_ERROR, message))
        }
    }
}
