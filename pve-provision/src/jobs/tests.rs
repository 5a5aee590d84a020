use std::fs;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use pve_api::NodeName;
use pve_api::Vmid;
use serde_json::json;
use tempfile::TempDir;

use super::files::Contents;
use super::files::LogFile;
use super::record::Record;
use super::*;
use crate::event::Kind;
use crate::event::Left;
use crate::event::Stream;
use crate::step::Step;

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Opens a directory whose last user has just gone.
///
/// A process that another test starts shares the lock from its fork to its exec.
async fn open_again(directory: &TempDir) -> Jobs {
    for _ in 0..1_000 {
        match Jobs::open(directory.path()) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            opened => return opened.unwrap(),
        }
    }
    panic!("the directory stays locked");
}

fn log_path(directory: &TempDir, id: &JobId) -> PathBuf {
    directory.path().join("jobs").join(format!("{id}.jsonl"))
}

fn node() -> NodeName {
    "pve1".parse().unwrap()
}

fn vmid() -> Vmid {
    Vmid::try_from(120).unwrap()
}

fn line(text: impl Into<String>) -> Kind {
    Kind::Line { stream: Stream::Stdout, text: text.into() }
}

/// All events up to the end, as they go over the wire.
async fn read_all(mut reader: Reader) -> String {
    let mut text = String::new();
    while let Some(entry) = reader.next().await {
        text.push_str(std::str::from_utf8(&entry.sse()).unwrap());
    }
    text
}

async fn short_job(jobs: &Jobs) -> Job {
    let job = jobs.start(json!({"os": "debian"})).await.unwrap();
    job.report(Step::CreatingVm, Kind::Started("creating VM 120".to_owned())).await;
    job.claim(vmid(), &node()).await.unwrap();
    job.report(Step::CreatingVm, line("a line")).await;
    job.report(Step::CreatingVm, Kind::Done("created".to_owned())).await;
    job
}

#[tokio::test]
async fn early_late_and_reopened_readers_see_the_same_bytes() {
    let directory = directory();
    let jobs = Jobs::open(directory.path()).unwrap();
    let job = jobs.start(json!({})).await.unwrap();
    let early = tokio::spawn(read_all(job.read_from(0)));
    job.report(Step::CreatingVm, Kind::Started("creating VM".to_owned())).await;
    job.report(Step::CreatingVm, line("a \"line\"\n")).await;
    let failed = Kind::Failed { text: "no".to_owned(), left: Left::Nothing };
    job.report(Step::CreatingVm, failed).await;
    job.end().await;

    let early = early.await.unwrap();
    insta::assert_snapshot!(early, @r#"
    id: 0
    data: {"step":"VM creation > creating VM","status":"processing","message":"[*] creating VM"}

    id: 1
    data: {"step":"VM creation > creating VM","status":"processing","message":"  a \"line\"\n"}

    id: 2
    data: {"step":"VM creation > creating VM","status":"error","message":"[-] no"}
    "#);
    assert_eq!(read_all(job.read_from(0)).await, early);
    let id = *job.id();
    let from_two = early.split_at(early.find("id: 2").unwrap()).1;
    assert_eq!(read_all(job.read_from(2)).await, from_two);

    drop((job, jobs));
    let jobs = open_again(&directory).await;
    assert!(jobs.unfinished().is_empty());
    let job = jobs.get(&id).await.unwrap();
    assert_eq!(read_all(job.read_from(0)).await, early);
    assert_eq!(job.state().failed, Some(Left::Nothing));
}

#[tokio::test]
async fn after_the_end_a_reader_knows_the_number_of_the_end() {
    let directory = directory();
    let jobs = Jobs::open(directory.path()).unwrap();
    let job = short_job(&jobs).await;
    job.end().await;

    let mut reader = job.read_from(1);
    while reader.next().await.is_some() {}

    assert_eq!(reader.position(), 3);
}

#[tokio::test]
async fn the_log_is_a_private_file_of_json_lines() {
    let directory = directory();
    let state = directory.path().join("state");
    let jobs = Jobs::open(&state).unwrap();
    let job = short_job(&jobs).await;
    job.end().await;

    let file = state.join("jobs").join(format!("{}.jsonl", job.id()));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(&state.join("jobs")), 0o700);
    assert_eq!(mode(&file), 0o600);
    let time = without_times(&fs::read_to_string(file).unwrap());
    insta::assert_snapshot!(time, @r#"
    {"accepted":{"time":"…","request":{"os":"debian"}}}
    {"event":{"number":0,"time":"…","step":"VM creation > creating VM","kind":{"started":"creating VM 120"}}}
    {"claimed":{"time":"…","vmid":120,"node":"pve1"}}
    {"event":{"number":1,"time":"…","step":"VM creation > creating VM","kind":{"line":{"stream":"stdout","text":"a line"}}}}
    {"event":{"number":2,"time":"…","step":"VM creation > creating VM","kind":{"done":"created"}}}
    {"ended":{"time":"…"}}
    "#);
}

/// The text with every `"time":"…"` cut short.
fn without_times(text: &str) -> String {
    let mut parts = text.split("\"time\":\"");
    let mut result = parts.next().unwrap().to_owned();
    for part in parts {
        result.push_str("\"time\":\"…");
        result.push_str(&part[part.find('"').unwrap()..]);
    }
    result
}

#[tokio::test]
async fn after_a_crash_the_torn_line_is_gone_and_the_log_goes_on() {
    let directory = directory();
    let jobs = Jobs::open(directory.path()).unwrap();
    let job = short_job(&jobs).await;
    let id = *job.id();
    drop((job, jobs));
    let mut file = OpenOptions::new().append(true).open(log_path(&directory, &id)).unwrap();
    file.write_all(br#"{"event":{"number":3,"time":"2026-"#).unwrap();

    let jobs = open_again(&directory).await;
    let [job] = <[Job; 1]>::try_from(jobs.unfinished()).unwrap();
    assert_eq!(job.id(), &id);
    assert_eq!(job.request(), &json!({"os": "debian"}));
    let state = job.state();
    assert_eq!(state.claimed, Some(Claim { vmid: vmid(), node: node() }));
    assert_eq!((state.step, state.events, state.ended), (Some(Step::CreatingVm), 3, None));
    job.report(Step::CreatingVm, Kind::Notice("the server was gone".to_owned())).await;
    job.end().await;
    assert!(jobs.unfinished().is_empty());

    let live = read_all(job.read_from(0)).await;
    assert!(live.contains("id: 3\n"), "{live}");
    drop((job, jobs));
    let jobs = open_again(&directory).await;
    assert_eq!(read_all(jobs.get(&id).await.unwrap().read_from(0)).await, live);
}

#[tokio::test]
async fn a_log_cut_anywhere_reads_as_the_whole_lines_before_the_cut() {
    let directory = directory();
    let jobs = Jobs::open(directory.path()).unwrap();
    let job = short_job(&jobs).await;
    job.end().await;
    let id = *job.id();
    drop((job, jobs));
    let whole = fs::read(log_path(&directory, &id)).unwrap();

    for cut in 0..=whole.len() {
        fs::write(log_path(&directory, &id), &whole[..cut]).unwrap();
        let jobs = open_again(&directory).await;
        let lines = whole[..cut].split(|byte| *byte == b'\n').count() - 1;
        assert_eq!(jobs.unfinished().len(), usize::from((1..6).contains(&lines)), "cut at {cut}");
        let Some(job) = jobs.get(&id).await else {
            assert_eq!(lines, 0, "cut at {cut}");
            continue;
        };
        assert_eq!(job.state().events, [0, 0, 1, 1, 2, 3, 3][lines], "cut at {cut}");
    }
}

#[tokio::test]
async fn a_running_job_is_left_over_only_for_the_next_server() {
    let directory = directory();
    let jobs = Jobs::open(directory.path()).unwrap();
    let job = short_job(&jobs).await;

    assert!(jobs.unfinished().is_empty());
    assert_eq!(jobs.running().len(), 1);
    let error = Jobs::open(directory.path()).unwrap_err();
    assert!(error.to_string().ends_with("another server uses this directory"), "{error}");
    drop((job, jobs));

    assert_eq!(open_again(&directory).await.unfinished().len(), 1);
}

#[tokio::test]
async fn the_last_two_hundred_ended_jobs_are_kept_and_all_that_run() {
    let directory = directory();
    let jobs = Jobs::open(directory.path()).unwrap();
    let running = jobs.start(json!({})).await.unwrap();
    let mut ended = Vec::new();
    for _ in 0..ENDED_KEPT + 3 {
        let job = jobs.start(json!({})).await.unwrap();
        job.end().await;
        ended.push(*job.id());
    }

    for jobs in [jobs.clone(), jobs] {
        let listed: Vec<JobId> = jobs.list().await.into_iter().map(|summary| summary.id).collect();
        let expected = ended[3..].iter().rev().chain([running.id()]);
        assert!(listed.iter().eq(expected));
        assert!(jobs.get(&ended[2]).await.is_none());
    }
    assert_eq!(fs::read_dir(directory.path().join("jobs")).unwrap().count(), ENDED_KEPT + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reader_sees_every_event_in_order() {
    const READERS: u64 = 200;
    const EVENTS: u64 = 2_000;
    let directory = directory();
    let jobs = Jobs::open(directory.path()).unwrap();
    let job = jobs.start(json!({})).await.unwrap();
    let mut readers = tokio::task::JoinSet::new();
    for first in 0..READERS {
        let mut reader = job.read_from(first);
        readers.spawn(async move {
            let mut expected = first;
            while let Some(entry) = reader.next().await {
                assert_eq!(entry.event.number, expected);
                expected += 1;
            }
            expected
        });
    }
    for number in 0..EVENTS {
        job.report(Step::SshInitialization, line(format!("line {number}"))).await;
    }
    job.end().await;

    let mut complete = 0;
    while let Some(last) = readers.join_next().await {
        assert_eq!(last.unwrap(), EVENTS);
        complete += 1;
    }
    assert_eq!(complete, READERS);
}

#[tokio::test]
async fn the_last_of_a_burst_reaches_its_readers_though_the_job_goes_on() {
    const BURST: u64 = 5;
    let directory = directory();
    let jobs = Jobs::open(directory.path()).unwrap();
    let job = jobs.start(json!({})).await.unwrap();
    let mut reader = job.read_from(0);
    let reading = tokio::spawn(async move {
        while reader.position() < BURST {
            reader.next().await.unwrap();
        }
    });
    for number in 0..BURST {
        job.report(Step::CreatingVm, Kind::Notice(number.to_string())).await;
        tokio::task::yield_now().await;
    }

    tokio::time::timeout(Duration::from_secs(10), reading).await.unwrap().unwrap();
}

#[tokio::test]
async fn readers_share_the_bytes_of_an_event() {
    let directory = directory();
    let jobs = Jobs::open(directory.path()).unwrap();
    let job = short_job(&jobs).await;

    let (first, second) = (job.read_from(0).next().await, job.read_from(0).next().await);

    assert_eq!(first.unwrap().sse().as_ptr(), second.unwrap().sse().as_ptr());
}

#[tokio::test]
async fn reports_keep_their_order_when_nobody_waits_for_them() {
    let directory = directory();
    let jobs = Jobs::open(directory.path()).unwrap();
    let job = jobs.start(json!({})).await.unwrap();
    for number in 0..100 {
        // Polled once and dropped, as by a cancelled caller.
        let report = job.report(Step::CreatingVm, Kind::Notice(number.to_string()));
        assert!(futures_util::FutureExt::now_or_never(report).is_none());
    }
    job.end().await;

    let mut reader = job.read_from(0);
    for number in 0..100 {
        assert_eq!(reader.next().await.unwrap().event.kind, Kind::Notice(number.to_string()));
    }
    assert!(reader.next().await.is_none());
}

#[tokio::test]
async fn a_failing_disk_fails_the_claim_but_not_the_event() {
    let directory = directory();
    let jobs = Jobs::open(directory.path()).unwrap();
    let file = LogFile::of(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let contents = Contents::of(Record::accepted(json!({})));
    let job = Job::from(Inner::started(JobId::new(), contents, file, Arc::downgrade(&jobs.shared)));

    job.report(Step::CreatingVm, Kind::Notice("still here".to_owned())).await;
    let error = job.claim(vmid(), &node()).await.unwrap_err();

    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(job.read_from(0).next().await.unwrap().event.number, 0);
}

#[tokio::test]
async fn the_first_reason_of_a_cancellation_stays() {
    let directory = directory();
    let jobs = Jobs::open(directory.path()).unwrap();
    let job = short_job(&jobs).await;
    assert_eq!(job.cancel_reason(), None);

    job.cancel(CancelReason::Requested);
    job.cancel(CancelReason::ServerStops);

    assert!(job.cancellation().is_cancelled());
    assert_eq!(job.cancel_reason(), Some(CancelReason::Requested));
}

#[test]
fn an_id_is_the_name_of_a_file_and_nothing_else() {
    let id = JobId::new();
    assert_eq!(id.to_string().parse(), Ok(id));
    for text in ["", "..", "../lock", &id.to_string().to_uppercase(), &format!("{{{id}}}")] {
        assert!(text.parse::<JobId>().is_err(), "{text}");
    }
}
