//! A job outlives its reader and its server.

use std::time::Duration;

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
    // Long enough for the import to be running when the server is killed.
    let config = Config { latency: Duration::from_millis(700), ..Config::default() };
    let mut rig = Rig::start(config, &[]).await.unwrap();
    let mut stream = rig.server.install(&json!({"os": "debian", "version": "12"})).await.unwrap();
    let job = stream.header("x-job-id").unwrap().to_owned();
    let seen = stream.until(step_is("VM creation > importing disk image")).await.unwrap();
    rig = rig.restarted().await.unwrap();

    let whole =
        Install::read_job(rig.server.events(&job, None).await.unwrap(), &job).await.unwrap();
    assert_eq!(whole.messages[..seen.len()], seen);
    let errors = whole.errors();
    assert_eq!(errors.len(), 1, "{}", whole.raw);
    assert!(errors[0].starts_with("VM creation > importing disk image"), "{errors:?}");
    assert!(whole.messages.last().unwrap().is_close());
    assert_eq!(rig.guests(), Vec::<u32>::new());
}
