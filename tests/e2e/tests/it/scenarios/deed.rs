//! What is done while an install runs.

use std::time::Duration;
use std::time::Instant;

use pve_e2e::client::Stream;
use pve_e2e::rig::Install;
use pve_e2e::rig::Rig;
use pve_e2e::sse::Message;
use reqwest::StatusCode;
use serde_json::Value;

/// How long a moment is waited for.
const LIMIT: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(5);

/// A moment of an install.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// An event of this step has been read …
    pub(crate) step: &'static str,
    /// … that contains this …
    pub(crate) says: &'static str,
    /// … and a command has begun that starts so; any when empty.
    pub(crate) command: &'static str,
}

/// What is done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deed {
    /// The stream is read to its end.
    Read,
    /// The job is cancelled.
    Cancel(Moment),
    /// Something happens to the cluster.
    Change(Moment, fn(&Rig)),
    /// The reader leaves; the job is read again when it is over.
    Leave(Moment),
    /// The server is killed and started again.
    Kill(Moment),
    /// The server is asked to stop; a new job is refused meanwhile.
    Terminate(Moment),
    /// The server is asked to stop twice.
    TerminateTwice(Moment),
}

impl Deed {
    /// Sends the request, does the deed, reads to the end.
    pub(crate) async fn done(self, rig: Rig, request: &Value) -> (Rig, Install) {
        let mut stream = rig.server.install(request).await.unwrap();
        let job = stream.header("x-job-id").unwrap().to_owned();
        let mut seen = Vec::new();
        match self {
            Self::Read => {}
            Self::Cancel(moment) => {
                seen = moment.wait(&rig, &mut stream).await;
                let url = rig.server.url(&format!("/api/jobs/{job}"));
                let answer = rig.server.client().delete(url).send().await.unwrap();
                assert_eq!(answer.status(), StatusCode::ACCEPTED);
            }
            Self::Change(moment, change) => {
                seen = moment.wait(&rig, &mut stream).await;
                change(&rig);
            }
            Self::Leave(moment) => {
                moment.wait(&rig, &mut stream).await;
                drop(stream);
                return read_again(rig, &job, &[]).await;
            }
            Self::Kill(moment) => {
                seen = moment.wait(&rig, &mut stream).await;
                drop(stream);
                let rig = rig.restarted().await.unwrap();
                return read_again(rig, &job, &seen).await;
            }
            Self::Terminate(moment) | Self::TerminateTwice(moment) => {
                seen = moment.wait(&rig, &mut stream).await;
                rig.server.terminate().unwrap();
                refuses(&rig, request).await;
                if matches!(self, Self::TerminateTwice(_)) {
                    rig.server.terminate().unwrap();
                }
                seen.extend(stream.rest().await.unwrap());
                return last_words(rig, &job, &seen).await;
            }
        }
        seen.extend(stream.rest().await.unwrap());
        read_again(rig, &job, &seen).await
    }
}

impl Moment {
    async fn wait(self, rig: &Rig, stream: &mut Stream) -> Vec<Message> {
        let is_it = |message: &Message| {
            message
                .told()
                .is_ok_and(|told| told.step == self.step && told.message.contains(self.says))
        };
        let seen = stream.until(is_it).await.unwrap();
        let has_begun =
            || rig.sim.commands().iter().any(|call| call.line().starts_with(self.command));
        let give_up = Instant::now() + LIMIT;
        while !self.command.is_empty() && !has_begun() {
            assert!(Instant::now() < give_up, "{} has not begun", self.command);
            tokio::time::sleep(LOOK).await;
        }
        seen
    }
}

/// Reads a job from its start; what was seen before is how it begins.
async fn read_again(rig: Rig, job: &str, seen: &[Message]) -> (Rig, Install) {
    let stream = rig.server.events(job, None).await.unwrap();
    let install = Install::read_job(stream, job).await.unwrap();
    assert_eq!(&install.messages[..seen.len()], seen, "{}", install.raw);
    (rig, install)
}

/// A server that stops takes no new jobs.
async fn refuses(rig: &Rig, request: &Value) {
    let give_up = Instant::now() + LIMIT;
    while !rig.place.log().contains("stopping: no new jobs") {
        assert!(Instant::now() < give_up, "the server does not stop");
        tokio::time::sleep(LOOK).await;
    }
    let url = rig.server.url("/api/vm/install");
    let answer = rig.server.client().post(url).json(request).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    let form: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert_eq!(form["success"], false);
}

/// Waits for the end of a server that stops, starts another, and reads the job there.
async fn last_words(rig: Rig, job: &str, seen: &[Message]) -> (Rig, Install) {
    let Rig { sim, place, mut server } = rig;
    let status = server.ended().await.unwrap();
    assert!(status.success(), "{status}: {}", place.log());
    let server = place.serve().await.unwrap();
    let (rig, install) = read_again(Rig { sim, place, server }, job, seen).await;
    assert_eq!(install.messages.len(), seen.len(), "{}", install.raw);
    (rig, install)
}
