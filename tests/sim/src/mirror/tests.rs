//! The mirror, seen through curl.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use tempfile::TempDir;
use tokio::process::Command;

use super::CloudImage;
use super::Content;
use super::Fault;
use super::Mirror;
use super::Sums;
use super::Times;
use super::cloud_images;
use crate::testing::until;

const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What curl exits with when the body was shorter than the server had said.
const PARTIAL_FILE: i32 = 18;
/// What curl exits with when its time is over.
const TIMED_OUT: i32 = 28;

struct Stage {
    mirror: Mirror,
    directory: TempDir,
}

struct Fetched {
    exit: Option<i32>,
    status: String,
    headers: String,
    body: Vec<u8>,
}

impl Stage {
    async fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mirror = Mirror::start(HOME, &directory.path().join("mirror")).await.unwrap();
        Self { mirror, directory }
    }

    /// A mirror with one image.
    async fn with(content: Content) -> (Self, CloudImage) {
        let stage = Self::empty().await;
        let image = cloud_images().remove(1);
        stage.mirror.add(image.clone(), content).await.unwrap();
        (stage, image)
    }

    async fn small() -> (Self, CloudImage) {
        Self::with(Content::Noise { bytes: 200_000, edition: 0 }).await
    }

    async fn curl(&self, arguments: &[&str], path: &str) -> Fetched {
        let [headers, body] = ["headers", "body"].map(|name| self.directory.path().join(name));
        std::fs::write(&body, b"").unwrap();
        let output = Command::new("curl")
            .args(["--silent", "--noproxy", "*", "--max-time", "20", "--write-out", "%{http_code}"])
            .args(arguments)
            .arg("--dump-header")
            .arg(&headers)
            .arg("--output")
            .arg(&body)
            .arg(format!("{}{path}", self.mirror.url()))
            .output()
            .await
            .unwrap();
        Fetched {
            exit: output.status.code(),
            status: String::from_utf8(output.stdout).unwrap(),
            headers: std::fs::read_to_string(headers).unwrap_or_default().to_lowercase(),
            body: std::fs::read(body).unwrap(),
        }
    }

    fn file(&self, image: &CloudImage) -> Vec<u8> {
        std::fs::read(self.mirror.file(&image.path).unwrap()).unwrap()
    }
}

impl Fetched {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .map(str::trim)
    }
}

fn tool(name: &str, directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output =
        std::process::Command::new(name).current_dir(directory).args(arguments).output().unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
    )
}

#[tokio::test]
async fn every_image_of_the_catalogue_passes_its_publishers_checksum_list() {
    let directory = tempfile::tempdir().unwrap();
    let mirror = Mirror::with_catalogue(HOME, directory.path()).await.unwrap();
    let stage = Stage { mirror, directory: tempfile::tempdir().unwrap() };
    for image in cloud_images() {
        let fetched = stage.curl(&[], &image.path).await;
        assert_eq!(
            (fetched.status.as_str(), &fetched.body[..4]),
            ("200", &b"QFI\xfb"[..]),
            "{}",
            image.path
        );
        let list = stage.curl(&[], &image.sums_path()).await;
        let name = image.file_name();
        let here = stage.directory.path();
        std::fs::write(here.join(name), &fetched.body).unwrap();
        std::fs::write(here.join("list"), &list.body).unwrap();
        let program = if image.sums == Sums::Sha512 { "sha512sum" } else { "sha256sum" };
        let (exit, told) = tool(program, here, &["--check", "--ignore-missing", "list"]);
        assert_eq!(exit, Some(0), "{told}");
        assert!(told.contains(&format!("{name}: OK")), "{told}");
        let (_, told) = tool("qemu-img", here, &["info", "--output=json", name]);
        assert!(told.contains(&format!("\"virtual-size\": {}", image.virtual_size)), "{told}");
    }
    let toml: toml::Table = stage.mirror.images_toml().parse().unwrap();
    assert_eq!(toml["image"].as_array().unwrap().len(), cloud_images().len());
}

#[tokio::test]
async fn the_checksum_lists_look_like_their_publishers() {
    let stage = Stage::empty().await;
    let mut lists = String::new();
    for sums in [Sums::Sha512, Sums::Sha256, Sums::Bsd] {
        let mut image = cloud_images().remove(0);
        image.path = format!("/{sums:?}/a.img");
        image.sums = sums;
        image.virtual_size = 1024 * 1024;
        stage.mirror.add(image.clone(), Content::Holes(0)).await.unwrap();
        let list = stage.curl(&[], &image.sums_path()).await;
        lists.push_str(str::from_utf8(&list.body).unwrap());
    }
    insta::with_settings!({filters => [("[0-9a-f]{128}", "[512 bits]"), ("[0-9a-f]{64}", "[256 bits]")]}, {
        insta::assert_snapshot!(lists, @r#"
        [512 bits]  a.img.json
        [512 bits]  a.img
        [256 bits] *a.img.manifest
        [256 bits] *a.img
        # a.img.img: 1 bytes
        SHA256 (a.img.img) = [256 bits]
        # a.img: 262144 bytes
        SHA256 (a.img) = [256 bits]
        "#);
    });
}

#[tokio::test]
async fn head_and_get_tell_the_same_and_a_download_can_be_resumed() {
    let (stage, image) = Stage::small().await;
    let whole = stage.file(&image);
    let head = stage.curl(&["--head"], &image.path).await;
    assert_eq!(
        (head.status.as_str(), head.header("content-length")),
        ("200", Some(&*whole.len().to_string()))
    );
    let get = stage.curl(&[], &image.path).await;
    for name in ["content-length", "etag", "last-modified", "accept-ranges"] {
        assert!(get.header(name).is_some(), "{name}");
        assert_eq!(get.header(name), head.header(name));
    }
    assert!(get.body == whole);

    let etag = format!("If-Range: {}", get.header("etag").unwrap());
    let rest = stage.curl(&["--range", "1000-", "--header", &etag], &image.path).await;
    assert_eq!(rest.status, "206");
    assert!(rest.body == whole[1000..]);
    assert_eq!(
        rest.header("content-range"),
        Some(&*format!("bytes 1000-{}/{}", whole.len() - 1, whole.len()))
    );

    let other =
        stage.curl(&["--range", "1000-", "--header", "If-Range: \"other\""], &image.path).await;
    assert_eq!(other.status, "200");
    assert!(other.body == whole);
    assert_eq!(stage.curl(&["--range", "999999999-"], &image.path).await.status, "416");
}

#[tokio::test]
async fn an_image_that_is_published_anew_has_other_bytes_sums_and_validators() {
    let (stage, image) = Stage::small().await;
    let [old, old_list] =
        [stage.curl(&[], &image.path).await, stage.curl(&[], &image.sums_path()).await];
    stage.mirror.add(image.clone(), Content::Noise { bytes: 200_000, edition: 1 }).await.unwrap();
    let [new, new_list] =
        [stage.curl(&[], &image.path).await, stage.curl(&[], &image.sums_path()).await];
    assert_eq!(old.body.len(), new.body.len());
    assert!(old.body != new.body && old_list.body != new_list.body);
    assert_ne!(old.header("etag"), new.header("etag"));
    assert_eq!(stage.mirror.images().len(), 1);
}

#[tokio::test]
async fn every_fault_shows_itself_to_curl() {
    type Row<'a> = (Vec<Fault>, &'a [&'a str], &'a str, i32, usize);
    let (stage, image) = Stage::small().await;
    let whole = stage.file(&image);
    let share = whole.len() * 30 / 100;
    let rows: [Row<'_>; 13] = [
        (vec![Fault::Status(404)], &[], "404", 0, 14),
        (vec![Fault::Status(500)], &["--head"], "500", 0, 0),
        (vec![Fault::HeadStatus(403)], &["--head"], "403", 0, 0),
        (vec![Fault::HeadStatus(405)], &[], "200", 0, whole.len()),
        (vec![Fault::Hang], &["--max-time", "1"], "000", TIMED_OUT, 0),
        (vec![Fault::Cut(30)], &[], "200", PARTIAL_FILE, share),
        (vec![Fault::Cut(30), Fault::Chunked], &[], "200", PARTIAL_FILE, share),
        (vec![Fault::Stall(30)], &["--max-time", "1"], "200", TIMED_OUT, share),
        (vec![Fault::Short(30)], &[], "200", 0, share),
        (vec![Fault::Chunked], &[], "200", 0, whole.len()),
        (vec![Fault::Corrupt], &[], "200", 0, whole.len()),
        (vec![Fault::NoRanges], &["--range", "5-"], "200", 0, whole.len()),
        (vec![Fault::Redirect("/elsewhere".to_owned())], &["--location"], "404", 0, 14),
    ];
    for (faults, arguments, status, exit, length) in rows {
        for fault in &faults {
            stage.mirror.plant(image.file_name(), fault.clone(), Times::Always);
        }
        let fetched = stage.curl(arguments, &image.path).await;
        stage.mirror.clear_faults();
        let length_told = if arguments == ["--head"] { 0 } else { fetched.body.len() };
        assert_eq!(
            (fetched.status.as_str(), fetched.exit, length_told),
            (status, Some(exit), length),
            "{faults:?}"
        );
        assert_eq!(fetched.header("transfer-encoding").is_some(), faults.contains(&Fault::Chunked));
        let same = whole.starts_with(&fetched.body);
        assert_eq!(
            same,
            status != "404" && !faults.contains(&Fault::Corrupt) && arguments != ["--head"],
            "{faults:?}"
        );
    }
    assert!(stage.curl(&[], &image.path).await.body == whole);
}

#[tokio::test]
async fn a_portal_answers_everything_with_its_page() {
    let (stage, image) = Stage::small().await;
    stage.mirror.plant("", Fault::Html, Times::Always);
    let fetched = stage.curl(&[], &image.path).await;
    assert_eq!(
        (fetched.status.as_str(), fetched.header("content-type")),
        ("200", Some("text/html"))
    );
    assert!(fetched.body.starts_with(b"<!DOCTYPE html>"));
}

#[tokio::test]
async fn a_fault_that_is_planted_once_happens_once() {
    let (stage, image) = Stage::small().await;
    stage.mirror.plant("SHA512SUMS", Fault::OtherSums, Times::ONCE);
    let mistaken = stage.curl(&[], &image.sums_path()).await;
    let right = stage.curl(&[], &image.sums_path()).await;
    assert_eq!(mistaken.body.len(), right.body.len());
    assert!(mistaken.body != right.body);
    assert!(stage.curl(&[], &image.sums_path()).await.body == right.body);
}

#[tokio::test]
async fn a_slow_mirror_takes_the_time_that_it_should() {
    let (stage, image) = Stage::small().await;
    let length = stage.file(&image).len() as u64;
    stage.mirror.plant(image.file_name(), Fault::Rate(length * 2), Times::Always);
    let started = Instant::now();
    assert_eq!(stage.curl(&[], &image.path).await.exit, Some(0));
    assert!(started.elapsed() >= Duration::from_millis(450));
}

#[tokio::test]
async fn requests_are_counted() {
    let (stage, image) = Stage::small().await;
    let length = stage.file(&image).len() as u64;
    stage.curl(&["--head"], &image.path).await;
    stage.curl(&[], &image.path).await;
    stage.curl(&["--range", "0-0"], &image.path).await;
    let name = image.file_name();
    assert_eq!((stage.mirror.count("HEAD", name), stage.mirror.count("GET", name)), (1, 2));
    until("the bytes are counted", || stage.mirror.bytes_sent(name) == length + 1).await;
    let requests = stage.mirror.requests();
    assert_eq!(requests[2].range.as_deref(), Some("bytes=0-0"));
    assert_eq!(
        requests.iter().map(|request| request.status).collect::<Vec<_>>(),
        [Some(200), Some(200), Some(206)]
    );
}

#[tokio::test]
async fn a_big_image_takes_no_room_and_is_served_whole() {
    const SIZE: u64 = 200 * 1024 * 1024;
    let (stage, image) = Stage::with(Content::Holes(SIZE)).await;
    let file = std::fs::metadata(stage.mirror.file(&image.path).unwrap()).unwrap();
    assert!(file.len() > SIZE);
    assert!(std::os::unix::fs::MetadataExt::blocks(&file) * 512 < 1024 * 1024);
    let fetched = stage.curl(&["--range", "100000000-100000099"], &image.path).await;
    assert_eq!(fetched.body, [0; 100]);
    stage.curl(&[], &image.path).await;
    until("all has been sent", || stage.mirror.bytes_sent(&image.path) == file.len() + 100).await;
}

#[tokio::test]
async fn a_directory_is_served_and_nothing_outside_it() {
    let stage = Stage::empty().await;
    let packages = stage.directory.path().join("packages");
    std::fs::create_dir_all(packages.join("pool")).unwrap();
    std::fs::write(packages.join("pool/a+b_1~2.deb"), "package").unwrap();
    std::fs::write(stage.directory.path().join("secret"), "secret").unwrap();
    stage.mirror.serve("/debian", &packages);
    assert_eq!(stage.curl(&[], "/debian/pool/a%2bb_1~2.deb").await.body, b"package");
    for path in
        ["/debian/../secret", "/debian/%2e%2e/secret", "/debian/pool/", "/debian/", "/secret"]
    {
        assert_eq!(stage.curl(&["--path-as-is"], path).await.status, "404", "{path}");
    }
}
