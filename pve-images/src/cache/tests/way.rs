//! The way to the publisher: certificates and proxies.

use super::crash::Child;
use super::mirror::Asked;
use super::mirror::Reply;
use super::mirror::file;
use super::*;

fn answer(asked: &Asked) -> Reply {
    let body = content(100_000, 1);
    if asked.path.ends_with("/SHA512SUMS") {
        Reply::new(200, list(&body))
    } else {
        file(asked, &body, "1")
    }
}

/// Downloads in a process with these variables; what it printed when that failed.
async fn download(variables: &[(&str, &str)], image: &Image) -> Result<(), String> {
    let place = Place::new();
    let mut child = Child::download_with(variables, place.directory.path(), image);
    if child.ended_well().await {
        assert_eq!(place.endings(), ["", ".json"]);
        return Ok(());
    }
    let printed = tokio::task::spawn_blocking(move || child.printed()).await.unwrap();
    assert_eq!(place.endings(), [""; 0]);
    Err(printed)
}

/// A file with a certificate in it.
fn trusted(certificate: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), certificate).unwrap();
    file
}

#[tokio::test]
async fn a_server_is_believed_only_with_a_certificate_that_the_machine_trusts() {
    let (mirror, certificate) = Mirror::start_tls(answer).await;
    let ours = trusted(&certificate);
    let other = Mirror::start_tls(answer).await.1;
    let others = trusted(&other);
    let image = image(&mirror);
    download(&[("SSL_CERT_FILE", ours.path().to_str().unwrap())], &image).await.unwrap();

    let said =
        download(&[("SSL_CERT_FILE", others.path().to_str().unwrap())], &image).await.unwrap_err();
    assert!(
        said.contains("no whole answer: ") && said.contains("invalid peer certificate"),
        "{said}"
    );
}

#[tokio::test]
async fn without_any_certificate_only_http_works_and_https_says_why() {
    let empty = tempfile::tempdir().unwrap();
    let nothing =
        [("SSL_CERT_FILE", "/dev/null"), ("SSL_CERT_DIR", empty.path().to_str().unwrap())];
    let (secure, _) = Mirror::start_tls(answer).await;
    let said = download(&nothing, &image(&secure)).await.unwrap_err();
    assert!(
        said.contains("no certificate can be verified on this machine; install ca-certificates"),
        "{said}"
    );
    let plain = Mirror::start(answer).await;
    download(&nothing, &image(&plain)).await.unwrap();
}

#[tokio::test]
async fn a_redirect_from_https_to_http_is_not_followed() {
    let plain = Mirror::start(answer).await;
    let (there, sums) = (plain.url(NAME), plain.url("SHA512SUMS"));
    let (mirror, certificate) = Mirror::start_tls(move |asked| {
        let location = if asked.path == "/SHA512SUMS" { &sums } else { &there };
        Reply::new(302, "").header("Location", location.as_str())
    })
    .await;
    let ours = trusted(&certificate);
    let said = download(&[("SSL_CERT_FILE", ours.path().to_str().unwrap())], &image(&mirror)).await;
    let said = said.unwrap_err();
    assert!(said.contains("sends us from https to http"), "{said}");
    assert!(plain.asked("GET", "/SHA512SUMS").is_empty());
}

#[tokio::test]
async fn the_proxy_of_the_environment_is_used_but_not_for_this_machine() {
    let proxy = Mirror::start(answer).await;
    let variable = format!("http://{}", proxy.address());
    let variables = [("http_proxy", variable.as_str()), ("NO_PROXY", ""), ("no_proxy", "")];
    let away = |name: &str| format!("http://192.0.2.1/{name}");
    let image = Image {
        url: away(NAME).parse().unwrap(),
        sums: Some(away("SHA512SUMS").parse().unwrap()),
        ..some_image()
    };
    download(&variables, &image).await.unwrap();
    assert_eq!(proxy.asked("GET", &away(NAME)).len(), 1);

    let here = Mirror::start(answer).await;
    download(&variables, &super::image(&here)).await.unwrap();
    assert_eq!(here.downloads(), 1);
    assert_eq!(proxy.asked("GET", here.url(NAME).as_str()).len(), 0);
}
