//! Asking for facts: side by side, each with its own state.

use pve_provision::create::Draft;
use pve_provision::create::Fact;
use pve_provision::create::Facts;
use pve_provision::create::Field;
use pve_provision::create::Query;
use pve_provision::create::load;
use pve_provision::create::load_all;
use pve_provision::create::resolve;

use crate::flow::error;
use crate::flow::log_in;
use crate::scene::Scene;
use crate::scene::ticket;
use crate::server::Reply;
use crate::server::token_client;

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

#[tokio::test]
async fn what_was_not_sent_says_which_address_or_that_the_session_was_the_cause() {
    let mut settings = Scene::start("9.1", Vec::new()).await.server.settings();
    settings.addresses = vec!["127.0.0.1:1".parse().unwrap()];
    let told = load(&token_client(&settings), &Query::Version).await.unwrap_err();
    insta::assert_snapshot!(told, @"GET /version: not sent: cannot connect to 127.0.0.1:1: Connection refused");
    let dead = error(401, "permission denied - invalid PVE ticket");
    let renewal = ("POST /access/ticket", Reply::Cut);
    let first = ("POST /access/ticket", ticket());
    let scene = Scene::start("9.1", vec![first, ("GET /version", dead), renewal]).await;
    let told = load(&log_in(&scene).await, &Query::Version).await.unwrap_err();
    let words = "GET /version: not sent: the session could not be renewed: ";
    let cause = told.strip_prefix(words).unwrap_or_else(|| panic!("{told}"));
    assert!(!cause.is_empty() && !cause.contains("answer was lost"), "{told}");
}
