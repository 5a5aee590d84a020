//! The HTTP server: thin, over the jobs and the install flow of `pve-provision`.

mod access;
mod answer;
mod app;
mod body;
mod listener;
mod routes;
mod serve;
pub mod settings;
mod stream;

pub use access::Access;
pub use access::Allowed;
pub use access::own_names;
pub use app::App;
pub use routes::router;
pub use serve::bind;
pub use serve::serve;
