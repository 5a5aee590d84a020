//! Bad days of the publisher and of the way to it.

use super::mirror::Asked;
use super::mirror::Framing;
use super::mirror::Reply;
use super::mirror::file;
use super::*;

/// A mirror with a fitting list, and a function for the image.
async fn mirror(
    body: &[u8],
    answer: impl Fn(&Asked, &[u8]) -> Reply + Send + Sync + 'static,
) -> Mirror {
    let body = body.to_vec();
    Mirror::start(move |asked| match asked.path.as_str() {
        "/SHA512SUMS" => Reply::new(200, list(&body)),
        _ => answer(asked, &body),
    })
    .await
}

fn ranges(mirror: &Mirror) -> Vec<Option<String>> {
    let asked = mirror.asked("GET", &format!("/{NAME}"));
    asked.iter().map(|asked| asked.header("range").map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_cut_download_goes_on_where_it_was_cut() {
    let body = content(1_000_000, 1);
    for framing in [Framing::Length, Framing::Chunked] {
        let mirror = mirror(&body, move |asked, body| {
            let reply = file(asked, body, "1").framing(framing);
            if asked.before == 0 { reply.cut(300_000) } else { reply }
        })
        .await;
        let (place, image) = (Place::new(), image(&mirror));
        let (result, notices) = place.heard(&image).await;
        assert_eq!(std::fs::read(result.unwrap()).unwrap(), body);
        assert!(notices[0].contains("broke off at 300000 bytes ("), "{notices:?}");
        assert_eq!(ranges(&mirror), [None, Some("bytes=300000-".to_owned())], "{framing:?}");
        assert_eq!(mirror.asked("GET", &format!("/{NAME}"))[1].header("if-range"), Some("\"1\""));
    }
}

#[tokio::test]
async fn a_server_that_falls_silent_is_left_and_asked_again() {
    let limits = Limits { read: Duration::from_millis(300), ..limits() };
    let body = content(500_000, 2);
    let mirror = mirror(&body, |asked, body| {
        let reply = file(asked, body, "1");
        if asked.before == 0 { Reply { stall: Some(200_000), ..reply } } else { reply }
    })
    .await;
    let place = Place::limited(limits);
    assert_eq!(place.download(&image(&mirror)).await.unwrap(), body);
    assert_eq!(ranges(&mirror)[1].as_deref(), Some("bytes=200000-"));
    assert_eq!(Limits::default().read, Duration::from_secs(30));
}

#[tokio::test]
async fn what_came_of_a_download_that_failed_is_gone_on_from_by_the_next_run() {
    let body = content(1_000_000, 3);
    let mirror = mirror(&body, |asked, body| {
        let reply = file(asked, body, "1");
        if asked.before < 4 { reply.cut(100_000) } else { reply }
    })
    .await;
    let (place, image) = (Place::new(), image(&mirror));

    let error = place.download(&image).await.unwrap_err();
    let said = text(&error, &mirror);
    insta::assert_snapshot!(said, @"GET http://mirror/small-1-amd64.qcow2: broke off 4 times, the last time at 400000 of 1000000 bytes; the next try goes on from there: end of file before message length reached");
    assert_eq!(place.endings(), [".part", ".part.json"]);
    assert_eq!(std::fs::metadata(place.path(".part")).unwrap().len(), 400_000);

    let (result, notices) = place.heard(&image).await;
    assert_eq!(std::fs::read(result.unwrap()).unwrap(), body);
    assert!(notices[0].starts_with("400000 bytes of "), "{notices:?}");
    assert_eq!(ranges(&mirror)[4].as_deref(), Some("bytes=400000-"));
    assert_eq!(place.endings(), ["", ".json"]);
}

#[tokio::test]
async fn a_server_without_ranges_sends_the_whole_file_again() {
    let body = content(400_000, 4);
    let mirror = mirror(&body, |asked, body| {
        let reply = Reply::new(200, body).header("ETag", "\"1\"");
        if asked.before == 0 { reply.cut(100_000) } else { reply }
    })
    .await;
    assert_eq!(Place::new().download(&image(&mirror)).await.unwrap(), body);
    assert_eq!(mirror.downloads(), 2);
}

#[tokio::test]
async fn without_a_mark_nothing_is_gone_on_from() {
    let body = content(400_000, 5);
    for mark in [None, Some("W/\"1\"")] {
        let mirror = mirror(&body, move |asked, body| {
            let mut reply = Reply::new(200, body);
            reply.headers.extend(mark.map(|mark| ("ETag", mark.to_owned())));
            if asked.before == 0 { reply.cut(100_000) } else { reply }
        })
        .await;
        assert_eq!(Place::new().download(&image(&mirror)).await.unwrap(), body);
        assert_eq!(ranges(&mirror), [None, None]);
    }
}

#[tokio::test]
async fn an_image_that_was_changed_meanwhile_is_fetched_from_its_beginning() {
    let (old, new) = (content(400_000, 6), content(400_000, 7));
    // The second server state is asked by a server that heeds If-Range, then by one that does not.
    for heeds in [true, false] {
        let (old, new) = (old.clone(), new.clone());
        let (listed, expected) = (new.clone(), new.clone());
        let mirror = mirror(&listed, move |asked, _| {
            if asked.before == 0 {
                return file(asked, &old, "old").cut(100_000);
            }
            let mut asked = asked.clone();
            if !heeds {
                asked.headers.remove("if-range");
            }
            file(&asked, &new, "new")
        })
        .await;
        assert_eq!(Place::new().download(&image(&mirror)).await.unwrap(), expected, "{heeds}");
        assert_eq!(
            mirror.asked("GET", "/SHA512SUMS").len(),
            1,
            "seen at once, not by the checksum"
        );
    }
}

#[tokio::test]
async fn a_server_in_trouble_is_asked_again_and_a_missing_file_is_not() {
    let body = content(50_000, 8);
    let troubled =
        mirror(
            &body,
            |asked, body| {
                if asked.before < 2 { Reply::new(503, "") } else { file(asked, body, "1") }
            },
        )
        .await;
    let (result, notices) = Place::new().heard(&image(&troubled)).await;
    result.unwrap();
    assert!(notices[0].contains("answered 503 Service Unavailable"), "{notices:?}");

    let missing = mirror(&body, |_, _| Reply::new(404, "")).await;
    let place = Place::new();
    let error = place.download(&image(&missing)).await.unwrap_err();
    insta::assert_snapshot!(text(&error, &missing), @"GET http://mirror/small-1-amd64.qcow2: answered 404 Not Found; the publisher has moved the file: give the new address in IMAGES_FILE");
    assert_eq!(missing.downloads(), 1);
    assert_eq!(place.endings(), [""; 0]);
}

#[tokio::test]
async fn a_web_page_in_place_of_the_image_is_left_early() {
    let page = format!("<!DOCTYPE html><html>{}</html>", " ".repeat(30_000_000));
    let length = page.len();
    let mirror = mirror(page.as_bytes(), |asked, page| file(asked, page, "1")).await;
    let place = Place::new();
    let mut most = 0;
    let error = place
        .cache
        .download(&image(&mirror), None, |update| {
            if let Update::Progress { done, .. } = update {
                most = done;
            }
        })
        .await
        .unwrap_err();
    assert!(most < length as u64);
    insta::assert_snapshot!(text(&error, &mirror), @"http://mirror/small-1-amd64.qcow2 is not a qcow2 image that can be used: it is a web page, perhaps that of a proxy or a login portal");
    assert_eq!(place.endings(), [""; 0], "its checksum fits, it is no image all the same");
}

#[tokio::test]
async fn an_image_that_leads_to_another_file_is_refused() {
    let mut body = content(50_000, 9);
    body[15] = 200;
    let mirror = mirror(&body, |asked, body| file(asked, body, "1")).await;
    let place = Place::new();
    let error = place.download(&image(&mirror)).await.unwrap_err();
    assert!(
        matches!(error, Error::NotAnImage { reason: "it needs a backing file", .. }),
        "{error}"
    );
    assert_eq!(place.endings(), [""; 0]);
}

#[tokio::test]
async fn a_body_that_is_not_as_long_as_announced_never_gets_the_name() {
    let body = content(100_000, 10);
    // The head announces more than the body; then the connection ends.
    let longer = mirror(&body, |asked, body| {
        let mut reply = file(asked, body, "1").cut(100_000);
        reply.headers.push(("Content-Length", "100001".to_owned()));
        reply
    })
    .await;
    let place = Place::new();
    let error = place.download(&image(&longer)).await.unwrap_err();
    assert!(matches!(error, Error::Interrupted { total: Some(100_001), .. }), "{error:?}");
    assert!(!place.path("").exists());

    // Without a checksum, the length of HEAD judges what ends with its connection.
    let shorter = mirror(&body, |asked, body| match asked.method.as_str() {
        "HEAD" => Reply::new(200, body),
        _ => Reply::new(200, &body[..60_000]).framing(Framing::Close),
    })
    .await;
    let place = Place::with(Head::Required, false);
    let remote = place.cache.head(&image(&shorter)).await.unwrap();
    let error = place.cache.download(&image(&shorter), Some(&remote), |_| {}).await.unwrap_err();
    insta::assert_snapshot!(text(&error, &shorter), @"GET http://mirror/small-1-amd64.qcow2: 60000 bytes came where 100000 were announced; the publisher's server or a proxy before it is at fault, try again later");
    assert_eq!(place.endings(), [""; 0]);
    let error = place.download(&image(&shorter)).await.unwrap_err();
    assert!(matches!(error, Error::Unjudgeable { .. }), "{error:?}");
}

/// A mirror that gives `images` and `lists` one after the other, the last again and again.
async fn moving(images: [Vec<u8>; 2], lists: [Vec<u8>; 2]) -> Mirror {
    Mirror::start(move |asked| match asked.path.as_str() {
        "/SHA512SUMS" => Reply::new(200, list(&lists[asked.before.min(1)])),
        _ => file(asked, &images[asked.before.min(1)], &format!("{}", asked.before.min(1))),
    })
    .await
}

#[tokio::test]
async fn a_wrong_checksum_is_looked_at_once_more() {
    let (old, new) = (content(100_000, 11), content(100_000, 12));
    let cases = [
        ("the image was damaged once", [old.clone(), new.clone()], [new.clone(), new.clone()], 2),
        ("the list was behind", [new.clone(), new.clone()], [old.clone(), new.clone()], 1),
        ("both moved on", [old.clone(), new.clone()], [content(9, 13), new.clone()], 2),
    ];
    for (why, images, lists, downloads) in cases {
        let mirror = moving(images, lists).await;
        let place = Place::new();
        let (result, notices) = place.heard(&image(&mirror)).await;
        assert_eq!(std::fs::read(result.unwrap()).unwrap(), new, "{why}");
        assert!(notices[0].contains("both are fetched once more"), "{notices:?}");
        assert_eq!(mirror.downloads(), downloads, "{why}");
        assert_eq!(mirror.asked("GET", "/SHA512SUMS").len(), 2, "{why}");
        assert_eq!(mirror.asked("GET", "/SHA512SUMS")[1].header("cache-control"), Some("no-cache"));
    }
}

#[tokio::test]
async fn a_checksum_that_never_fits_is_an_error_that_names_both() {
    let (served, listed) = (content(100_000, 14), content(100_000, 15));
    let mirror = moving([served.clone(), served.clone()], [listed.clone(), listed.clone()]).await;
    let place = Place::new();
    let error = place.download(&image(&mirror)).await.unwrap_err();
    let said = text(&error, &mirror)
        .replace(&sha(Algorithm::Sha512, &served), "<served>")
        .replace(&sha(Algorithm::Sha512, &listed), "<listed>");
    insta::assert_snapshot!(said, @"http://mirror/small-1-amd64.qcow2 has the checksum sha512:<served>, but http://mirror/SHA512SUMS says sha512:<listed>; both were fetched twice, so the mirror is damaged or just being changed: try again later");
    assert_eq!(mirror.downloads(), 2);
    assert_eq!(place.endings(), [""; 0]);
}

#[tokio::test]
async fn a_part_that_was_spoilt_is_found_out_and_fetched_anew() {
    let body = content(400_000, 16);
    let mirror = mirror(&body, |asked, body| {
        let reply = file(asked, body, "1");
        if asked.before < 4 { reply.cut(20_000) } else { reply }
    })
    .await;
    let (place, image) = (Place::new(), image(&mirror));
    place.download(&image).await.unwrap_err();
    let mut part = std::fs::read(place.path(".part")).unwrap();
    part[30_000] ^= 1;
    std::fs::write(place.path(".part"), part).unwrap();
    assert_eq!(place.download(&image).await.unwrap(), body);
    assert_eq!(ranges(&mirror)[4..], [Some("bytes=80000-".to_owned()), None]);
}

#[tokio::test]
async fn a_list_that_is_of_no_use_is_named_before_anything_is_downloaded() {
    let mut said = Vec::new();
    for reply in [
        Reply::new(404, ""),
        Reply::new(200, "<html>Please log in</html>"),
        Reply::new(200, list(&content(1000, 17))).cut(20),
    ] {
        let mirror = Mirror::start(move |asked| match asked.path.as_str() {
            "/SHA512SUMS" => reply.clone(),
            _ => file(asked, &content(1000, 17), "1"),
        })
        .await;
        let place = Place::new();
        let error = place.download(&image(&mirror)).await.unwrap_err();
        said.push(text(&error, &mirror));
        assert_eq!(mirror.downloads(), 0);
        assert_eq!(place.endings(), [""; 0]);
    }
    insta::assert_snapshot!(said.join("\n"), @"
    GET http://mirror/SHA512SUMS: answered 404 Not Found; the publisher has moved the file: give the new address in IMAGES_FILE
    the checksum list http://mirror/SHA512SUMS has no SHA-256 or SHA-512 line for small-1-amd64.qcow2; correct 'sums' of the image, or do without (IMAGE_VERIFY=off)
    GET http://mirror/SHA512SUMS: no whole answer: end of file before message length reached
    ");
}
