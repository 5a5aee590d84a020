//! Image servers and image directories on their bad days.

use std::fs;

use pve_e2e::rig::Rig;
use pve_sim::mirror::Fault;
use pve_sim::mirror::Times;
use sha2::Digest as _;
use sha2::Sha512;

use super::day::Day;
use super::day::IMAGE;
use super::day::check;
use super::deed::Deed;
use super::deed::Moment;
use super::table;
use super::table::Row;
use super::table::row;

const SUMS: &str = "SHA512SUMS";

#[tokio::test(flavor = "multi_thread")]
async fn only_whole_and_verified_images_are_used() {
    insta::assert_snapshot!(table::run(rows()).await);
}

pub(super) fn rows() -> Vec<Row> {
    let failing = |name: &'static str, fault: Fault, times: Times| {
        row(name, Day::new().mirror(IMAGE, fault, times).and_again().run())
    };
    let sums = |name: &'static str, fault: Fault, times: Times| {
        row(name, Day::new().mirror(SUMS, fault, times).and_again().run())
    };
    let mut rows = vec![
        failing("the image is not there", Fault::Status(404), Times::Always),
        failing("the server has a fault", Fault::Status(500), Times::Always),
        failing("HEAD is forbidden", Fault::HeadStatus(403), Times::Always),
        failing("HEAD is not allowed", Fault::HeadStatus(405), Times::Always),
        failing("nobody answers", Fault::Hang, Times::Always),
        failing("a page of HTML comes", Fault::Html, Times::Always),
        failing("the transfer is cut at 30 % once", Fault::Cut(30), Times::ONCE),
        failing("the transfer is cut at 30 % always", Fault::Cut(30), Times::Always),
        failing("the length is wrong", Fault::Short(60), Times::Always),
        failing("the image is damaged once", Fault::Corrupt, Times::ONCE),
        failing("the image is damaged always", Fault::Corrupt, Times::Always),
        failing("no length is told", Fault::Chunked, Times::Always),
        row(
            "the transfer is cut, and ranges are ignored",
            Day::new()
                .mirror(IMAGE, Fault::Cut(30), Times::ONCE)
                .mirror(IMAGE, Fault::NoRanges, Times::Always)
                .run(),
        ),
        sums("the checksum list has another sum once", Fault::OtherSums, Times::ONCE),
        sums("the checksum list has another sum always", Fault::OtherSums, Times::Always),
        sums("there is no checksum list", Fault::Status(404), Times::Always),
        row(
            "the server sends elsewhere",
            Day::new()
                .with(|rig| {
                    let mirror = rig.sim.mirror();
                    let image =
                        mirror.images().into_iter().find(|image| image.file_name() == IMAGE);
                    let file = mirror.file(&image.unwrap().path).unwrap();
                    let elsewhere = rig.place.directory().join("elsewhere");
                    fs::create_dir(&elsewhere).unwrap();
                    fs::copy(file, elsewhere.join("image")).unwrap();
                    mirror.serve("/elsewhere", &elsewhere);
                    mirror.plant(
                        IMAGE,
                        Fault::Redirect("/elsewhere/image".to_owned()),
                        Times::Always,
                    );
                })
                .run(),
        ),
    ];
    rows.extend(cached());
    rows.extend(directories());
    rows.push(row(
        "the server is killed in the middle of the download, five times",
        killed_while_downloading(),
    ));
    rows
}

fn cached() -> Vec<Row> {
    let again = |day: Day, fault: Fault| async move {
        let mut day = day;
        let rig = day.begin().await;
        let first = rig.install(day.request()).await.unwrap();
        assert!(first.succeeded(), "{}", first.raw);
        rig.sim.mirror().plant(IMAGE, fault, Times::Always);
        let second = rig.install(day.request()).await.unwrap();
        check(&rig, &second).await;
        let errors = second.errors().join("; ");
        let told = second.messages.iter().filter_map(|message| message.told().ok());
        let notices: Vec<String> = told
            .filter(|told| told.step.contains("OS image") && told.message.starts_with("[*]"))
            .map(|told| super::told::Alike::new(&rig).text(&told.message))
            .collect();
        let errors = super::told::Alike::new(&rig).text(&errors);
        format!(
            "  succeeded: {}\n  {}\n  {errors}\n  {} GET of the image",
            second.succeeded(),
            notices.join("\n  "),
            rig.sim.mirror().count("GET", IMAGE)
        )
    };
    vec![
        row("the image is cached and the server is down", again(Day::new(), Fault::Status(503))),
        row(
            "the image is cached, the server is down, and IMAGE_HEAD is optional",
            again(Day::new().setting("IMAGE_HEAD", "optional"), Fault::Status(503)),
        ),
        row("the image is cached and the publisher has a newer one", async {
            let mut day = Day::new();
            let rig = day.begin().await;
            assert!(rig.install(day.request()).await.unwrap().succeeded());
            super::failures::larger_image(&rig.sim, 4 << 30);
            assert!(rig.install(day.request()).await.unwrap().succeeded());
            format!("  {} GET of the image", rig.sim.mirror().count("GET", IMAGE))
        }),
    ]
}

fn directories() -> Vec<Row> {
    let image = |rig: &Rig| {
        let mirror = rig.sim.mirror();
        let image = mirror.images().into_iter().find(|image| image.file_name() == IMAGE).unwrap();
        mirror.file(&image.path).unwrap()
    };
    vec![
        row(
            "half an image of somebody else has the name",
            Day::new()
                .with(move |rig| {
                    let bytes = fs::read(image(rig)).unwrap();
                    let half = &bytes[..bytes.len() / 2];
                    fs::write(rig.place.directory().join("images").join(IMAGE), half).unwrap();
                })
                .run(),
        ),
        row(
            "a whole image of somebody else has the name",
            Day::new()
                .with(move |rig| {
                    fs::copy(image(rig), rig.place.directory().join("images").join(IMAGE)).unwrap();
                })
                .run(),
        ),
        row(
            "a link has the name",
            Day::new()
                .with(|rig| {
                    let target = rig.place.directory().join("target");
                    fs::write(&target, "precious").unwrap();
                    let name = rig.place.directory().join("images").join(IMAGE);
                    std::os::unix::fs::symlink(target, name).unwrap();
                })
                .run(),
        ),
        row(
            "the image directory is gone",
            Day::new()
                .with(|rig| fs::remove_dir(rig.place.directory().join("images")).unwrap())
                .run(),
        ),
    ]
}

/// After each kill the next server goes on; the image that is used in the end is the publisher's, byte for byte.
async fn killed_while_downloading() -> String {
    let mut day = Day::new().mirror(IMAGE, Fault::Rate(400_000), Times::Always);
    let mut rig = day.begin().await;
    let progress =
        Moment { step: "OS preparation > downloading OS image", says: "MiB/s", command: "" };
    for _ in 0..5 {
        let (next, install) = Deed::Kill(progress).done(rig, day.request()).await;
        rig = next;
        check(&rig, &install).await;
        assert!(!rig.place.directory().join("images").join(IMAGE).exists());
    }
    rig.sim.mirror().clear_faults();
    let install = rig.install(day.request()).await.unwrap();
    assert!(install.succeeded(), "{}", install.raw);
    let mirror = rig.sim.mirror();
    let image = mirror.images().into_iter().find(|image| image.file_name() == IMAGE).unwrap();
    let wanted = Sha512::digest(fs::read(mirror.file(&image.path).unwrap()).unwrap());
    let found = Sha512::digest(fs::read(rig.place.directory().join("images").join(IMAGE)).unwrap());
    assert_eq!(wanted, found);
    "  the image is the publisher's".to_owned()
}
