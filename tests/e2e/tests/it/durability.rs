//! A job outlives its reader and its server.

use pve_e2e::rig::Install;
use pve_e2e::rig::Rig;
use pve_e2e::sse::Message;
use pve_sim::Config;
use serde_json::json;

fn step_is(name: &'static str) -> impl Fn(&Message) -> bool {
    move |message| message.told().is_ok_and(|told| told.step == name)
}

#[tokio::test]
async fn a_job_goes_on_without_its_reader_and_is_replayed_exactly() {
    let rig = Rig::start(Config::default(), &[]).await.unwrap();
    let mut stream = rig.server.install(&json!({"os": "debian", "version": "12"})).await.unwrap();
    let job = stream.header("x-job-id").unwrap().to_owned();
    let seen = stream.until(step_is("VM creation > creating VM")).await.unwrap();
    drop(stream);

    let whole =
        Install::read_job(rig.server.events(&job, None).await.unwrap(), &job).await.unwrap();
    assert!(whole.succeeded(), "{}\n{}", whole.raw, rig.place.log());
    assert_eq!(whole.messages[..seen.len()], seen);

    let last = seen.last().unwrap().id.clone().unwrap();
    let rest = rig.server.events(&job, Some(&last)).await.unwrap().rest().await.unwrap();
    assert_eq!(rest, whole.messages[seen.len()..]);
}

#[tokio::test]
async fn a_server_that_was_killed_finds_its_job_again_and_undoes_it() {
    let mut rig = Rig::start(Config::default(), &[]).await.unwrap();
    let mut stream = rig.server.install(&json!({"os": "debian", "version": "12"})).await.unwrap();
    let job = stream.header("x-job-id").unwrap().to_owned();
    let seen = stream.until(step_is("VM creation > importing disk image")).await.unwrap();
    rig = rig.restarted().await.unwrap();

    let whole =
        Install::read_job(rig.server.events(&job, None).await.unwrap(), &job).await.unwrap();
    assert_eq!(whole.messages[..seen.len()], seen);
    assert_eq!(whole.errors().len(), 1, "{}", whole.raw);
    assert!(whole.messages.last().unwrap().is_close());
    assert_eq!(rig.guests(), Vec::<u32>::new());
}
