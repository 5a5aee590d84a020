//! A process that is killed at any point leaves a next run that ends with a whole image.

use std::io::Read;
use std::process::Command;
use std::process::Stdio;

use super::mirror::Reply;
use super::mirror::file;
use super::*;

const DIRECTORY: &str = "PVE_IMAGES_TEST_DIRECTORY";
const URL: &str = "PVE_IMAGES_TEST_URL";
const SUMS: &str = "PVE_IMAGES_TEST_SUMS";

/// This test program once more, running one of the ignored tests below.
pub(super) struct Child {
    child: std::process::Child,
}

impl Child {
    /// Downloads an image.
    pub(super) fn download(directory: &Path, image: &Image) -> Self {
        Self::download_with(&[], directory, image)
    }

    /// Downloads an image with some variables set.
    pub(super) fn download_with(
        variables: &[(&str, &str)],
        directory: &Path,
        image: &Image,
    ) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(arguments("crash::child")).envs(variables.iter().copied());
        Self::run(&mut command, directory, image)
    }

    /// Runs a command that runs this program in the end.
    pub(super) fn run(command: &mut Command, directory: &Path, image: &Image) -> Self {
        let command = command
            .env(DIRECTORY, directory)
            .env(URL, image.url.as_str())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(sums) = &image.sums {
            command.env(SUMS, sums.as_str());
        }
        Self { child: command.spawn().unwrap() }
    }

    /// As `kill -9` does.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(super) async fn ended_well(&mut self) -> bool {
        let mut status = None;
        until(|| {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap().success()
    }

    /// What it printed, once it has ended.
    pub(super) fn printed(&mut self) -> String {
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
        printed
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Those that run one ignored test of this program.
pub(super) fn arguments(test: &str) -> [String; 4] {
    let name = format!("cache::tests::{test}");
    ["--exact".to_owned(), name, "--ignored".to_owned(), "--test-threads=1".to_owned()]
}

/// Where a child works and on what; `None` when it is no child.
pub(super) fn order() -> Option<(PathBuf, Image)> {
    let directory = std::env::var_os(DIRECTORY)?;
    let url = std::env::var(URL).ok()?.parse().ok()?;
    let sums = std::env::var(SUMS).ok().map(|sums| sums.parse().unwrap());
    Some((directory.into(), Image { url, sums, ..some_image() }))
}

/// Looks again and again until something is so.
pub(super) async fn until(mut so: impl FnMut() -> bool) {
    let limit = Duration::from_mins(1);
    let looking = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(limit, looking).await.expect("it did not become so within a minute");
}

#[tokio::test]
#[ignore = "run by other tests, as a process of its own"]
async fn child() {
    let Some((directory, image)) = order() else { return };
    let cache = cache(&directory, Head::Required, true);
    if let Err(error) = cache.download(&image, None, |_| {}).await {
        panic!("{}", with_causes(&error));
    }
}

#[tokio::test]
async fn a_kill_in_mid_transfer_is_recovered_from() {
    const LENGTH: usize = 2_000_000;
    let body = content(LENGTH, 1);
    let served = body.clone();
    let mirror = Mirror::start(move |asked| match asked.path.as_str() {
        "/SHA512SUMS" => Reply::new(200, list(&served)),
        _ => file(asked, &served, "1").slow(Duration::from_millis(3)),
    })
    .await;
    let image = image(&mirror);
    for eighth in 0..=8 {
        let place = Place::new();
        let mut child = Child::download(place.directory.path(), &image);
        let enough = LENGTH as u64 * eighth / 8;
        until(|| {
            let length = |path: PathBuf| std::fs::metadata(path).map(|found| found.len()).ok();
            length(place.path(".part")).is_some_and(|length| length >= enough)
                || place.path("").exists()
        })
        .await;
        child.kill();
        assert!(!place.path("").exists() || std::fs::read(place.path("")).unwrap() == body);

        assert_eq!(place.download(&image).await.unwrap(), body, "killed at {enough} bytes");
        assert_eq!(place.endings(), ["", ".json"]);
    }
    let asked = mirror.asked("GET", &format!("/{NAME}"));
    let resumed = asked.iter().filter(|asked| asked.header("range").is_some()).count();
    assert!(resumed >= 5, "what had come was used again, {resumed} times");
}

#[tokio::test]
async fn a_kill_around_the_end_is_recovered_from() {
    let body = content(500_000, 2);
    let mirror = Mirror::good(body.clone()).await;
    let image = image(&mirror);
    for ending in [".json.new", ".json", "", ".json.new", ".json", ""] {
        let place = Place::new();
        let mut child = Child::download(place.directory.path(), &image);
        let watched = [place.path(ending), place.path("")];
        // Without a pause: what is looked for is there for less than a millisecond.
        let looking = tokio::task::spawn_blocking(move || {
            let begun = std::time::Instant::now();
            while !watched.iter().any(|path| path.exists()) {
                assert!(begun.elapsed() < Duration::from_mins(1), "the child never came so far");
            }
        });
        looking.await.unwrap();
        child.kill();
        assert!(!place.path("").exists() || std::fs::read(place.path("")).unwrap() == body);

        let (path, _) = place.cached(&image).await;
        if path.is_none() {
            place.download(&image).await.unwrap();
        }
        assert_eq!(std::fs::read(place.path("")).unwrap(), body, "killed at {ending}");
    }
}

/// The endings of files and their bytes.
type Files<'a> = &'a [(&'a str, &'a [u8])];

#[tokio::test]
async fn every_state_that_a_crash_can_leave_ends_with_a_whole_image() {
    let body = content(400_000, 3);
    let served = body.clone();
    let mirror = Mirror::start(move |asked| match asked.path.as_str() {
        "/SHA512SUMS" => Reply::new(200, list(&served)),
        _ => file(asked, &served, "1"),
    })
    .await;
    let image = image(&mirror);
    let state = format!(
        "{{\"url\":\"{}\",\"length\":400000,\"etag\":\"\\\"1\\\"\",\"last_modified\":null}}",
        image.url
    );
    let other = content(300_000, 4);
    let (half, empty) = (&body[..200_000], &b""[..]);
    let (part, noted, new) = (".part", ".part.json", ".json.new");
    let cut = &state.as_bytes()[..20];
    let states: [(&str, Files<'_>, usize); 10] = [
        ("locked, nothing came", &[(part, empty)], 1),
        ("old bytes, not yet removed", &[(part, half)], 1),
        ("while its note was written", &[(part, empty), (".part.json.new", cut)], 1),
        ("before the first byte", &[(part, empty), (noted, state.as_bytes())], 1),
        ("in the middle", &[(part, half), (noted, state.as_bytes())], 1),
        ("all came, perhaps not flushed", &[(part, &body), (noted, state.as_bytes())], 0),
        (
            "too much of another state",
            &[(part, &[&body[..], b"x"].concat()), (noted, state.as_bytes())],
            1,
        ),
        (
            "while the final note was written",
            &[(part, &body), (noted, state.as_bytes()), (new, cut)],
            0,
        ),
        (
            "an old file is being replaced",
            &[("", &other), (part, &body), (noted, state.as_bytes())],
            0,
        ),
        ("the name was given, the rest not removed", &[("", &body), (noted, state.as_bytes())], 0),
    ];
    let mut before = 0;
    for (point, files, downloads) in states {
        for finished in [false, true] {
            let place = Place::new();
            for (ending, bytes) in files {
                std::fs::write(place.path(ending), bytes).unwrap();
            }
            if finished {
                // The final note, which comes before the name: it speaks of the file that is to have it.
                let of = if place.path(part).exists() { part } else { "" };
                note_of(&place, &image, &body, of);
            }
            let (path, _) = place.cached(&image).await;
            if path.is_none() {
                place.download(&image).await.unwrap();
            }
            assert_eq!(std::fs::read(place.path("")).unwrap(), body, "{point}");
            assert_eq!(mirror.downloads() - before, downloads, "{point}");
            assert!(!place.path(part).exists(), "{point}");
            assert_eq!(place.cached(&image).await, (Some(place.path("")), vec![]), "{point}");
            before = mirror.downloads();
        }
    }
}

fn note_of(place: &Place, image: &Image, body: &[u8], ending: &str) {
    let found = std::fs::metadata(place.path(ending)).unwrap();
    let note = note::Note {
        url: image.url.to_string(),
        size: body.len() as u64,
        modified: files::Modified::of(&found),
        sum: format!("sha512:{}", sha(Algorithm::Sha512, body)).parse().unwrap(),
        verified: true,
        etag: None,
        last_modified: None,
        time: 0,
    };
    files::write_note(&place.path(".json"), &note).unwrap();
}
