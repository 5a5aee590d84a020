//! Makes what differs from run to run the same, so that a snapshot holds what must not change.

use crate::sse::Message;

/// How far a copy is: how many of these there are depends on the machine.
const TRANSFERRED: &str = "  transferred ";
/// What a VM was like while it was waited for: which of these are seen depends on the moment of looking.
const STATES: [&str; 6] = [
    "[*] no route",
    "[*] port closed",
    "[*] connection reset",
    "[*] no banner",
    "[*] login refused",
    "[*] logged in",
];

/// One line per message: status and text under the step's name; transfers are one line, passing states none.
pub fn transcript(messages: &[Message]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut step = String::new();
    for message in messages {
        if message.is_close() {
            lines.push(format!("event: close, data: {}", message.data));
            continue;
        }
        let Ok(told) = message.told() else {
            lines.push(format!("not an event: {}", message.data));
            continue;
        };
        if told.step != step {
            lines.push(told.step.clone());
            step = told.step;
        }
        let passes =
            STATES.iter().chain([&TRANSFERRED]).any(|start| told.message.starts_with(start));
        if passes {
            continue;
        }
        let text = volatile(&told.message);
        let line = format!("    {:<10} {text}", told.status);
        // How many progress messages there are depends on the machine.
        let is_transfer = text.contains("MiB/s") && told.status == "processing";
        let is_repeated = lines.last().is_some_and(|last| last.contains("MiB/s"));
        if !(is_transfer && is_repeated) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// `text` with the figures that time decides as `#`.
pub fn volatile(text: &str) -> String {
    if text.contains("MiB/s") {
        return "[*] # of # MiB, # MiB/s".to_owned();
    }
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        result.push_str(before);
        // A duration: a decimal number right before the unit of seconds.
        let ends_word = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric());
        let is_duration = number.contains('.') && after.strip_prefix('s').is_some_and(ends_word);
        if is_duration {
            result.push_str("#.##");
        } else {
            result.push_str(number);
        }
        rest = after;
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_hidden_and_addresses_are_not() {
        assert_eq!(
            volatile("[+] VM installation completed in 182.41s"),
            "[+] VM installation completed in #.##s"
        );
        assert_eq!(volatile("[*] IP: 127.9.8.120 took 5s"), "[*] IP: 127.9.8.120 took 5s");
    }
}
