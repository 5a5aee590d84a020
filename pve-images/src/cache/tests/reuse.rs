//! Files that are there already.

use super::mirror::Reply;
use super::mirror::file;
use super::*;

/// A mirror with its image in a cache.
async fn stored(body: &[u8]) -> (Mirror, Place, Image) {
    let mirror = Mirror::good(body.to_vec()).await;
    let (place, image) = (Place::new(), image(&mirror));
    place.download(&image).await.unwrap();
    (mirror, place, image)
}

fn touch(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
}

#[tokio::test]
async fn a_file_whose_time_changed_is_hashed_again_without_the_publisher() {
    let body = content(300_000, 1);
    let (mirror, place, image) = stored(&body).await;
    touch(&place.path(""));
    let (path, notices) = place.cached(&image).await;
    assert_eq!(path, Some(place.path("")));
    assert!(notices[0].contains("has changed since it was stored"), "{notices:?}");
    assert_eq!(mirror.asked("GET", "/SHA512SUMS").len(), 1, "only that of the download");
    assert_eq!(place.cached(&image).await, (Some(place.path("")), vec![]), "noted again");
}

#[tokio::test]
async fn a_file_that_was_changed_is_downloaded_anew() {
    let body = content(300_000, 2);
    for spoil in [
        |bytes: &mut Vec<u8>| bytes.truncate(200_000),
        |bytes: &mut Vec<u8>| bytes[200_000] ^= 1,
        |bytes: &mut Vec<u8>| bytes[0] = b'X',
        |bytes: &mut Vec<u8>| bytes.clear(),
    ] {
        let (mirror, place, image) = stored(&body).await;
        let mut bytes = body.clone();
        spoil(&mut bytes);
        std::fs::write(place.path(""), bytes).unwrap();
        touch(&place.path(""));
        let (path, notices) = place.cached(&image).await;
        assert_eq!(path, None);
        assert!(notices.last().unwrap().contains("it is downloaded anew"), "{notices:?}");
        assert!(place.path("").exists(), "the old file stays until the new one is whole");
        assert_eq!(place.download(&image).await.unwrap(), body);
        assert_eq!(mirror.downloads(), 2);
        assert_eq!(place.endings(), ["", ".json"]);
    }
}

#[tokio::test]
async fn a_newer_image_of_the_publisher_does_not_replace_a_cached_one() {
    let (old, new) = (content(100_000, 3), content(120_000, 4));
    let (_mirror, place, image) = stored(&old).await;
    let newer = Mirror::good(new).await;
    // The same address: the note is what knows it.
    let note = std::fs::read_to_string(place.path(".json")).unwrap();
    let moved = super::image(&newer);
    std::fs::write(place.path(".json"), note.replace(image.url.as_str(), moved.url.as_str()))
        .unwrap();
    assert_eq!(place.cached(&moved).await, (Some(place.path("")), vec![]));
    std::fs::remove_file(place.path("")).unwrap();
    assert_eq!(
        place.cached(&moved).await,
        (None, vec![]),
        "an admin deletes the file to have the new one"
    );
}

#[tokio::test]
async fn a_file_that_somebody_put_there_is_used_when_its_checksum_is_listed() {
    let body = content(300_000, 5);
    let mirror = Mirror::good(body.clone()).await;
    let (place, image) = (Place::new(), image(&mirror));
    std::fs::write(place.path(""), &body).unwrap();
    let (path, notices) = place.cached(&image).await;
    assert_eq!(path, Some(place.path("")));
    assert_eq!(
        notices,
        [format!("{NAME} was there already and is used: its checksum is the publisher's")]
    );
    assert_eq!(mirror.downloads(), 0);
    assert_eq!(place.note(".json")["verified"], true);
    assert_eq!(place.endings(), ["", ".json"]);
    assert_eq!(place.cached(&image).await, (Some(place.path("")), vec![]));
}

#[tokio::test]
async fn a_file_that_somebody_put_there_is_not_used_when_its_checksum_is_not_listed() {
    let body = content(300_000, 6);
    let mirror = Mirror::good(body.clone()).await;
    let (place, image) = (Place::new(), image(&mirror));
    std::fs::write(place.path(""), content(300_000, 7)).unwrap();
    let (path, notices) = place.cached(&image).await;
    assert_eq!(path, None);
    assert!(notices[0].contains("was there already but is not used"), "{notices:?}");
    assert_eq!(place.cached(&image).await, (None, notices), "found out once, told each time");
    assert_eq!(mirror.asked("GET", "/SHA512SUMS").len(), 1);
    assert_eq!(place.download(&image).await.unwrap(), body);
}

#[tokio::test]
async fn without_a_list_the_length_decides_over_a_file_that_was_there() {
    let body = content(300_000, 8);
    let mirror = Mirror::good(body.clone()).await;
    for (length, html, fits) in
        [(300_000, false, true), (299_999, false, false), (300_000, true, false)]
    {
        for place in [Place::with(Head::Required, false), Place::new()] {
            let image = unlisted(&mirror);
            let mut there = content(length, 9);
            if html {
                there[..15].copy_from_slice(b"<!doctype html>");
            }
            std::fs::write(place.path(""), there).unwrap();
            let (path, notices) = place.cached(&image).await;
            assert_eq!(path.is_some(), fits, "{length} {html}: {notices:?}");
            let word = if fits { "its length is the publisher's" } else { "it is downloaded anew" };
            assert!(notices[0].contains(word), "{notices:?}");
        }
    }
    let place = Place::with(Head::Required, false);
    std::fs::write(place.path(""), &body).unwrap();
    let unknown = place.cache.cached(&unlisted(&mirror), None, |_| {}).await.unwrap();
    assert_eq!(unknown, None, "without a length nothing can be judged");
}

#[tokio::test]
async fn a_file_of_another_address_is_judged_by_the_list_of_this_one() {
    let (one, other) = (content(100_000, 10), content(100_000, 11));
    let (_mirror, place, _) = stored(&one).await;
    let same = Mirror::good(one).await;
    let (path, _) = place.cached(&image(&same)).await;
    assert_eq!(path, Some(place.path("")), "a mirror with the same image");
    let different = Mirror::good(other.clone()).await;
    assert_eq!(place.cached(&image(&different)).await.0, None);
    assert_eq!(place.download(&image(&different)).await.unwrap(), other);
}

#[tokio::test]
async fn notes_that_are_damaged_are_as_good_as_none() {
    let body = content(100_000, 12);
    for note in ["", "{", "{\"url\": 5}", "null"] {
        let (mirror, place, image) = stored(&body).await;
        std::fs::write(place.path(".json"), note).unwrap();
        assert_eq!(place.cached(&image).await.0, Some(place.path("")));
        assert_eq!(mirror.downloads(), 1);
    }
    // Of a part: its bytes are of no known file, so that all are fetched.
    let mirror = Mirror::start(move |asked| match asked.path.as_str() {
        "/SHA512SUMS" => Reply::new(200, list(&body)),
        _ => file(asked, &body, "1"),
    })
    .await;
    let place = Place::new();
    std::fs::write(place.path(".part"), content(500, 13)).unwrap();
    std::fs::write(place.path(".part.json"), "{").unwrap();
    place.download(&image(&mirror)).await.unwrap();
    assert_eq!(place.endings(), ["", ".json"]);
}
