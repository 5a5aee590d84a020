//! Asking for facts: side by side, each with its own state.

use pve_provision::create::Draft;
use pve_provision::create::Fact;
use pve_provision::create::Facts;
use pve_provision::create::Field;
use pve_provision::create::load_all;
use pve_provision::create::resolve;

use crate::scene::Scene;
use crate::server::Reply;

#[tokio::test]
async fn one_answer_that_fails_leaves_the_others_as_they_are() {
    let refused = || Reply::status(403, "Permission check failed (/, Sys.Audit)", "");
    let scene = Scene::start("9.1", vec![("GET /pools", refused())]).await;
    let client = scene.server.client();
    let (draft, mut facts) = (Draft::default(), Facts::new(client.account()));
    load_all(&client, &draft, &mut facts).await;
    let Fact::Failed(reason) = facts.pools() else { panic!("{:?}", facts.pools()) };
    insta::assert_snapshot!(reason, @"GET /pools: not permitted: Permission check failed (/, Sys.Audit)");
    assert_eq!((facts.failures().count(), facts.open().count()), (1, 0));
    let answers = resolve(&draft, &facts);
    assert_eq!(answers.problems().count(), 0);
    assert_eq!(answers.text(Field::IsoStorage), "cephfs");
    assert!(!scene.server.lines().iter().any(|line| line.contains("pve2")), "it is offline");
}
