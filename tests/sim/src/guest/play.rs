//! Plays the answer to one command.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use crate::guest::Act;
use crate::guest::CloudInitEnd;
use crate::guest::End;
use crate::guest::Ended;
use crate::guest::Executed;
use crate::guest::Stream;
use crate::guest::boot::Booted;
use crate::guest::locked;
use crate::guest::recognise;
use crate::ssh::Call;
use crate::ssh::Exit;
use crate::ssh::Output;

/// The exit code of a shell that does not know a command.
const NOT_FOUND: u32 = 127;

/// Process ids are unique over all guests: nothing depends on them but `kill`.
static NEXT_PROCESS: AtomicU32 = AtomicU32::new(1000);

/// Plays the answer, and records the command from its arrival to its end.
pub(crate) async fn play(booted: &Booted, mut call: Call) -> Exit {
    let process = NEXT_PROCESS.fetch_add(1, Ordering::Relaxed);
    let recognised = match &call.text {
        Some(text) => recognise(text),
        None => crate::guest::Recognised { act: Act::Shell, announces: None },
    };
    let executed = Executed {
        process,
        user: call.user.clone(),
        text: call.text.clone().unwrap_or_default(),
        environment: std::mem::take(&mut call.environment),
        script: None,
        boot: booted.id.clone(),
        began: SystemTime::now(),
        ended: None,
    };
    booted.guest.see(|seen| seen.commands.push(executed));
    let killed = CancellationToken::new();
    locked(&booted.processes).insert(process, killed.clone());
    let answered = async {
        if let Some(stream) = recognised.announces {
            call.output.write(stream, format!("{process}\n")).await;
        }
        answer(booted, process, recognised.act, &mut call).await
    };
    let (exit, ended) = tokio::select! {
        exit = answered => (exit, exit.into()),
        () = killed.cancelled() => (Exit::Killed, Ended::Killed),
        () = booted.off.cancelled() => (Exit::Nothing, Ended::PowerOff),
    };
    locked(&booted.processes).remove(&process);
    change(booted, process, |executed| executed.ended = Some((SystemTime::now(), ended)));
    exit
}

fn change(booted: &Booted, process: u32, change: impl FnOnce(&mut Executed)) {
    booted.guest.see(|seen| {
        if let Some(executed) =
            seen.commands.iter_mut().rfind(|executed| executed.process == process)
        {
            change(executed);
        }
    });
}

async fn answer(booted: &Booted, process: u32, act: Act, call: &mut Call) -> Exit {
    let output = call.output.clone();
    match act {
        Act::CloudInitWait => {
            if booted.guest.behaviour.cloud_init.end != CloudInitEnd::Missing {
                booted.cloud_init_ended().await;
            }
            cloud_init_status(booted, &output, Form::Waited).await
        }
        Act::CloudInitStatus { long } => {
            cloud_init_status(booted, &output, if long { Form::Long } else { Form::Short }).await
        }
        Act::CloudInitPresent => {
            if booted.guest.behaviour.cloud_init.end == CloudInitEnd::Missing {
                return Exit::Code(NOT_FOUND);
            }
            output.write(Stream::Out, "/usr/bin/cloud-init\n").await;
            Exit::Code(0)
        }
        Act::BootId => {
            output.write(Stream::Out, format!("{}\n", booted.id)).await;
            Exit::Code(0)
        }
        Act::Script(_) => {
            let script = call.stdin.read_to_end().await;
            change(booted, process, |executed| executed.script = Some(script));
            run_script(booted, call).await
        }
        Act::Kill(target) => kill(booted, target, &output).await,
        Act::Nothing => Exit::Code(0),
        Act::Shell => {
            let spec = &booted.guest.spec;
            let greeting =
                format!("{} (VM {}) is acted: it has no shell.\r\n", spec.name, spec.vmid);
            output.write(Stream::Out, greeting).await;
            Exit::Code(0)
        }
        Act::Unknown(command) => {
            let name = command.split(' ').next().unwrap_or_default();
            output.write(Stream::Err, format!("bash: line 1: {name}: command not found\n")).await;
            Exit::Code(NOT_FOUND)
        }
    }
}

async fn cloud_init_status(booted: &Booted, output: &Output, form: Form) -> Exit {
    let end = booted.guest.behaviour.cloud_init.end;
    if end == CloudInitEnd::Missing {
        output.write(Stream::Err, "bash: line 1: cloud-init: command not found\n").await;
        return Exit::Code(NOT_FOUND);
    }
    let (status, detail, code) = match end {
        _ if !booted.cloud_init_has_ended() => ("running", "", 0),
        CloudInitEnd::Failed => {
            ("error", "errors:\n\t- ('scripts_user', RuntimeError('Runparts: 1 failures'))\n", 1)
        }
        CloudInitEnd::Degraded => {
            ("done", "recoverable_errors:\nWARNING:\n\t- Failed to set the locale\n", 2)
        }
        CloudInitEnd::Done | CloudInitEnd::Hangs | CloudInitEnd::Missing => ("done", "", 0),
    };
    let text = match form {
        // While it waits it draws a line of dots.
        Form::Waited => format!("....\nstatus: {status}\n"),
        Form::Short => format!("status: {status}\n"),
        Form::Long => format!("status: {status}\n{detail}"),
    };
    output.write(Stream::Out, text).await;
    Exit::Code(code)
}

/// How a status is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Waited,
    Short,
    Long,
}

async fn run_script(booted: &Booted, call: &Call) -> Exit {
    let script = &booted.guest.behaviour.script;
    for play in &script.lines {
        // Even a sleep of nothing takes a tick of the clock.
        if !play.after.is_zero() {
            tokio::time::sleep(play.after).await;
        }
        call.output.write(play.stream, play.bytes.clone()).await;
    }
    if matches!(script.end, End::LinkReset | End::LinkSilent) {
        call.output.arrived().await;
    }
    match script.end {
        End::Code(code) => Exit::Code(code),
        End::LeavesProcess(code) => Exit::OutputOpen(code),
        End::Killed => Exit::Killed,
        End::LinkReset => {
            call.link.cut();
            Exit::Nothing
        }
        End::LinkSilent => {
            call.link.silence();
            std::future::pending().await
        }
        End::Hangs => std::future::pending().await,
    }
}

async fn kill(booted: &Booted, target: u32, output: &Output) -> Exit {
    let process = locked(&booted.processes).get(&target).cloned();
    if let Some(process) = process {
        process.cancel();
        return Exit::Code(0);
    }
    output.write(Stream::Err, format!("bash: line 1: kill: ({target}) - No such process\n")).await;
    Exit::Code(1)
}
