//! The only drawing code for forms.

use ratatui::Frame;
use ratatui::layout::Constraint;
use ratatui::layout::Layout;
use ratatui::layout::Position;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::text::Span;
use ratatui::widgets::Block;
use ratatui::widgets::Borders;
use ratatui::widgets::Clear;
use ratatui::widgets::Paragraph;
use tui_input::Input;

use super::Form;
use super::Mode;
use super::list::draw_picker;
use super::row::Kind;
use super::row::Row;
use super::row::State;
use super::text::clipped;
use super::text::padded;
use super::text::wrapped;
use crate::drawn::Drawn;
use crate::drawn::Spot;
use crate::drawn::more;
use crate::keys;
use crate::keys::Action;
use crate::style::Theme;

/// Columns before a value: marks and label.
const MARKS: usize = 3;
const LABEL: usize = 23;
/// Columns of the word behind a value.
const WORD: usize = 9;
/// Lines about the field that has the focus.
const DETAIL: u16 = 4;

/// Draws the rows, below them what there is to say about the one with the focus, and above all a
/// list that is open. What is said of the whole form stands before that of its field.
pub(crate) fn draw<K: Clone + PartialEq>(
    frame: &mut Frame<'_>,
    area: Rect,
    form: &Form<K>,
    rows: &[Row<'_, K>],
    theme: Theme,
    mut lines: Vec<Line<'static>>,
    drawn: &mut Drawn,
) {
    let row = rows.get(form.position(rows));
    lines.extend(row.map(|row| detail(form, row, area, theme)).unwrap_or_default());
    // A long reason gets more room; the rows are still around the focus.
    let room = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let room = room.clamp(DETAIL, (area.height / 2).max(DETAIL));
    let [above, rule, below] =
        Layout::vertical([Constraint::Min(1), Constraint::Length(1), Constraint::Length(room)])
            .areas(area);
    let (top, bottom) = draw_rows(frame, above, form, rows, theme, drawn);
    draw_rule(frame, rule, &more(top, bottom));
    frame.render_widget(Paragraph::new(cut(lines, room)), below);
    if let (Mode::Pick(picker), Some(row)) = (&form.mode, row) {
        draw_picker(frame, area, picker, row, form.problem.as_deref(), theme, drawn);
    }
}

/// A line across, with something to say at its end.
pub(crate) fn draw_rule(frame: &mut Frame<'_>, area: Rect, text: &str) {
    let tail = if text.is_empty() { 0 } else { 2 };
    let width = usize::from(area.width).saturating_sub(Span::raw(text).width() + tail);
    let line = format!("{}{text}{}", "─".repeat(width), "─".repeat(tail));
    frame.render_widget(Line::styled(line, Theme::quiet()), area);
}

/// Draws the rows alone; of more rows than there is room for those around the focus. Says how many
/// are above and below.
pub(crate) fn draw_rows<K: Clone + PartialEq>(
    frame: &mut Frame<'_>,
    area: Rect,
    form: &Form<K>,
    rows: &[Row<'_, K>],
    theme: Theme,
    drawn: &mut Drawn,
) -> (usize, usize) {
    let height = usize::from(area.height);
    let focus = form.position(rows);
    let top = first_shown(focus, rows.len(), height);
    for (index, row) in rows.iter().enumerate().skip(top).take(height) {
        let y = area.y + u16::try_from(index - top).unwrap_or(u16::MAX);
        let line = Rect { y, height: 1, ..area };
        let editor = match &form.mode {
            Mode::Edit(input) if index == focus => Some(input),
            _ => None,
        };
        draw_row(frame, line, row, index == focus, editor, theme);
        drawn.put(line, Spot::Row(index));
    }
    (top, rows.len().saturating_sub(top + height))
}

/// The first of `count` lines that is shown when line `focus` has to be among `height`.
pub(super) fn first_shown(focus: usize, count: usize, height: usize) -> usize {
    focus.saturating_sub(height / 2).min(count.saturating_sub(height))
}

/// Columns for a value, beside the word behind it.
fn value_width(area: Rect) -> usize {
    usize::from(area.width).saturating_sub(MARKS + LABEL + WORD + 2)
}

fn draw_row<K>(
    frame: &mut Frame<'_>,
    area: Rect,
    row: &Row<'_, K>,
    focused: bool,
    editor: Option<&Input>,
    theme: Theme,
) {
    let width = value_width(area);
    let mark = if !row.problems.is_empty() {
        Span::styled("!", theme.bad())
    } else if !row.notes.is_empty() {
        Span::styled("~", theme.note())
    } else {
        Span::raw(" ")
    };
    let style = if focused { Theme::focus() } else { Style::new() };
    let label_style = if focused { Theme::title() } else { Style::new() };
    let shown = match editor {
        Some(input) => typed(input, matches!(row.kind, Kind::Secret), width),
        None => value(row),
    };
    let wide = word(row).is_empty() && editor.is_none();
    let room = room(row, width, wide);
    let mut spans = vec![
        Span::raw(if focused { ">" } else { " " }),
        mark,
        Span::raw(" "),
        Span::styled(padded(&row.label, LABEL), label_style),
        Span::styled(
            if editor.is_some() { padded(&shown, room) } else { clipped(&shown, room) },
            style,
        ),
    ];
    if !wide {
        let gap = room.saturating_sub(Span::raw(clipped(&shown, room)).width()) + 1;
        if editor.is_none() {
            spans.push(Span::raw(" ".repeat(gap)));
        } else {
            spans.push(Span::raw(" "));
        }
        spans.push(Span::styled(word(row), Theme::quiet()));
    }
    frame.render_widget(Line::from(spans), area);
    if let Some(input) = editor {
        let cursor = input.visual_cursor()
            - input.visual_scroll(width.saturating_sub(1)).min(input.visual_cursor());
        let x = MARKS + LABEL + cursor.min(width);
        frame.set_cursor_position(Position::new(area.x + u16::try_from(x).unwrap_or(0), area.y));
    }
}

/// What is typed, as far as there is room around the cursor.
pub(super) fn typed(input: &Input, secret: bool, width: usize) -> String {
    let scroll = input.visual_scroll(width.saturating_sub(1));
    if secret {
        return "*".repeat(input.value().chars().count().saturating_sub(scroll));
    }
    let mut skipped = 0;
    let rest = input.value().chars().skip_while(|c| {
        let skip = skipped < scroll;
        skipped += Span::raw(c.to_string()).width();
        skip
    });
    clipped(&rest.collect::<String>(), width)
}

/// Columns for a value: those of a word that is not there, too.
fn room<K>(row: &Row<'_, K>, width: usize, wide: bool) -> usize {
    if wide || matches!(row.kind, Kind::Line) { width + WORD + 1 } else { width }
}

fn value<K>(row: &Row<'_, K>) -> String {
    if !row.shown.is_empty() {
        return row.shown.clone();
    }
    match (&row.kind, &row.state) {
        (Kind::Flag(flag), _) => (if *flag { "[x] yes" } else { "[ ] no" }).to_owned(),
        (_, State::Loading) => "loading …".to_owned(),
        (_, State::Failed(_)) => "could not be loaded".to_owned(),
        (_, State::Empty) => "none there".to_owned(),
        (Kind::Button | Kind::Line, State::Ready) => String::new(),
        _ => "-".to_owned(),
    }
}

fn word<K>(row: &Row<'_, K>) -> &'static str {
    match row.state {
        _ if row.lock.is_some() => "locked",
        State::Loading => "loading",
        State::Failed(_) => "failed",
        State::Empty => "empty",
        State::Ready => row.word,
    }
}

/// What there is to say about a field.
fn detail<K: Clone + PartialEq>(
    form: &Form<K>,
    row: &Row<'_, K>,
    area: Rect,
    theme: Theme,
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut say = |mark: &str, text: &str, style: Style| {
        let width = usize::from(area.width).saturating_sub(2);
        for (index, part) in wrapped(text, width).into_iter().enumerate() {
            let mark = if index == 0 { mark } else { " " };
            lines.push(Line::styled(format!("{mark} {part}"), style));
        }
    };
    if let Some(problem) = &form.problem {
        say("!", problem, theme.bad());
    }
    for problem in &row.problems {
        say("!", problem, theme.bad());
    }
    let again = keys::shown(Action::Reload);
    match &row.state {
        // A problem may have told why already.
        State::Failed(reason) if row.problems.iter().any(|text| text.contains(reason)) => {
            say("~", &format!("{again} asks again"), theme.note());
        }
        State::Failed(reason) => {
            say("!", &format!("could not be loaded: {reason} ({again} asks again)"), theme.bad());
        }
        State::Empty => {
            let text = format!("the server shows this account none ({again} asks again)");
            say("~", &text, theme.note());
        }
        State::Loading | State::Ready => {}
    }
    if let (Some(reason), true) = (row.lock, form.problem.is_none()) {
        say("=", &format!("locked: {reason}"), theme.note());
    }
    for note in &row.notes {
        say("~", note, theme.note());
    }
    let width = value_width(area);
    let whole = &row.shown;
    let told = || row.problems.iter().chain(&row.notes).any(|text| text.contains(whole));
    if Span::raw(whole).width() > room(row, width, word(row).is_empty()) && !told() {
        say(" ", whole, Style::new());
    }
    if let (Kind::Choice { chosen, choices, .. }, true) = (&row.kind, form.is_browsing()) {
        let choice = choices.iter().find(|choice| choice.value == *chosen);
        if let Some(choice) = choice.filter(|choice| !choice.detail.is_empty()) {
            say(" ", &choice.detail, Theme::quiet());
        }
    }
    lines
}

/// The lines that there is room for; that some are left out is marked.
fn cut(mut lines: Vec<Line<'_>>, room: u16) -> Vec<Line<'_>> {
    let room = usize::from(room);
    if lines.len() > room {
        lines.truncate(room.saturating_sub(1));
        lines.push(Line::styled("  …", Theme::quiet()));
    }
    lines
}

/// Clears a place in the middle, draws a frame around it, and gives what is inside.
pub(crate) fn popup(
    frame: &mut Frame<'_>,
    area: Rect,
    width: u16,
    height: u16,
    borders: Borders,
    title: &str,
    drawn: &mut Drawn,
) -> Rect {
    let place = area.centered(
        Constraint::Length(width.min(area.width)),
        Constraint::Length(height.min(area.height)),
    );
    let block =
        Block::new().borders(borders).title(Line::styled(format!(" {title} "), Theme::title()));
    let inside = block.inner(place);
    frame.render_widget(Clear, place);
    frame.render_widget(block, place);
    drawn.put(place, Spot::Cover);
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_focus_is_always_among_the_lines_that_are_shown() {
        for count in 0..40 {
            for height in 1..20 {
                for focus in 0..count {
                    let first = first_shown(focus, count, height);
                    assert!((first..first + height).contains(&focus));
                }
            }
        }
    }
}
