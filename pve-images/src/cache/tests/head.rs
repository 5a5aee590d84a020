//! The question before the download.

use super::mirror::Asked;
use super::mirror::Reply;
use super::mirror::file;
use super::*;

/// Asks a mirror that answers so.
async fn ask(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Result<Remote, String> {
    let mirror = Mirror::start(answer).await;
    let result = Place::new().cache.head(&image(&mirror)).await;
    result.map_err(|error| text(&error, &mirror))
}

#[tokio::test]
async fn a_server_that_refuses_the_method_is_asked_for_one_byte() {
    for status in [403, 405, 501] {
        let remote = ask(move |asked| {
            if asked.method == "HEAD" {
                return Reply::new(status, "");
            }
            assert_eq!(asked.header("range"), Some("bytes=0-0"));
            file(asked, &content(5000, 1), "1")
        });
        let expected =
            Remote { length: Some(5000), etag: Some("\"1\"".to_owned()), last_modified: None };
        assert_eq!(remote.await, Ok(expected), "{status}");
    }
}

#[tokio::test]
async fn a_server_that_knows_neither_head_nor_ranges_is_believed_its_length() {
    let remote = ask(|asked| match asked.method.as_str() {
        "HEAD" => Reply::new(405, ""),
        _ => Reply::new(200, content(5000, 1)),
    });
    assert_eq!(remote.await.unwrap().length, Some(5000));
}

#[tokio::test]
async fn any_other_answer_is_an_error_that_names_it() {
    let mut said = Vec::new();
    for (head, get) in [(404, 200), (410, 200), (500, 200), (204, 200), (403, 403), (405, 404)] {
        let result =
            ask(move |asked| Reply::new(if asked.method == "HEAD" { head } else { get }, ""));
        said.push(result.await.unwrap_err());
    }
    insta::assert_snapshot!(said.join("\n"), @"
    HEAD http://mirror/small-1-amd64.qcow2: answered 404 Not Found; the publisher has moved the file: give the new address in IMAGES_FILE
    HEAD http://mirror/small-1-amd64.qcow2: answered 410 Gone; the publisher has moved the file: give the new address in IMAGES_FILE
    HEAD http://mirror/small-1-amd64.qcow2: answered 500 Internal Server Error; the publisher's server is in trouble, try again later
    HEAD http://mirror/small-1-amd64.qcow2: answered 204 No Content
    GET http://mirror/small-1-amd64.qcow2: answered 403 Forbidden; the server or a proxy before it lets nobody in from here
    GET http://mirror/small-1-amd64.qcow2: answered 404 Not Found; the publisher has moved the file: give the new address in IMAGES_FILE
    ");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_waited_for_and_no_longer() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/{NAME}", listener.local_addr().unwrap());
    let silent = Image { url: url.parse().unwrap(), ..some_image() };
    let limits = Limits { head: Duration::from_millis(300), ..limits() };
    let error = Place::limited(limits).cache.head(&silent).await.unwrap_err();
    assert!(matches!(error, Error::Late { method: "HEAD", .. }), "{error:?}");
    assert!(error.to_string().contains("no answer within 0.3 s"), "{error}");
    assert_eq!(Limits::default().head, Duration::from_secs(15));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_with_the_cause() {
    let url = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/{NAME}", listener.local_addr().unwrap())
    };
    let error = Place::new()
        .cache
        .head(&Image { url: url.parse().unwrap(), ..some_image() })
        .await
        .unwrap_err();
    let said = with_causes(&error);
    assert!(said.starts_with(&format!("HEAD {url}: no whole answer: ")), "{said}");
    assert!(said.contains("Connection refused"), "{said}");
    assert_eq!(said.matches(&url).count(), 1, "{said}");
}

#[tokio::test]
async fn a_redirect_in_circles_ends() {
    let said = ask(|_| Reply::new(302, "").header("Location", "/round")).await.unwrap_err();
    assert!(said.contains("round in circles"), "{said}");
}

#[tokio::test]
async fn a_whole_cached_image_passes_without_an_answer_only_when_told_so() {
    let body = content(50_000, 1);
    let mirror = Mirror::good(body).await;
    let image = image(&mirror);
    let strict = Place::new();
    strict.download(&image).await.unwrap();
    let lenient = cache(strict.directory.path(), Head::Optional, true);
    let fresh = Place::with(Head::Optional, true);

    let answered = lenient.validate(&image, |update| panic!("{update:?}")).await.unwrap();
    assert_eq!(answered.unwrap().length, Some(50_000));
    drop(mirror);
    let mut notices = Vec::new();
    let passed = lenient.validate(&image, |update| hear(&mut notices, update)).await.unwrap();
    assert_eq!(passed, None);
    assert!(notices[0].contains("the whole image in the cache is used"), "{notices:?}");
    let cached = lenient.cached(&image, None, |update| panic!("{update:?}")).await.unwrap();
    assert_eq!(cached, Some(strict.path("")));

    strict.cache.validate(&image, |_| {}).await.unwrap_err();
    fresh.cache.validate(&image, |_| {}).await.unwrap_err();
    // A file that is not known to be whole does not pass.
    std::fs::write(strict.path(""), content(50_000, 2)).unwrap();
    lenient.validate(&image, |_| {}).await.unwrap_err();
}
