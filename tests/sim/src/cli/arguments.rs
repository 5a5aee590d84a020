//! Options and positions, as Proxmox VE's commands read them.

use super::table::Command;
use crate::schema;
use crate::schema::Parameters;
use crate::schema::Release;

/// Reads a command's arguments; an error is what is printed before the usage line.
///
/// Options may stand anywhere. One that takes a value takes the next argument whatever it looks
/// like; a boolean takes it only if it does not look like an option. `--` ends the options.
pub(super) fn parse(
    release: Release,
    command: &Command,
    arguments: &[String],
) -> Result<Parameters, Vec<String>> {
    let (mut parameters, positions) = options(release, command.endpoint, arguments)?;
    let mut positions = positions.into_iter();
    for name in command.positional {
        let Some(value) = positions.next() else {
            return Err(vec!["400 not enough arguments".to_owned()]);
        };
        parameters.insert((*name).to_owned(), value);
    }
    if positions.next().is_some() {
        return Err(vec!["400 too many arguments".to_owned()]);
    }
    Ok(parameters)
}

/// Reads the options alone; the rest is given back in order.
pub(super) fn options(
    release: Release,
    endpoint: &str,
    arguments: &[String],
) -> Result<(Parameters, Vec<String>), Vec<String>> {
    let mut parameters = Parameters::new();
    let mut positions = Vec::new();
    let mut problems = Vec::new();
    let mut arguments = arguments.iter().peekable();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            positions.extend(arguments.by_ref().cloned());
            break;
        }
        let Some(option) = argument.strip_prefix('-').filter(|option| !option.is_empty()) else {
            positions.push(argument.clone());
            continue;
        };
        let option = option.strip_prefix('-').unwrap_or(option);
        let (name, given) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (option, None),
        };
        let Some(definition) = schema::definition(release, endpoint, name) else {
            problems.push(format!("Unknown option: {name}"));
            continue;
        };
        let value = match given {
            Some(value) => value,
            None if definition.is_boolean() => {
                arguments.next_if(|next| !next.starts_with('-')).cloned().unwrap_or_default()
            }
            None => {
                let Some(value) = arguments.next() else {
                    problems.push(format!("Option {name} requires an argument"));
                    continue;
                };
                value.clone()
            }
        };
        let value = if definition.is_boolean() { boolean(&value).to_owned() } else { value };
        parameters.insert(name.to_owned(), value);
    }
    if problems.is_empty() {
        return Ok((parameters, positions));
    }
    problems.push("400 unable to parse option".to_owned());
    Err(problems)
}

fn boolean(value: &str) -> &str {
    match value.to_ascii_lowercase().as_str() {
        "" | "1" | "on" | "yes" | "true" => "1",
        "0" | "off" | "no" | "false" => "0",
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::options;
    use crate::schema::Release;

    const DESTROY: &str = "DELETE /nodes/{node}/qemu/{vmid}";

    fn read(endpoint: &str, line: &str) -> String {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        format!("{:?}", options(Release::V9_2, endpoint, &arguments))
    }

    #[test]
    fn a_boolean_takes_the_next_argument_unless_it_looks_like_an_option() {
        insta::assert_snapshot!(
            read(DESTROY, "300 --purge --skiplock"),
            @r#"Ok(({"purge": "1", "skiplock": "1"}, ["300"]))"#
        );
        insta::assert_snapshot!(
            read(DESTROY, "--purge 100"),
            @r#"Ok(({"purge": "100"}, []))"#
        );
    }

    #[test]
    fn an_option_with_a_value_takes_whatever_comes_next() {
        insta::assert_snapshot!(
            read("POST /nodes/{node}/qemu", "--name --memory -cores=2 100"),
            @r#"Ok(({"cores": "2", "name": "--memory"}, ["100"]))"#
        );
    }

    #[test]
    fn every_unknown_option_is_named() {
        insta::assert_snapshot!(
            read("POST /nodes/{node}/qemu", "--a 1 --b --name"),
            @r#"Err(["Unknown option: a", "Unknown option: b", "Option name requires an argument", "400 unable to parse option"])"#
        );
    }
}
