//! Asks the server what a draft needs to know.

use std::error::Error as _;
use std::iter::successors;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use pve_api::Client;
use pve_api::Content;
use pve_api::Error;
use pve_api::NetworkFilter;
use pve_api::Result;

use super::draft::Draft;
use super::facts::Facts;
use super::facts::Found;
use super::facts::Query;

/// Asks one question.
pub async fn load(client: &Client, query: &Query) -> Result<Found, String> {
    find(client, query).await.map_err(|error| explain(&error))
}

/// Asks everything that the draft needs to know, side by side, until nothing is left to ask.
pub async fn load_all(client: &Client, draft: &Draft, facts: &mut Facts) {
    let mut running = FuturesUnordered::new();
    loop {
        for query in facts.ask(draft) {
            running.push(async move { (load(client, &query).await, query) });
        }
        match running.next().await {
            Some((found, query)) => facts.learn(query, found),
            None => return,
        }
    }
}

async fn find(client: &Client, query: &Query) -> Result<Found> {
    Ok(match query {
        Query::Version => Found::Version(client.version().await?),
        Query::Cluster => Found::Cluster(client.cluster().status().await?.items),
        Query::Nodes => Found::Nodes(client.nodes().await?.items),
        Query::NextId => Found::NextId(client.cluster().next_id().await?),
        Query::IsFree(vmid) => Found::IsFree(client.cluster().is_free(*vmid).await?),
        Query::Pools => Found::Pools(client.pools().await?.items),
        Query::Options => Found::Options(Box::new(client.cluster().options().await?)),
        Query::Permissions => Found::Permissions(client.permissions().await?),
        Query::Storages(node) => Found::Storages(client.node(node).storages(None).await?.items),
        Query::Isos(node, storage) => {
            let node = client.node(node);
            Found::Isos(node.storage(storage).content(Some(&Content::Iso), None).await?.items)
        }
        Query::Bridges(node) => {
            let bridges = client.node(node).network(Some(&NetworkFilter::AnyBridge)).await?;
            Found::Bridges(bridges.items)
        }
        Query::CpuModels(node) => Found::CpuModels(client.node(node).cpu_models().await?.items),
    })
}

/// An error with its causes, as one sentence; of a connection without the causes in between, since
/// which of its layers told us is nobody's concern.
pub fn explain(error: &Error) -> String {
    let causes = successors(error.source(), |cause| (*cause).source()).map(ToString::to_string);
    let causes: Vec<String> = match error {
        // The first one is our own: which address it was, or that it was about the session.
        Error::NotSent { .. } => {
            let mut causes: Vec<String> = causes.collect();
            if causes.len() > 2 {
                causes.drain(1..causes.len() - 1);
            }
            causes.dedup();
            causes
        }
        Error::UnknownOutcome { .. } | Error::Interrupted { .. } => {
            causes.last().into_iter().collect()
        }
        _ => causes.collect(),
    };
    let mut text = error.to_string();
    for cause in &causes {
        // The number is said in words before it.
        let cause = cause.split_once(" (os error ").map_or(cause.as_str(), |(words, _)| words);
        text = format!("{text}: {cause}");
    }
    text
}
