//! A directory that everybody may write to.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;

use super::*;

/// Puts something at a path, perhaps a link to another.
type Trap = fn(&Path, &Path);

/// What another user can put in our way, and the words that name it.
fn traps() -> Vec<(Trap, &'static str)> {
    let mut traps: Vec<(Trap, &'static str)> = vec![
        (|path, other| symlink(other, path).unwrap(), "is a symbolic link"),
        (|path, _| symlink("/nowhere/at/all", path).unwrap(), "is a symbolic link"),
        (|path, _| std::fs::create_dir(path).unwrap(), "is not a plain file"),
        (
            |path, _| {
                let fifo = rustix::fs::FileType::Fifo;
                let mode = rustix::fs::Mode::from_raw_mode(0o666);
                rustix::fs::mknodat(rustix::fs::CWD, path, fifo, mode, 0).unwrap();
            },
            "is not a plain file",
        ),
        (
            |path, _| {
                std::fs::write(path, "{}").unwrap();
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).unwrap();
            },
            "may be written to by everybody",
        ),
    ];
    if rustix::process::geteuid().is_root() {
        traps.push((
            |path, _| {
                std::fs::write(path, "{}").unwrap();
                std::os::unix::fs::chown(path, Some(12345), None).unwrap();
            },
            "belongs to user 12345, not to us (user 0)",
        ));
    }
    traps
}

#[tokio::test]
async fn what_another_user_put_in_our_way_is_refused_and_left_alone() {
    let body = content(50_000, 1);
    let mirror = Mirror::good(body.clone()).await;
    let image = image(&mirror);
    let other = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(other.path(), "mine").unwrap();
    for ending in ["", ".part", ".part.json", ".json", ".json.new", ".part.json.new"] {
        for (trap, words) in traps() {
            let place = Place::new();
            if ending == ".json" {
                // The note is looked at only beside a file.
                std::fs::write(place.path(""), &body).unwrap();
            }
            trap(&place.path(ending), other.path());
            let before = std::fs::symlink_metadata(place.path(ending)).unwrap();

            let error = async {
                match place.cache.cached(&image, None, |_| {}).await? {
                    None => place.cache.download(&image, None, |_| {}).await,
                    Some(path) => Ok(path),
                }
            }
            .await
            .unwrap_err();

            let said = with_causes(&error);
            assert!(matches!(error, Error::Refused { .. }), "{ending}: {said}");
            let path = place.path(ending);
            assert_eq!(
                said,
                format!(
                    "{} {words}; remove it, or choose another directory (IMAGE_DIR)",
                    path.display()
                )
            );
            let after = std::fs::symlink_metadata(&path).unwrap();
            assert_eq!(after.file_type(), before.file_type());
            assert_eq!(std::fs::read(other.path()).unwrap(), b"mine");
        }
    }
}

#[tokio::test]
async fn a_second_name_of_a_file_of_ours_is_not_written_through() {
    let mirror = Mirror::good(content(50_000, 2)).await;
    let place = Place::new();
    let precious = tempfile::NamedTempFile::new_in(place.directory.path()).unwrap();
    std::fs::write(precious.path(), "precious").unwrap();
    std::fs::hard_link(precious.path(), place.path(".part")).unwrap();
    let error = place.download(&image(&mirror)).await.unwrap_err();
    assert!(error.to_string().contains("has a second name (a hard link)"), "{error}");
    assert_eq!(std::fs::read(precious.path()).unwrap(), b"precious");
}

#[tokio::test]
async fn what_a_crash_left_of_ours_is_no_hindrance() {
    let mirror = Mirror::good(content(50_000, 3)).await;
    let place = Place::new();
    for ending in [".part.json.new", ".json.new", ".json"] {
        std::fs::write(place.path(ending), "{").unwrap();
    }
    place.download(&image(&mirror)).await.unwrap();
    assert_eq!(place.endings(), ["", ".json"]);
}

#[test]
fn a_directory_in_which_others_could_replace_files_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    let deep = directory.path().join("made on/the way");
    let settings = |path: &Path| settings(path, Head::Required, true);
    Cache::new(settings(&deep)).unwrap();
    assert!(deep.is_dir());
    std::fs::set_permissions(&deep, mode(0o777)).unwrap();
    let error = Cache::new(settings(&deep)).err().unwrap();
    assert!(error.to_string().contains("everybody may replace our files"), "{error}");
    std::fs::set_permissions(&deep, mode(0o1777)).unwrap();
    Cache::new(settings(&deep)).unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Cache::new(settings(&file)).err().unwrap();
    assert!(with_causes(&error).starts_with("cannot create the directory "), "{error}");
}

#[tokio::test]
async fn a_name_that_leads_out_of_the_directory_is_refused() {
    let place = Place::new();
    for url in [
        "http://127.0.0.1:1/",
        "http://127.0.0.1:1/a/..%2Fpasswd",
        "http://127.0.0.1:1/.hidden",
        "http://127.0.0.1:1/a%00b",
        "http://127.0.0.1:1/a.part",
        "http://127.0.0.1:1/a.json",
    ] {
        let image = Image { url: url.parse().unwrap(), ..some_image() };
        let error = place.cache.cached(&image, None, |_| {}).await.unwrap_err();
        assert!(matches!(error, Error::Name { .. }), "{url}: {error}");
        place.cache.download(&image, None, |_| {}).await.unwrap_err();
    }
    assert_eq!(place.endings(), [""; 0]);
}

#[tokio::test]
async fn a_part_that_is_taken_away_meanwhile_is_noticed() {
    let body = content(1_000_000, 4);
    let mirror = Mirror::good(body).await;
    let place = Place::new();
    let (part, whole) = (place.path(".part"), place.path(""));
    // Looked at before the name is given: the file of that name is another one then.
    let mut replaced = false;
    let error = place
        .cache
        .download(&image(&mirror), None, |update| {
            if let Update::Progress { .. } = update {
                std::fs::remove_file(&part).unwrap();
                std::fs::write(&part, "another's").unwrap();
                replaced = true;
            }
        })
        .await
        .unwrap_err();
    assert!(replaced);
    assert!(matches!(error, Error::Disturbed { .. }), "{error:?}");
    assert!(!whole.exists());
    assert_eq!(std::fs::read(&part).unwrap(), b"another's");
}
