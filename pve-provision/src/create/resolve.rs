//! From what was said and what the server told to every answer: pure, and always the whole.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::facts::Fact;
use super::facts::Facts;
use super::field::Field;
use super::field::Input;
use super::field::Key;
use super::value::Value;

mod cpu;
mod disks;
mod general;
mod grammar;
mod iso;
mod listed;
mod memory;
mod network;
mod os;
mod system;

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The user said it.
    Said,
    /// The template, or the web UI's own rule.
    Default,
    /// The default is not to be had here; the answer's notes say so.
    Fallback,
}

/// One of several values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The value, which goes into the draft.
    pub value: String,
    /// What stands in the list.
    pub label: String,
    /// What else helps to choose.
    pub detail: String,
    /// Why it cannot be taken.
    pub unusable: Option<String>,
}

impl Choice {
    fn new(value: impl Into<String>, label: impl Into<String>) -> Self {
        let (value, label) = (value.into(), label.into());
        Self { value, label, detail: String::new(), unusable: None }
    }

    fn named(value: &str) -> Self {
        Self::new(value, value)
    }
}

/// Between what can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choices {
    /// There is no list.
    Free,
    /// The list, or the default, is not there yet.
    Loading,
    /// The list could not be had, for this reason. What is typed is taken unseen.
    Failed(String),
    /// The list; it may be empty.
    Of(Vec<Choice>),
}

impl Choices {
    fn fixed(choices: &[(&str, &str)]) -> Self {
        Self::Of(choices.iter().map(|(value, label)| Choice::new(*value, *label)).collect())
    }

    /// The list of a fact, each item made a choice.
    fn from_fact<T>(fact: Fact<&[T]>, choice: impl Fn(&T) -> Option<Choice>) -> Self {
        match fact {
            Fact::Loading => Self::Loading,
            Fact::Failed(reason) => Self::Failed(reason),
            Fact::Empty => Self::Of(Vec::new()),
            Fact::There(items) => {
                let mut choices: Vec<Choice> = items.iter().filter_map(choice).collect();
                choices.sort_by(|a, b| a.label.cmp(&b.label));
                Self::Of(choices)
            }
        }
    }

    fn find(&self, value: &str) -> Option<&Choice> {
        match self {
            Self::Of(choices) => choices.iter().find(|choice| choice.value == value),
            _ => None,
        }
    }

    fn first_usable(&self) -> Option<&Choice> {
        match self {
            Self::Of(choices) => choices.iter().find(|choice| choice.unusable.is_none()),
            _ => None,
        }
    }
}

/// The answer to a field.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub origin: Origin,
    /// Between what can be chosen.
    pub choices: Choices,
    /// Why it cannot be changed.
    pub lock: Option<String>,
    /// Whether the question arises at all; if not, nothing of it is sent.
    pub shown: bool,
    /// What the user should know.
    pub notes: Vec<String>,
    /// Why nothing can be made with this answer.
    pub problems: Vec<String>,
}

impl Answer {
    /// The value as a person reads it: the label of a choice, `yes`, a number.
    pub fn shown_value(&self) -> String {
        match self.choices.find(self.value.text()) {
            Some(choice) => choice.label.clone(),
            None => self.value.to_string(),
        }
    }

    /// Whether there is more than one value to choose from, or one was chosen.
    pub(super) fn is_chosen(&self) -> bool {
        self.origin == Origin::Said
            || matches!(&self.choices, Choices::Of(choices) if choices.len() > 1)
    }
}

/// The answers to all fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers(BTreeMap<Key, Answer>);

impl Answers {
    /// The answer to a field.
    pub fn get(&self, key: impl Into<Key>) -> Option<&Answer> {
        self.0.get(&key.into())
    }

    /// All answers, screen by screen.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Answer)> {
        self.0.iter().map(|(key, answer)| (*key, answer))
    }

    /// The value of a field; empty when the question does not arise.
    pub fn value(&self, key: impl Into<Key>) -> &Value {
        self.get(key).map_or(&Value::Empty, |answer| &answer.value)
    }

    /// The value of a text or a choice.
    pub fn text(&self, key: impl Into<Key>) -> &str {
        self.value(key).text()
    }

    /// Whether the answer is yes.
    pub fn is_on(&self, key: impl Into<Key>) -> bool {
        self.value(key).is_on()
    }

    /// The whole number that was answered.
    pub fn number(&self, key: impl Into<Key>) -> Option<u64> {
        self.value(key).number()
    }

    /// How many disks there are.
    pub fn disks(&self) -> usize {
        self.number(Field::Disks).and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
    }

    /// Everything for which nothing can be made, screen by screen.
    pub fn problems(&self) -> impl Iterator<Item = (Key, &str)> {
        self.iter().flat_map(|(key, answer)| {
            answer.problems.iter().map(move |problem| (key, problem.as_str()))
        })
    }

    /// Everything that the user should know, screen by screen.
    pub fn notes(&self) -> impl Iterator<Item = (Key, &str)> {
        self.iter()
            .flat_map(|(key, answer)| answer.notes.iter().map(move |note| (key, note.as_str())))
    }

    /// The fields whose list or default is not there yet.
    pub fn loading(&self) -> impl Iterator<Item = Key> {
        self.iter()
            .filter(|(_, answer)| answer.shown && answer.choices == Choices::Loading)
            .map(|(key, _)| key)
    }
}

/// Resolves a draft: every field gets its value, where that comes from, its choices, a lock with
/// its reason, and what is wrong with it.
pub fn resolve(draft: &Draft, facts: &Facts) -> Answers {
    let mut resolver = Resolver { draft, facts, answers: Answers::default() };
    general::resolve(&mut resolver);
    os::resolve(&mut resolver);
    system::resolve(&mut resolver);
    disks::resolve(&mut resolver);
    cpu::resolve(&mut resolver);
    memory::resolve(&mut resolver);
    network::resolve(&mut resolver);
    resolver.settle(Field::Start, Rule::of(false));
    general::judge_ha(&mut resolver);
    resolver.answers
}

/// What holds for a field, before anybody said anything.
struct Rule {
    /// The web UI's own default.
    own: Value,
    choices: Choices,
    lock: Option<(Value, String)>,
    shown: bool,
    /// Whether the template has a word here.
    preset: bool,
    /// What is wrong when the answer stays empty.
    required: Option<&'static str>,
    /// What it comes to where the question does not arise, and why it does not.
    left_out: (Value, &'static str),
}

impl Rule {
    fn of(own: impl Into<Value>) -> Self {
        Self {
            own: own.into(),
            choices: Choices::Free,
            lock: None,
            shown: true,
            preset: true,
            required: None,
            left_out: (Value::Flag(false), "has no meaning here and is left out"),
        }
    }

    fn choice(own: impl Into<Value>, choices: Choices) -> Self {
        Self { choices, ..Self::of(own) }
    }

    fn required(self, problem: &'static str) -> Self {
        Self { required: Some(problem), ..self }
    }

    fn shown(self, shown: bool) -> Self {
        Self { shown, ..self }
    }

    /// Where the question does not arise it comes to this value, for this reason.
    fn left_out(self, value: impl Into<Value>, reason: &'static str) -> Self {
        Self { left_out: (value.into(), reason), ..self }
    }

    fn preset(self, preset: bool) -> Self {
        Self { preset, ..self }
    }

    fn lock(self, value: impl Into<Value>, reason: Option<String>) -> Self {
        Self { lock: reason.map(|reason| (value.into(), reason)), ..self }
    }
}

struct Resolver<'a> {
    draft: &'a Draft,
    facts: &'a Facts,
    answers: Answers,
}

impl Resolver<'_> {
    /// Settles a field by its rule; fields on which the rule depends were settled before.
    fn settle(&mut self, key: impl Into<Key>, rule: Rule) {
        let key = key.into();
        let answer = self.answer(key, rule);
        self.answers.0.insert(key, answer);
    }

    fn answer(&self, key: Key, rule: Rule) -> Answer {
        let said = self.draft.said(key);
        let mut answer = Answer {
            value: Value::Empty,
            origin: Origin::Default,
            choices: rule.choices,
            lock: None,
            shown: rule.shown,
            notes: Vec::new(),
            problems: Vec::new(),
        };
        if !rule.shown {
            answer.choices = Choices::Free;
            let (value, reason) = rule.left_out;
            if said.is_some_and(|said| !said.is_empty() && *said != value) {
                answer.origin = Origin::Said;
                answer.notes.push(reason.to_owned());
            }
            return answer;
        }
        if let Some((value, reason)) = rule.lock {
            if said.is_some_and(|said| *said != value) {
                answer.problems.push(format!("cannot be changed: {reason}"));
            }
            answer.value = value;
            answer.lock = Some(reason);
            return answer;
        }
        if let Some(said) = said {
            answer.value = said.clone();
            answer.origin = Origin::Said;
            self.check_said(key.field, &mut answer);
        } else {
            let preset = self.draft.preset(key).filter(|_| rule.preset);
            self.take_default(key.field, &mut answer, preset.unwrap_or(&rule.own));
        }
        listed::check_syntax(key.field, &mut answer);
        let row = key.field.row();
        // An image has its own words for that.
        let must_choose =
            row.input == Input::Choice && row.empty.is_empty() && key.field != Field::Iso;
        let required = rule.required.or(must_choose.then_some("one has to be chosen"));
        if let (Some(problem), true) = (required, answer.value.is_empty())
            && answer.choices != Choices::Loading
            && answer.problems.is_empty()
        {
            // Only an empty list means that there is nothing to choose.
            answer.problems.push(match &answer.choices {
                Choices::Failed(_) => "has to be said, since the list could not be had".to_owned(),
                choices if choices.first_usable().is_some() => "one has to be chosen".to_owned(),
                _ => problem.to_owned(),
            });
        }
        answer
    }

    fn problem(&mut self, key: impl Into<Key>, text: impl Into<String>) {
        if let Some(answer) = self.answers.0.get_mut(&key.into()) {
            answer.problems.push(text.into());
        }
    }

    fn note(&mut self, key: impl Into<Key>, text: impl Into<String>) {
        if let Some(answer) = self.answers.0.get_mut(&key.into()) {
            answer.notes.push(text.into());
        }
    }

    /// Adds a problem to a field if what was answered there breaks a rule of the server.
    fn check(&mut self, key: impl Into<Key>, check: impl Fn(&str) -> Result<(), String>) {
        let key = key.into();
        let text = self.answers.text(key).to_owned();
        if !text.is_empty()
            && let Err(problem) = check(&text)
        {
            self.problem(key, problem);
        }
    }
}
