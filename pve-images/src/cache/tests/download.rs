//! The good day, and what is asked of the server.

use std::os::unix::fs::PermissionsExt;

use super::mirror::Framing;
use super::mirror::Reply;
use super::mirror::file;
use super::*;

#[tokio::test]
async fn a_downloaded_image_is_whole_and_noted_and_used_again() {
    let body = content(3_000_000, 1);
    let mirror = Mirror::good(body.clone()).await;
    let (place, image) = (Place::new(), image(&mirror));

    assert_eq!(place.cached(&image).await.0, None);
    let remote = place.cache.head(&image).await.unwrap();
    assert_eq!(remote.length, Some(3_000_000));
    let path = place.cache.download(&image, Some(&remote), |_| {}).await.unwrap();

    assert_eq!(path, place.path(""));
    assert_eq!(std::fs::read(&path).unwrap(), body);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(place.endings(), ["", ".json"]);
    let note = place.note(".json");
    assert_eq!(note["url"], image.url.as_str());
    assert_eq!(note["size"], 3_000_000);
    assert_eq!(note["sum"], format!("sha512:{}", sha(Algorithm::Sha512, &body)));
    assert_eq!(note["verified"], true);
    assert_eq!(note["etag"], "\"1\"");
    assert!(note["time"].as_u64().unwrap() > 1_700_000_000);

    assert_eq!(place.cached(&image).await, (Some(path.clone()), vec![]));
    assert_eq!(place.cache.download(&image, None, |_| {}).await.unwrap(), path);
    assert_eq!(mirror.downloads(), 1);
}

#[tokio::test]
async fn the_lists_of_all_publishers_verify() {
    let body = content(200_000, 2);
    let (long, short) = (sha(Algorithm::Sha512, &body), sha(Algorithm::Sha256, &body));
    for list in [
        format!("{long}  other.qcow2\n{long}  {NAME}\n"),
        format!("{short} *{NAME}\n"),
        format!("# {NAME}: 200000 bytes\nSHA256 ({NAME}) = {short}\n"),
    ] {
        let (body, served) = (body.clone(), body.clone());
        let mirror = Mirror::start(move |asked| match asked.path.as_str() {
            "/SHA512SUMS" => Reply::new(200, list.clone()),
            _ => file(asked, &served, "1"),
        })
        .await;
        let place = Place::new();
        assert_eq!(place.download(&image(&mirror)).await.unwrap(), body);
        assert_eq!(place.note(".json")["verified"], true);
    }
}

#[tokio::test]
async fn redirects_lead_to_the_image() {
    let body = content(100_000, 3);
    let served = body.clone();
    let mirror = Mirror::start(move |asked| match asked.path.as_str() {
        "/SHA512SUMS" => Reply::new(302, "").header("Location", "/sums/there"),
        "/sums/there" => Reply::new(200, list(&served)),
        "/there" => file(asked, &served, "1"),
        _ => Reply::new(307, "").header("Location", "/there"),
    })
    .await;
    let (place, image) = (Place::new(), image(&mirror));
    assert_eq!(place.cache.head(&image).await.unwrap().length, Some(100_000));
    assert_eq!(place.download(&image).await.unwrap(), body);
    assert_eq!(place.endings(), ["", ".json"], "the name is the catalogue's");
}

#[tokio::test]
async fn a_chunked_body_and_one_that_ends_with_its_connection_are_taken() {
    for framing in [Framing::Chunked, Framing::Close] {
        let body = content(300_000, 4);
        let served = body.clone();
        let mirror = Mirror::start(move |asked| match asked.path.as_str() {
            "/SHA512SUMS" => Reply::new(200, list(&served)),
            _ => file(asked, &served, "1").framing(framing),
        })
        .await;
        assert_eq!(Place::new().download(&image(&mirror)).await.unwrap(), body, "{framing:?}");
    }
}

#[tokio::test]
async fn without_verification_length_and_format_are_looked_at() {
    let body = content(100_000, 5);
    let mirror = Mirror::good(body.clone()).await;
    let place = Place::with(Head::Required, false);
    assert_eq!(place.download(&image(&mirror)).await.unwrap(), body);
    assert_eq!(mirror.asked("GET", "/SHA512SUMS").len(), 0);
    assert_eq!(place.note(".json")["verified"], false);
    assert_eq!(place.note(".json")["sum"], format!("sha256:{}", sha(Algorithm::Sha256, &body)));

    let (place, image) = (Place::new(), unlisted(&mirror));
    let (result, notices) = place.heard(&image).await;
    result.unwrap();
    assert!(notices[0].contains("no checksum list in the catalogue"), "{notices:?}");
}

#[tokio::test]
async fn what_is_fetched_without_verification_is_judged_when_it_is_on() {
    let body = content(100_000, 6);
    let mirror = Mirror::good(body.clone()).await;
    let place = Place::with(Head::Required, false);
    place.download(&image(&mirror)).await.unwrap();

    let strict = cache(place.directory.path(), Head::Required, true);
    let mut notices = Vec::new();
    let cached = strict.cached(&image(&mirror), None, |update| hear(&mut notices, update)).await;
    assert_eq!(cached.unwrap(), Some(place.path("")));
    assert!(notices[0].contains("its checksum is the publisher's"), "{notices:?}");
    assert_eq!(place.note(".json")["verified"], true);
}

#[tokio::test]
async fn a_short_download_tells_of_its_progress_once() {
    let mirror = Mirror::good(content(100_000, 7)).await;
    let (place, mut updates) = (Place::new(), Vec::new());
    place.cache.download(&image(&mirror), None, |update| updates.push(update)).await.unwrap();
    let [Update::Progress { done: 100_000, total: Some(100_000), rate }] = updates[..] else {
        panic!("{updates:?}")
    };
    assert!(rate > 0);
}
