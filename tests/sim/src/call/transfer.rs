//! Files that come to a storage: uploads and downloads.

use serde_json::json;
use sha2::Digest;
use sha2::Sha256;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Output;
use crate::call::Request;
use crate::call::Worker;
use crate::call::drive;
use crate::call::migrate::clock;
use crate::world::Storage;
use crate::world::Volume;
use crate::world::Web;
use crate::world::World;

/// Answers the endpoints that bring files.
pub(super) fn dispatch(
    world: &mut World,
    endpoint: &str,
    request: Request<'_>,
) -> Option<Result<Answer, Died>> {
    Some(match endpoint {
        "GET /nodes/{node}/query-url-metadata" => metadata(world, request),
        "POST /nodes/{node}/storage/{storage}/download-url" => download(world, request),
        "POST /nodes/{node}/storage/{storage}/upload" => upload(world, request),
        _ => return None,
    })
}

/// The reason in a failed answer of the web.
fn unreachable(url: &str) -> String {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default();
    let with_port = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let name = host.split(':').next().unwrap_or_default();
    let known = name.parse::<std::net::IpAddr>().is_ok() || name == "localhost";
    let why = if known { "Connection refused" } else { "Temporary failure in name resolution" };
    format!("500 Can't connect to {with_port} ({why})")
}

fn metadata(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let url = request.get("url").unwrap_or_default();
    let wrong = |text: String| Died::new(format!("invalid server response: '{text}'"));
    match world.host.web(url) {
        None => Err(wrong(unreachable(url))),
        Some(Web { missing: Some(text), .. }) => Err(wrong(text)),
        Some(web) => {
            let mut data = json!({"size": web.size, "mimetype": web.mime});
            let name = url.rsplit('/').next().unwrap_or_default();
            if !name.is_empty() {
                data["filename"] = json!(name);
            }
            Ok(Answer::data(data))
        }
    }
}

/// Whether a file says that it is one by its name.
fn is_qcow2(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, end)| end == "qcow2")
}

/// A file name as a storage takes it.
fn file_name(request: Request<'_>, content: &str) -> Result<String, Died> {
    let given = request.get("filename").unwrap_or_default();
    let name = given.rsplit('/').next().unwrap_or_default();
    let name: String = name
        .chars()
        .map(|letter| {
            let fine = letter.is_ascii_alphanumeric() || "_-.+=".contains(letter);
            if fine { letter } else { '_' }
        })
        .collect();
    let ends = |ends: &[&str]| ends.iter().any(|end| name.to_lowercase().ends_with(end));
    let (fits, text) = match content {
        "iso" => (ends(&[".iso", ".img"]), "wrong file extension"),
        "vztmpl" => (ends(&[".tar.gz", ".tar.xz", ".tar.zst"]), "wrong file extension"),
        _ => (ends(&[".qcow2", ".raw", ".vmdk", ".ova"]), "invalid filename or wrong extension"),
    };
    if fits { Ok(name) } else { Err(Died::parameter("filename", text)) }
}

/// Where a file of this kind is to go.
fn place(world: &World, request: Request<'_>, content: &str) -> Result<Storage, Died> {
    let name = request.get("storage").unwrap_or_default();
    let storage = drive::usable_storage(world, request.node, name)?.clone();
    if !storage.holds(content) {
        let text = format!("storage '{name}' is not configured for content-type '{content}'");
        return Err(Died::new(text));
    }
    Ok(storage)
}

fn volume(storage: &str, content: &str, name: &str, size: u64) -> Volume {
    let end = name.rsplit('.').next().unwrap_or_default();
    Volume {
        storage: storage.to_owned(),
        node: None,
        name: format!("{content}/{name}"),
        content: content.to_owned(),
        format: if content == "import" { end } else { content }.to_owned(),
        size,
        vmid: None,
        imported_from: None,
    }
}

/// `POST …/upload`, once the file has come.
fn upload(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let content = request.get("content").unwrap_or_default().to_owned();
    let storage = place(world, request, &content)?;
    let name = file_name(request, &content)?;
    let temporary = request.get("tmpfilename").unwrap_or_default().to_owned();
    let (bytes, size) = world
        .host
        .files
        .get(&temporary)
        .cloned()
        .ok_or_else(|| Died::new(format!("temporary file '{temporary}' does not exist")))?;
    let wanted = request.get("checksum").map(str::to_owned);
    let node = request.node.to_owned();
    let user = &request.caller.user;
    let upid = world.begin_task(&node, "imgcopy", "", user);
    Ok(Answer::worker(Worker::new(upid).then(move |world, output| {
        world.host.files.remove(&temporary);
        let path = world.path_of(&storage, &format!("{content}/{name}"));
        output.say(format!("starting file import from: {temporary}"));
        if let Some(wanted) = wanted {
            check_sum(&hex::encode(Sha256::digest(&bytes)), &wanted)?;
        }
        if is_qcow2(&name) && !bytes.starts_with(b"QFI\xfb") {
            return Err(Died::new(not_qcow2(&temporary)));
        }
        output.say(format!("target node: {node}"));
        output.say(format!("target file: {path}"));
        output.say(format!("file size is: {size}"));
        output.say(format!("command: cp -- {temporary} {path}"));
        put(world, &node, volume(&storage.name, &content, &name, size));
        let head = bytes.iter().take(32).copied().collect();
        world.host.files.insert(path, (head, size));
        output.say("finished file import successfully");
        Ok(())
    })))
}

fn not_qcow2(path: &str) -> String {
    format!("qemu-img: Could not open '{path}': Image is not in qcow2 format")
}

fn check_sum(got: &str, wanted: &str) -> Result<(), Died> {
    if got == wanted {
        return Ok(());
    }
    Err(Died::new(format!("checksum mismatch: got '{got}' != expect '{wanted}'")))
}

/// A file replaces one of its name.
fn put(world: &mut World, node: &str, volume: Volume) {
    world.take_volume(node, &volume.storage.clone(), &volume.name.clone());
    world.put_volume(node, volume);
}

/// `POST …/download-url`.
fn download(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let content = request.get("content").unwrap_or_default().to_owned();
    let storage = place(world, request, &content)?;
    let name = file_name(request, &content)?;
    let url = request.get("url").unwrap_or_default().to_owned();
    let wanted = request.get("checksum").map(str::to_owned);
    let node = request.node.to_owned();
    let upid = world.begin_task(&node, "download", &name, &request.caller.user);
    Ok(Answer::worker(Worker::new(upid).then(move |world, output| {
        let volume_name = format!("{content}/{name}");
        let path = world.path_of(&storage, &volume_name);
        output.say(format!("downloading {url} to {path}"));
        if world.volume(&node, &storage.name, &volume_name).is_some() {
            return already_there(world, &path, wanted.as_deref(), output);
        }
        let (web, temporary) = fetch(world, &url, &path, output)?;
        if let Some(wanted) = &wanted {
            let checked = check_sum(&web.sum(), wanted);
            let end = if checked.is_ok() { "OK, checksum verified" } else { "" };
            output.say(format!("calculating checksum...{end}"));
            checked?;
        }
        if is_qcow2(&name) && web.format != "qcow2" {
            let text = format!("failed to verify file: {}", not_qcow2(&temporary));
            return Err(Died::new(text));
        }
        output.say(format!("download of '{url}' to '{path}' finished"));
        world.host.sums.insert(path.clone(), web.sum());
        if let Some(head) = web.head() {
            world.host.files.insert(path, (head, web.size));
        }
        put(world, &node, volume(&storage.name, &content, &name, web.size));
        Ok(())
    })))
}

/// A file that is there may only stay as it is.
fn already_there(
    world: &World,
    path: &str,
    wanted: Option<&str>,
    output: &mut Output,
) -> Result<(), Died> {
    let Some(wanted) = wanted else {
        return Err(Died::new(format!("refusing to override existing file '{path}'")));
    };
    let calculating = "calculating checksum of existing file...";
    let got = world.host.sums.get(path).cloned().unwrap_or_default();
    if got == wanted {
        output.say(format!("{calculating}OK, got correct file already, no need to download"));
        return Ok(());
    }
    output.say(calculating);
    let died = format!("checksum mismatch: got '{got}' != expect '{wanted}', aborting");
    Err(Died::new(died))
}

/// The file behind an address, with what the downloading program prints.
fn fetch(world: &World, url: &str, path: &str, output: &mut Output) -> Result<(Web, String), Died> {
    let clock = clock(world.now);
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default();
    output.say(format!("--{clock}--  {url}"));
    let Some(web) = world.host.web(url) else {
        let text = format!("Connecting to {host}... failed: Connection refused.");
        return Err(Died::new(format!("download failed: {text}")));
    };
    output.say(format!("Connecting to {host}... connected."));
    let sent = "HTTP request sent, awaiting response...";
    if let Some(missing) = &web.missing {
        output.say(format!("{sent} {missing}"));
        let (status, text) = missing.split_once(' ').unwrap_or((missing, ""));
        output.say(format!("{clock} ERROR {status}: {text}."));
        return Err(Died::new("download failed: exit code 8"));
    }
    let temporary = format!("{path}.tmp_dwnl.{}", 4353);
    output.say(format!("{sent} 200 OK"));
    output.say(format!("Length: {} ({}) [{}]", web.size, rounded(web.size), web.mime));
    output.say(format!("Saving to: '{temporary}'"));
    output.say("     0K ........                           100%  517M=0.03s");
    output.say(format!("{clock} (517 MB/s) - '{temporary}' saved [{0}/{0}]", web.size));
    Ok((web, temporary))
}

/// A size as the program shows it: one digit behind the point below ten.
fn rounded(size: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    let mebibytes = size as f64 / f64::from(1 << 20);
    if mebibytes < 10.0 { format!("{mebibytes:.1}M") } else { format!("{mebibytes:.0}M") }
}
