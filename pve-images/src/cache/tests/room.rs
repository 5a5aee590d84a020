//! A file system without room.

use std::process::Command;
use std::sync::Arc;

use super::crash;
use super::crash::Child;
use super::mirror::Framing;
use super::mirror::Reply;
use super::mirror::file;
use super::sink::Fault;
use super::sink::Sink;
use super::*;

#[tokio::test]
async fn an_image_that_cannot_fit_is_refused_before_it_is_fetched() {
    let mirror = Mirror::good(content(1000, 1)).await;
    let place = Place::new();
    let remote = Remote { length: Some(1 << 60), ..Remote::default() };
    let error = place.cache.download(&image(&mirror), Some(&remote), |_| {}).await.unwrap_err();
    let said = error.to_string();
    let directory = place.directory.path().display();
    assert!(
        said.starts_with(&format!(
            "no room in {directory} for {NAME}: 1152921504606846976 bytes (1099511627776.0 MiB) more are needed, "
        )) && said.ends_with("are free; make room, or choose another directory (IMAGE_DIR)"),
        "{said}"
    );
    assert_eq!(mirror.downloads(), 0);
    assert_eq!(place.endings(), [""; 0]);
}

#[tokio::test]
async fn a_length_that_only_the_download_tells_is_looked_at_before_its_first_byte() {
    let body = content(1000, 2);
    let mirror = Mirror::start(move |asked| match asked.path.as_str() {
        "/SHA512SUMS" => Reply::new(200, list(&body)),
        _ => Reply::new(200, "").header("Content-Length", (1_u64 << 60).to_string()).cut(0),
    })
    .await;
    let place = Place::new();
    let error = place.download(&image(&mirror)).await.unwrap_err();
    assert!(
        matches!(error, Error::NoRoom { needed: Some(needed), .. } if needed == 1 << 60),
        "{error}"
    );
    assert_eq!(place.endings(), [""; 0]);
}

#[tokio::test]
async fn a_full_file_system_is_told_by_the_writing_thread() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut sink = Sink::start(Arc::new(full), 0, Algorithm::Sha256);
    let fault = loop {
        if let Err(fault) = sink.write(content(1000, 3).into()).await {
            break fault;
        }
    };
    let Fault::Write(error) = fault else { panic!("{fault:?}") };
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

/// Downloads more than fits; the length is not told, so that nothing can be said before.
#[tokio::test]
#[ignore = "run by other tests, where there is little room"]
async fn child() {
    let Some((directory, image)) = crash::order() else { return };
    let cache = cache(&directory, Head::Required, true);
    let error = cache.download(&image, None, |_| {}).await.unwrap_err();
    assert!(matches!(error, Error::NoRoom { .. }), "{error:?}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "the part is removed");
}

/// Runs `child` by a shell line that ends in `exec "$@"`.
async fn with_little_room(program: &[&str], line: &str) -> Result<(), String> {
    let body = content(4_000_000, 4);
    let mirror = Mirror::start(move |asked| match asked.path.as_str() {
        "/SHA512SUMS" => Reply::new(200, list(&body)),
        _ => file(asked, &body, "1").framing(Framing::Chunked),
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(program[0]);
    command
        .args(&program[1..])
        .args(["sh", "-c", line])
        .arg(directory.path())
        .arg(std::env::current_exe().unwrap())
        .args(crash::arguments("room::child"));
    let mut child = Child::run(&mut command, directory.path(), &image(&mirror));
    let ended_well = child.ended_well().await;
    let downloads = mirror.downloads();
    let printed = tokio::task::spawn_blocking(move || child.printed()).await.unwrap();
    if downloads == 0 {
        return Err(printed);
    }
    assert!(ended_well, "{printed}");
    assert!(printed.contains("1 passed"), "{printed}");
    Ok(())
}

#[tokio::test]
async fn a_file_that_may_not_grow_is_removed_and_said() {
    let line = "trap '' XFSZ; ulimit -f 1000; exec \"$@\"";
    with_little_room(&["env"], line).await.unwrap();
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a skipped test must say why")]
async fn a_file_system_that_runs_full_is_cleared_and_said() {
    let line = "mount -t tmpfs -o size=1m,mode=700 tmpfs \"$0\" && exec \"$@\"";
    let rootless = ["unshare", "--user", "--map-root-user", "--mount"];
    let as_root = ["unshare", "--mount"];
    let program = if rustix::process::geteuid().is_root() { &as_root[..] } else { &rootless[..] };
    if let Err(printed) = with_little_room(program, line).await {
        eprintln!("skipped: no small file system can be mounted here: {printed}");
    }
}
