//! Several who want the same image at once.

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::crash::Child;
use super::mirror::Reply;
use super::mirror::file;
use super::*;

const LENGTH: usize = 3_000_000;

/// A mirror that takes about a second for an image.
async fn slow(body: &[u8]) -> Mirror {
    let body = body.to_vec();
    Mirror::start(move |asked| match asked.path.as_str() {
        "/SHA512SUMS" => Reply::new(200, list(&body)),
        _ => file(asked, &body, "1").slow(Duration::from_millis(25)),
    })
    .await
}

/// A download in a task of its own, and what it tells.
fn spawn(
    cache: &Cache,
    image: &Image,
) -> (tokio::task::JoinHandle<Result<PathBuf, Error>>, mpsc::UnboundedReceiver<Update>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (cache, image) = (cache.clone(), image.clone());
    let task = tokio::spawn(async move {
        cache.download(&image, None, move |update| drop(sender.send(update))).await
    });
    (task, receiver)
}

/// Waits until so much of a part is there.
async fn until_part_has(place: &Place, length: u64) {
    crash::until(|| std::fs::metadata(place.path(".part")).is_ok_and(|part| part.len() >= length))
        .await;
}

#[tokio::test]
async fn twenty_tasks_make_one_download_and_all_see_its_progress() {
    let body = content(LENGTH, 1);
    let mirror = slow(&body).await;
    let (place, image) = (Place::new(), image(&mirror));
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let (cache, image) = (place.cache.clone(), image.clone());
        tasks.spawn(async move {
            let mut updates = Vec::new();
            let path = cache.download(&image, None, |update| updates.push(update)).await.unwrap();
            (path, updates)
        });
    }
    let ended = tasks.join_all().await;
    assert_eq!(mirror.downloads(), 1);
    assert_eq!(std::fs::read(place.path("")).unwrap(), body);
    let mut waited = 0;
    for (path, updates) in &ended {
        assert_eq!(*path, place.path(""));
        assert!(
            updates.iter().any(|update| matches!(
                update,
                Update::Progress { done, total: Some(total), .. } if 0 < *done && *total == LENGTH as u64
            )),
            "{updates:?}"
        );
        let word = "waiting for that";
        waited += usize::from(
            updates
                .iter()
                .any(|update| matches!(update, Update::Notice(text) if text.contains(word))),
        );
    }
    assert_eq!(waited, 19);
}

#[tokio::test]
async fn a_dropped_download_is_gone_on_with_by_one_that_waited() {
    let body = content(LENGTH, 2);
    let mirror = slow(&body).await;
    let (place, image) = (Place::new(), image(&mirror));
    let (first, _updates) = spawn(&place.cache, &image);
    until_part_has(&place, 500_000).await;
    let (second, mut heard) = spawn(&place.cache, &image);
    let Some(Update::Notice(text)) = heard.recv().await else { panic!("ended early") };
    assert!(text.contains("waiting for that"), "{text}");

    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert!(!place.path("").exists());

    assert_eq!(std::fs::read(second.await.unwrap().unwrap()).unwrap(), body);
    let mut notices = Vec::new();
    while let Some(update) = heard.recv().await {
        hear(&mut notices, update);
    }
    assert!(
        notices[0].contains("ended without small-1-amd64.qcow2: this one goes on"),
        "{notices:?}"
    );
    assert!(notices[1].contains("are there from an earlier download"), "{notices:?}");
    let asked = mirror.asked("GET", &format!("/{NAME}"));
    assert!(asked[1].header("range").is_some());
}

#[tokio::test]
async fn a_download_dropped_at_any_time_leaves_nothing_partial_under_the_final_name() {
    let body = content(LENGTH, 3);
    let mirror = Mirror::good(body.clone()).await;
    let (place, image) = (Place::new(), image(&mirror));
    // Polls a download ever more often before it is dropped.
    for polls in 0..60 {
        let mut left = polls;
        let download = place.download(&image);
        tokio::pin!(download);
        let ended = std::future::poll_fn(|cx| {
            if left == 0 {
                return std::task::Poll::Ready(false);
            }
            left -= 1;
            download.as_mut().poll(cx).map(|_| true)
        })
        .await;
        let there = std::fs::read(place.path(""));
        assert!(there.is_err() || there.unwrap() == body, "after {polls} polls");
        if ended {
            break;
        }
    }
    assert_eq!(place.download(&image).await.unwrap(), body);
    assert_eq!(place.endings(), ["", ".json"]);
}

#[tokio::test]
async fn those_who_waited_for_a_download_that_failed_do_not_repeat_its_failure() {
    let body = content(LENGTH, 4);
    let listed = content(10, 5);
    let mirror = Mirror::start(move |asked| match asked.path.as_str() {
        "/SHA512SUMS" => Reply::new(200, list(&listed)),
        _ => file(asked, &body, "1").slow(Duration::from_millis(10)),
    })
    .await;
    let (place, image) = (Place::new(), image(&mirror));
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let (cache, image) = (place.cache.clone(), image.clone());
        tasks.spawn(async move { cache.download(&image, None, |_| {}).await.unwrap_err() });
    }
    let errors = tasks.join_all().await;
    assert_eq!(mirror.downloads(), 2, "the first one's two");
    let first = errors.iter().filter(|error| matches!(error, Error::Checksum { .. })).count();
    let others = errors.iter().filter(|error| matches!(error, Error::Elsewhere { .. })).count();
    assert_eq!((first, others), (1, 9));
    let told = errors.iter().find(|error| matches!(error, Error::Elsewhere { .. })).unwrap();
    assert!(told.to_string().contains("both were fetched twice"), "{told}");

    // Whoever comes later tries again.
    let error = place.download(&image).await.unwrap_err();
    assert!(matches!(error, Error::Checksum { .. }), "{error}");
}

#[tokio::test]
async fn two_processes_make_one_download() {
    let body = content(LENGTH, 6);
    let mirror = slow(&body).await;
    let (place, image) = (Place::new(), image(&mirror));
    let mut other = Child::download(place.directory.path(), &image);
    until_part_has(&place, 200_000).await;

    let mut updates = Vec::new();
    let path = place.cache.download(&image, None, |update| updates.push(update)).await.unwrap();
    assert_eq!(std::fs::read(path).unwrap(), body);
    assert!(
        updates.iter().any(|update| matches!(
            update,
            Update::Progress { total: Some(total), rate, .. } if *total == LENGTH as u64 && *rate > 0
        )),
        "{updates:?}"
    );
    assert!(other.ended_well().await);
    assert_eq!(mirror.downloads(), 1);
}

#[tokio::test]
async fn a_process_that_is_killed_is_noticed_by_one_that_waits_for_it() {
    let body = content(LENGTH, 7);
    let mirror = slow(&body).await;
    let (place, image) = (Place::new(), image(&mirror));
    let mut other = Child::download(place.directory.path(), &image);
    until_part_has(&place, 200_000).await;
    let (ours, mut heard) = spawn(&place.cache, &image);
    let Some(Update::Notice(text)) = heard.recv().await else { panic!("ended early") };
    assert!(text.contains("waiting for that"), "{text}");
    other.kill();
    assert_eq!(std::fs::read(ours.await.unwrap().unwrap()).unwrap(), body);
    let asked = mirror.asked("GET", &format!("/{NAME}"));
    assert_eq!(asked.len(), 2);
    assert!(asked[1].header("range").is_some());
}

#[tokio::test]
async fn a_file_that_was_there_is_hashed_by_one_at_a_time() {
    let body = content(LENGTH, 8);
    let mirror = Mirror::good(body.clone()).await;
    let (place, image) = (Place::new(), image(&mirror));
    std::fs::write(place.path(""), &body).unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let (cache, image) = (place.cache.clone(), image.clone());
        tasks.spawn(async move { cache.cached(&image, None, |_| {}).await.unwrap() });
    }
    for path in tasks.join_all().await {
        assert_eq!(path, Some(place.path("")));
    }
    assert_eq!(mirror.asked("GET", "/SHA512SUMS").len(), 1);
    assert_eq!(place.endings(), ["", ".json"]);
}

#[tokio::test]
async fn a_file_that_is_not_the_image_is_found_out_once_for_all() {
    let body = content(LENGTH, 9);
    let mirror = Mirror::good(body.clone()).await;
    let (place, image) = (Place::new(), image(&mirror));
    std::fs::write(place.path(""), content(LENGTH, 10)).unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let (cache, image) = (place.cache.clone(), image.clone());
        tasks.spawn(async move {
            match cache.cached(&image, None, |_| {}).await.unwrap() {
                Some(path) => path,
                None => cache.download(&image, None, |_| {}).await.unwrap(),
            }
        });
    }
    for path in tasks.join_all().await {
        assert_eq!(std::fs::read(path).unwrap(), body);
    }
    assert_eq!(mirror.downloads(), 1);
    assert_eq!(mirror.asked("GET", "/SHA512SUMS").len(), 2, "one to judge, one to download");
}
