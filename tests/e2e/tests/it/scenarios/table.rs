//! Rows, run a few at a time, and their texts in order.

use std::future::Future;
use std::pin::Pin;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::sync::Semaphore;

/// One row: a sentence about what is sent or broken, and the day that gives its text.
pub(crate) struct Row {
    name: String,
    day: Pin<Box<dyn Future<Output = String> + Send>>,
}

/// How many simulated clusters run at a time, in all tables together.
static AT_A_TIME: Semaphore = Semaphore::const_new(6);

/// A row of a table.
pub(crate) fn row(
    name: impl Into<String>,
    day: impl Future<Output = String> + Send + 'static,
) -> Row {
    Row { name: name.into(), day: Box::pin(day) }
}

/// Runs all rows; one that falls over has its last words for a text.
///
/// `ROW` in the environment selects those whose names contain it, for work on one of them.
pub(crate) async fn run(rows: Vec<Row>) -> String {
    let texts = stream::iter(rows.into_iter().filter(is_wanted).map(|row| async move {
        let _turn = AT_A_TIME.acquire().await.unwrap();
        let text = match tokio::spawn(row.day).await {
            Ok(text) => text,
            Err(error) => {
                let words = error.into_panic();
                let formatted = words.downcast_ref::<String>().map(String::as_str);
                let words = formatted.or_else(|| words.downcast_ref::<&str>().copied());
                format!("fell over: {}", words.unwrap_or_default())
            }
        };
        format!("# {}\n{}\n", row.name, text.trim_end())
    }));
    let texts: Vec<String> = texts.buffered(64).collect().await;
    texts.join("\n")
}

fn is_wanted(row: &Row) -> bool {
    std::env::var("ROW").map_or(true, |wanted| row.name.contains(&wanted))
}
