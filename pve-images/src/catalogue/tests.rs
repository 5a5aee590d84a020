use proptest::prelude::*;

use super::*;

const ENTRY: &str = r#"
[[image]]
os = "debian"
version = "12"
url = "https://mirror.example.org/debian-12-generic-amd64.qcow2"
user = "debian"
"#;

/// The catalogue with a file of this text.
fn load(text: &str) -> Result<Catalogue, CatalogueError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Catalogue::load(Some(file.path()))
}

/// What is said of a file, its changing name taken out.
fn complaint(text: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let error = Catalogue::load(Some(file.path())).unwrap_err();
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
        .replace(&file.path().display().to_string(), "images.toml")
}

#[test]
fn every_row_of_the_built_in_table_is_an_image() {
    let catalogue = Catalogue::builtin();
    assert_eq!(catalogue.images().len(), BUILTIN.len());
    for image in catalogue.images() {
        files::check_name(image.file_name()).unwrap();
        assert_eq!(image.url.scheme(), "https");
        assert_eq!(image.sums.as_ref().unwrap().scheme(), "https");
        assert!(image.url.path().contains(&image.version) || image.os == "debian");
        assert!(is_user(&image.user) && is_word(&image.os) && is_word(&image.version));
        assert!(image.cpu.as_deref().is_none_or(|level| LEVELS.contains(&level)));
        assert_eq!(catalogue.find(&image.os, &image.version), Some(image));
    }
    assert_eq!(catalogue.find("debian", "10"), None);
    assert_eq!(catalogue.find("Debian", "12"), None);
}

#[test]
fn an_entry_replaces_or_adds() {
    assert_eq!(load("").unwrap().images(), Catalogue::builtin().images());

    let catalogue = load(ENTRY).unwrap();
    assert_eq!(catalogue.images().len(), BUILTIN.len());
    let image = catalogue.find("debian", "12").unwrap();
    assert_eq!(image.url.host_str(), Some("mirror.example.org"));
    assert_eq!(image.sums, None, "nothing of the replaced image is kept");
    assert_eq!(image.file_name(), "debian-12-generic-amd64.qcow2");

    let catalogue = load(
        r#"
        [[image]]
        os = "alma"
        version = "9"
        url = "http://192.0.2.7/alma/9.qcow2"
        sums = "http://192.0.2.7/alma/CHECKSUM"
        user = "alma_admin-1"
        cpu = "x86-64-v2-AES"
        "#,
    )
    .unwrap();
    assert_eq!(catalogue.images().len(), BUILTIN.len() + 1);
    let image = catalogue.images().last().unwrap();
    assert_eq!((image.os.as_str(), image.cpu.as_deref()), ("alma", Some("x86-64-v2-AES")));
    assert_eq!(image.sums.as_ref().unwrap().path(), "/alma/CHECKSUM");
}

#[test]
fn what_cannot_be_is_named_with_its_place_and_what_would_be_right() {
    let with = |from: &str, to: &str| complaint(&ENTRY.replace(from, to));
    let said = [
        with("\"debian\"\nversion", "\"\"\nversion"),
        with("\"12\"", "\"../12\""),
        with("https", "ftp"),
        with("https://mirror.example.org", "mirror"),
        with("mirror.example.org", "user:secret@mirror.example.org"),
        with("debian-12-generic-amd64.qcow2", ""),
        with("debian-12", ".debian-12"),
        with("debian-12", "debian%2f12"),
        with("amd64.qcow2", "amd64.json"),
        with("user = \"debian\"", "user = \"Debian User\""),
        with("user = \"debian\"", "user = \"debian\"\ncpu = \"x86-64-v1\""),
        with("user = \"debian\"", "user = \"debian\"\nsums = \"SHA512SUMS\""),
        with("version = \"12\"", "version = \"12-mirror\""),
    ];
    insta::assert_snapshot!(said.join("\n"), @r#"
    images file images.toml, image 1 ( 12): os '' is not a word of letters, digits, '.', '-' and '_' that begins with a letter or digit
    images file images.toml, image 1 (debian ../12): version '../12' is not a word of letters, digits, '.', '-' and '_' that begins with a letter or digit
    images file images.toml, image 1 (debian 12): url 'ftp://mirror.example.org/debian-12-generic-amd64.qcow2' begins with neither http:// nor https://
    images file images.toml, image 1 (debian 12): url 'mirror/debian-12-generic-amd64.qcow2' is not an address: relative URL without a base
    images file images.toml, image 1 (debian 12): url 'https://…@mirror.example.org' carries a user name or password, which would be shown in events
    images file images.toml, image 1 (debian 12): url 'https://mirror.example.org/' does not end in a file name
    images file images.toml, image 1 (debian 12): url 'https://mirror.example.org/.debian-12-generic-amd64.qcow2' ends in a file name with other characters than letters, digits, '.', '_', '-', '+', '~', or without a letter or digit first
    images file images.toml, image 1 (debian 12): url 'https://mirror.example.org/debian%2f12-generic-amd64.qcow2' ends in a file name with other characters than letters, digits, '.', '_', '-', '+', '~', or without a letter or digit first
    images file images.toml, image 1 (debian 12): url 'https://mirror.example.org/debian-12-generic-amd64.json' ends like the cache's own notes (.part, .json, .new)
    images file images.toml, image 1 (debian 12): user 'Debian User' is not a user name: at most 32 of a-z, 0-9, '-' and '_', a letter or '_' first
    images file images.toml, image 1 (debian 12): cpu 'x86-64-v1' is not one of x86-64-v2, x86-64-v2-AES, x86-64-v3, x86-64-v4
    images file images.toml, image 1 (debian 12): sums 'SHA512SUMS' is not an address: relative URL without a base
    images file images.toml, image 1 (debian 12-mirror): url 'https://mirror.example.org/debian-12-generic-amd64.qcow2' ends in the same file name as the image of debian 12, https://cloud.debian.org/images/cloud/bookworm/latest/debian-12-generic-amd64.qcow2: both would lie at one place in the cache
    "#);
}

#[test]
fn what_is_not_understood_is_shown_with_its_place() {
    let said = [
        complaint("[[image]]\nos = 12\n"),
        complaint("[[image]]\nos = \"a\"\n"),
        complaint(&ENTRY.replace("user", "sha = \"1\"\nuser")),
        complaint("[[images]]\n"),
    ];
    insta::assert_snapshot!(said.join("\n"), @r#"
    cannot understand the images file images.toml: TOML parse error at line 2, column 6
      |
    2 | os = 12
      |      ^^
    invalid type: integer `12`, expected a string

    cannot understand the images file images.toml: TOML parse error at line 1, column 1
      |
    1 | [[image]]
      | ^^^^^^^^^
    missing field `version`

    cannot understand the images file images.toml: TOML parse error at line 6, column 1
      |
    6 | sha = "1"
      | ^^^
    unknown field `sha`, expected one of `os`, `version`, `url`, `sums`, `user`, `cpu`

    cannot understand the images file images.toml: TOML parse error at line 1, column 3
      |
    1 | [[images]]
      |   ^^^^^^
    unknown field `images`, expected `image`
    "#);
    let missing = Catalogue::load(Some(Path::new("/nowhere/images.toml"))).unwrap_err();
    assert_eq!(missing.to_string(), "cannot read the images file /nowhere/images.toml");
}

#[test]
fn a_password_in_an_address_is_not_shown() {
    let said = complaint(&ENTRY.replace("mirror", "user:secret@mirror"));
    assert!(said.contains("carries a user name or password") && !said.contains("secret"), "{said}");
}

proptest! {
    #[test]
    fn no_file_name_leads_out_of_the_directory(path in ".{0,60}") {
        let entry = toml::Table::from_iter([
            ("os".to_owned(), "a".into()),
            ("version".to_owned(), "1".into()),
            ("url".to_owned(), format!("https://mirror.example.org/{path}").into()),
            ("user".to_owned(), "a".into()),
        ]);
        let entry: Entry = entry.try_into().unwrap();
        if let Ok(image) = entry.image() {
            let name = image.file_name();
            let inside = Path::new("/cache").join(name);
            prop_assert_eq!(inside.parent(), Some(Path::new("/cache")));
            prop_assert_eq!(inside.file_name().and_then(|name| name.to_str()), Some(name));
            prop_assert!(!name.starts_with('.') && name != "..");
        }
    }
}
