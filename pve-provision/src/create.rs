//! The wizard's rules, without a screen: from what somebody said to a virtual machine with a console.
//!
//! * A [`Draft`] holds what the user said, by stable keys such as `general.name`, and nothing else.
//!   A [`Template`] answers what was not said.
//! * [`Facts`] hold what the server told, each with its own state. [`Facts::ask`] names what a draft
//!   still needs to know, [`load`] asks for it.
//! * [`resolve`] turns both into [`Answers`]: for every [`Field`] its value, where that comes from,
//!   its choices, a lock with its reason, notes and problems. It is pure; whoever changes a draft or
//!   learns a fact resolves again.
//! * A [`Plan`] is what answers without problems come to: the request, its lines for a shell, and
//!   with [`Privileges`] what the account must be allowed. [`run`] carries it out, step by step, to
//!   one of its [`End`]s.

mod draft;
mod facts;
mod field;
mod flow;
mod load;
mod privileges;
mod render;
mod resolve;
mod summary;
mod template;
mod value;

#[cfg(test)]
mod tests;

pub use draft::Draft;
pub use draft::InvalidAnswer;
pub use draft::Table;
pub use facts::Fact;
pub use facts::Facts;
pub use facts::Found;
pub use facts::Query;
pub use field::Field;
pub use field::Input;
pub use field::Key;
pub use field::MAX_DISKS;
pub use field::Row;
pub use field::Screen;
pub use field::UnknownKey;
pub use flow::End;
pub use flow::Failure;
pub use flow::Patience;
pub use flow::Remedy;
pub use flow::Stage;
pub use flow::run;
pub use load::explain;
pub use load::load;
pub use load::load_all;
pub use privileges::Need;
pub use privileges::Privileges;
pub use render::NotReady;
pub use render::Plan;
pub use resolve::Answer;
pub use resolve::Answers;
pub use resolve::Choice;
pub use resolve::Choices;
pub use resolve::Origin;
pub use resolve::resolve;
pub use summary::Line;
pub use summary::summary;
pub use template::InvalidTemplate;
pub use template::Template;
pub use value::InvalidValue;
pub use value::Value;
