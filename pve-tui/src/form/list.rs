//! Draws a list that is open above its form.

use ratatui::Frame;
use ratatui::layout::Constraint;
use ratatui::layout::Layout;
use ratatui::layout::Position;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::text::Span;
use ratatui::widgets::Borders;
use ratatui::widgets::Paragraph;

use super::draw::first_shown;
use super::draw::popup;
use super::draw::typed;
use super::picker::Item;
use super::picker::Picker;
use super::row::Kind;
use super::row::Row;
use super::row::State;
use super::text::clipped;
use crate::drawn::Drawn;
use crate::drawn::Spot;
use crate::style::Theme;

/// The width of the list: labels beside it would be cut.
const WIDTH: u16 = 80;

pub(super) fn draw_picker<K>(
    frame: &mut Frame<'_>,
    area: Rect,
    picker: &Picker,
    row: &Row<'_, K>,
    problem: Option<&str>,
    theme: Theme,
    drawn: &mut Drawn,
) {
    let items = picker.items(&row.kind);
    let several = matches!(row.kind, Kind::List { .. });
    let height = u16::try_from(items.len()).unwrap_or(u16::MAX).clamp(1, 100) + 4;
    let title = if several {
        format!("{}: Enter adds and removes, Esc closes", row.label)
    } else {
        row.label.to_string()
    };
    let inside = popup(frame, area, WIDTH, height, Borders::ALL, &title, drawn);
    let [top, list, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)])
            .areas(inside);
    let before = if several { "Type to filter or add: " } else { "Type to filter: " };
    let width = usize::from(top.width).saturating_sub(before.len());
    let shown = typed(&picker.filter, false, width);
    frame.render_widget(Line::raw(format!("{before}{shown}")), top);
    let x = before.len() + picker.filter.visual_cursor().min(width);
    frame.set_cursor_position(Position::new(top.x + u16::try_from(x).unwrap_or(0), top.y));
    let at = picker.position(&row.kind, &items);
    let height = usize::from(list.height);
    let first = first_shown(at, items.len(), height);
    let lines = items.iter().enumerate().skip(first).take(height);
    let lines: Vec<Line<'_>> =
        lines.map(|(index, item)| item_line(item, index == at, list)).collect();
    if lines.is_empty() {
        frame.render_widget(Line::raw(nothing(row, picker)), list);
    } else {
        for offset in 0..list.height.min(u16::try_from(lines.len()).unwrap_or(u16::MAX)) {
            let line = Rect { y: list.y + offset, height: 1, ..list };
            drawn.put(line, Spot::Item(first + usize::from(offset)));
        }
        frame.render_widget(Paragraph::new(lines), list);
    }
    let footer = match problem {
        Some(problem) => Line::styled(format!("! {problem}"), theme.bad()),
        None if items.is_empty() => Line::default(),
        None => Line::styled(format!("{} of {}", at + 1, items.len()), Theme::quiet()),
    };
    frame.render_widget(footer, bottom);
}

/// Why the list is empty.
fn nothing<K>(row: &Row<'_, K>, picker: &Picker) -> String {
    match &row.state {
        State::Loading => "loading …".to_owned(),
        State::Failed(reason) => format!("could not be loaded: {reason}"),
        _ if !picker.filter.value().is_empty() => "nothing fits".to_owned(),
        _ if matches!(row.kind, Kind::List { .. }) => "none there yet".to_owned(),
        State::Empty | State::Ready => "none there".to_owned(),
    }
}

fn item_line<'a>(item: &Item<'a>, focused: bool, area: Rect) -> Line<'a> {
    let check = match item.checked {
        Some(true) => "[x] ",
        Some(false) if !item.typed => "[ ] ",
        _ => "",
    };
    let mark = if focused { ">" } else { " " };
    let label = match (item.typed, item.checked) {
        (true, Some(_)) => format!("add '{}'", item.label),
        (true, None) => format!("take '{}' as it is", item.label),
        _ => item.label.to_owned(),
    };
    let detail = match item.unusable {
        Some(reason) => format!("{} (cannot be taken: {reason})", item.detail),
        None => item.detail.to_owned(),
    };
    let style = if focused { Theme::focus() } else { Style::new() };
    let text = format!("{check}{label}");
    let room = usize::from(area.width).saturating_sub(2);
    let text = clipped(&text, room);
    let left = room.saturating_sub(Span::raw(&text).width() + 2);
    Line::from(vec![
        Span::raw(mark),
        Span::raw(" "),
        Span::styled(text, style),
        Span::raw("  "),
        Span::styled(clipped(detail.trim(), left), Theme::quiet()),
    ])
}
