//! From a model to cells. Nothing here changes anything.

use pve_provision::create::Fact;
use ratatui::Frame;
use ratatui::layout::Constraint;
use ratatui::layout::Layout;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::text::Span;
use ratatui::widgets::Borders;
use ratatui::widgets::Paragraph;

use crate::app::Model;
use crate::app::Overlay;
use crate::app::Part;
use crate::drawn;
use crate::drawn::Drawn;
use crate::drawn::Spot;
use crate::drawn::more;
use crate::form;
use crate::form::clipped;
use crate::form::draw_rule;
use crate::form::popup;
use crate::form::wrapped;
use crate::form::wrapped_command;
use crate::hints;
use crate::keys::BINDINGS;
use crate::progress;
use crate::progress::Progress;
use crate::progress::Tone;
use crate::style::Theme;
use crate::wizard::Page;
use crate::wizard::Wizard;

/// The smallest terminal in which nothing is lost.
const WIDTH: u16 = 80;
const HEIGHT: u16 = 24;

/// Draws everything; says what lies where.
pub(crate) fn view(model: &Model, frame: &mut Frame<'_>) -> Drawn {
    let mut drawn = Drawn::default();
    let area = frame.area();
    if area.width < WIDTH || area.height < HEIGHT {
        let text = format!(
            "This terminal has {} columns and {} lines. pve-tui needs {WIDTH} and {HEIGHT}: make it larger. Nothing is lost meanwhile.",
            area.width, area.height
        );
        let lines = wrapped(&text, usize::from(area.width));
        frame.render_widget(
            Paragraph::new(lines.into_iter().map(Line::raw).collect::<Vec<_>>()),
            area,
        );
        return drawn;
    }
    let [top, tabs, rule, body, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(header(model, top), top);
    draw_rule(frame, rule, "");
    match (model.part, &model.wizard, &model.progress) {
        (Part::Wizard, Some(wizard), _) => {
            frame.render_widget(tab_line(wizard, tabs, &mut drawn), tabs);
            let rows = wizard.sheet.rows();
            form::draw(frame, body, &wizard.form, &rows, model.theme, Vec::new(), &mut drawn);
        }
        (Part::Progress, _, Some(progress)) => {
            let title = format!("Create VM {}", progress.plan.vmid());
            frame.render_widget(Line::styled(title, Theme::title()), tabs);
            draw_progress(frame, body, progress, model.theme, &mut drawn);
        }
        _ => {
            frame.render_widget(Line::styled("Log in", Theme::title()), tabs);
            draw_login(frame, body, model, &mut drawn);
        }
    }
    let hints = clipped(&hints::line(model), usize::from(bottom.width));
    frame.render_widget(Line::styled(hints, Theme::quiet()), bottom);
    match &model.overlay {
        Some(Overlay::Help(scroll)) => help(frame, area, *scroll, &mut drawn),
        Some(Overlay::Request(scroll)) => request(frame, area, *scroll, model, &mut drawn),
        Some(Overlay::Leave(loss)) => leave(frame, area, loss, &mut drawn),
        None => {}
    }
    drawn
}

fn header(model: &Model, area: Rect) -> Line<'static> {
    let mut text = "pve-tui · Create VM".to_owned();
    if let Some(wizard) = &model.wizard {
        let facts = &wizard.sheet.facts;
        let server = model.at.first().map(|address| format!(" at {address}"));
        text = format!("{text} · {}{}", facts.account, server.unwrap_or_default());
        if let Fact::There(version) = facts.version() {
            text = format!("{text} · Proxmox VE {version}");
        }
    }
    Line::styled(clipped(&text, usize::from(area.width)), Theme::title())
}

/// The screens; the current one in brackets, and `!` at those that have a problem.
fn tab_line(wizard: &Wizard, area: Rect, drawn: &mut Drawn) -> Line<'static> {
    let mut spans = Vec::new();
    let mut x = area.x;
    for (index, page) in Page::ALL.into_iter().enumerate() {
        let here = page == wizard.sheet.page;
        let mark = if wizard.sheet.has_problem(page) { "!" } else { "" };
        let text = match (here, wizard.sheet.disk) {
            (true, Some(disk)) => format!("[{} > {disk}{mark}]", page.title()),
            (true, None) => format!("[{}{mark}]", page.title()),
            (false, _) => format!(" {}{mark} ", page.title()),
        };
        let style = if here { Theme::title() } else { Style::new() };
        let width = u16::try_from(text.len()).unwrap_or(u16::MAX);
        drawn.put(Rect { x, width, ..area }, Spot::Page(index));
        x = x.saturating_add(width);
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

fn draw_login(frame: &mut Frame<'_>, area: Rect, model: &Model, drawn: &mut Drawn) {
    let sheet = &model.login.sheet;
    let width = usize::from(area.width).saturating_sub(2);
    let lines: Vec<Line<'static>> = if let Some(busy) = sheet.busy {
        vec![Line::raw(format!("… {busy}"))]
    } else if let Some(failure) = &sheet.failure {
        let lines = wrapped(failure, width).into_iter();
        lines.map(|line| Line::styled(format!("! {line}"), model.theme.bad())).collect()
    } else {
        Vec::new()
    };
    form::draw(frame, area, &model.login.form, &sheet.rows(), model.theme, lines, drawn);
}

fn toned(theme: Theme, tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Title => Theme::title(),
        Tone::Good => theme.good(),
        Tone::Bad => theme.bad(),
    }
}

/// The log, and below it how it ended, as one text that can be scrolled; then the offers.
fn draw_progress(
    frame: &mut Frame<'_>,
    area: Rect,
    progress: &Progress,
    theme: Theme,
    drawn: &mut Drawn,
) {
    let width = usize::from(area.width);
    let line = |(tone, text): &(Tone, String)| {
        let (style, lines) = (toned(theme, *tone), wrapped(text, width));
        lines.into_iter().map(move |line| Line::styled(line, style)).collect::<Vec<_>>()
    };
    let mut lines: Vec<Line<'_>> = progress.log.iter().flat_map(line).collect();
    let mut rows = Vec::new();
    if progress.end.is_some() && !lines.is_empty() {
        lines.push(Line::styled("─".repeat(width), Theme::quiet()));
    }
    let log = lines.len();
    if let Some(end) = &progress.end {
        lines.extend(progress.verdict(end).iter().flat_map(line));
        rows = progress::rows(end);
    }
    let offers = u16::try_from(rows.len()).unwrap_or(u16::MAX).min(area.height / 2);
    let room = area.height.saturating_sub(offers + 1);
    let needed = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let [text, rule, choices, _] = Layout::vertical([
        Constraint::Length(needed.min(room)),
        Constraint::Length(1),
        Constraint::Length(offers),
        Constraint::Min(0),
    ])
    .areas(area);
    // Of a verdict that is too long for the room its beginning is shown, else as much as there is.
    let most = lines.len().saturating_sub(usize::from(text.height));
    let own = if progress.end.is_some() { most.min(log) } else { most };
    let part = drawn::Part::of(lines.len(), text.height, progress.first.unwrap_or(own));
    drawn.text = part;
    let shown: Vec<Line<'_>> = lines.into_iter().skip(part.first).take(part.height).collect();
    frame.render_widget(Paragraph::new(shown), text);
    let hidden = more(part.first, part.below());
    if progress.end.is_some() || !hidden.is_empty() {
        draw_rule(frame, rule, &hidden);
    }
    form::draw_rows(frame, choices, &progress.form, &rows, theme, drawn);
}

/// A text above everything else, as wide as the screen; nothing beside it gets in the way of
/// somebody who copies it.
fn scrolled(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    lines: Vec<Line<'_>>,
    scroll: usize,
    drawn: &mut Drawn,
) {
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let borders = Borders::TOP | Borders::BOTTOM;
    let inside = popup(frame, area, area.width, height, borders, title, drawn);
    let part = drawn::Part::of(lines.len(), inside.height, scroll);
    drawn.text = part;
    let shown: Vec<Line<'_>> = lines.into_iter().skip(part.first).take(part.height).collect();
    frame.render_widget(Paragraph::new(shown), inside);
    let below = Rect { y: inside.bottom(), height: 1, ..inside };
    draw_rule(frame, below, &more(part.first, part.below()));
}

fn help(frame: &mut Frame<'_>, area: Rect, scroll: usize, drawn: &mut Drawn) {
    let mut lines: Vec<Line<'_>> = BINDINGS
        .iter()
        .map(|binding| Line::raw(format!("{:<16}{}", binding.shown, binding.what)))
        .collect();
    lines.push(Line::raw("Typing on a field replaces it; on a list it filters."));
    lines.push(Line::raw("Marks: > focus   ! problem   ~ note   = locked"));
    scrolled(frame, area, "Keys (Esc closes)", lines, scroll, drawn);
}

fn request(frame: &mut Frame<'_>, area: Rect, scroll: usize, model: &Model, drawn: &mut Drawn) {
    let Some(wizard) = &model.wizard else { return };
    let width = usize::from(area.width);
    let mut lines = Vec::new();
    let mut say = |text: &str, style: Style| {
        lines.extend(wrapped(text, width).into_iter().map(|line| Line::styled(line, style)));
    };
    let (normal, title) = (Style::new(), Theme::title());
    let command = |line: &String| wrapped_command(line, width).join("\n");
    match &wizard.sheet.plan {
        Ok(plan) => {
            say(&format!("POST /nodes/{}/qemu", plan.node), title);
            for (name, value) in plan.parameters() {
                say(&format!("  {name}={value}"), normal);
            }
            say("The same by pvesh, on any node", title);
            plan.pvesh_lines().iter().for_each(|line| say(&command(line), normal));
            say(&format!("The same by qm, on {}", plan.node), title);
            plan.qm_lines().iter().for_each(|line| say(&command(line), normal));
        }
        Err(not_ready) => {
            say("There is no request yet:", title);
            say(&not_ready.to_string(), normal);
        }
    }
    scrolled(frame, area, "The request (Esc closes)", lines, scroll, drawn);
}

fn leave(frame: &mut Frame<'_>, area: Rect, loss: &str, drawn: &mut Drawn) {
    let mut lines = wrapped(loss, 58);
    lines.push(String::new());
    lines.push("Enter leaves, Esc stays.".to_owned());
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let inside = popup(frame, area, 60, height, Borders::ALL, "Leave?", drawn);
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::raw).collect();
    frame.render_widget(Paragraph::new(lines), inside);
}
