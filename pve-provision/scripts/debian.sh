#!/usr/bin/env bash
# Brings a new Debian (11 to 13) or Ubuntu (20.04 to 24.04) VM up to date: packages, guest agent,
# time zone, root's password.
#
# It is run as root by `bash -s`, with this text on standard input. Before it stand assignments:
#
#     VM_TIMEZONE='Europe/Berlin'
#     VM_ROOT_PASSWORD='secret'
#
# Values are single-quoted, a quote inside is written '\''; they hold no newline. A variable that
# is empty or missing leaves things as they are. The password is a shell variable that is not
# exported, and it leaves the shell by standard input alone: neither `ps` nor `set -x` shows it.
#
# Running it twice does no harm. It fails when anything that it was asked for did not happen.
set -euo pipefail

# How long another package manager (a first boot starts one) may hold its lock, in seconds.
lock_limit=600
# How often a command is tried that failed for another reason, such as a mirror that is out of date.
tries=3

say() {
    printf '%s\n' "$*"
}

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# Mirrors drop the backports of a release before anything else of it, and its images still name them.
leave_out_backports() {
    local file
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [[ -f $file ]] || continue
        sed --in-place --follow-symlinks --regexp-extended \
            -e 's/^deb(-src)?[[:space:]].*-backports[[:space:]].*/# &/' \
            -e '/^Suites:/s/[[:space:]][^[:space:]]+-backports([[:space:]]|$)/\1/' \
            -e 's/^Suites:[[:space:]]*$/&\nEnabled: no/' "$file"
    done
}

# apt-get without questions; patient with locks and mirrors.
apt() {
    local options=(
        --yes --quiet
        -o Acquire::Retries=3
        -o APT::Update::Error-Mode=any
        -o DPkg::Lock::Timeout="$lock_limit"
        -o Dpkg::Options::=--force-confdef
        -o Dpkg::Options::=--force-confold
        -o Dpkg::Use-Pty=0
    )
    local deadline=$((SECONDS + lock_limit)) failures=0 complaint status
    complaint=$(mktemp)
    while true; do
        status=0
        { apt-get "${options[@]}" "$@" 2>&1 >&3 | tee "$complaint" >&2; } 3>&1 || status=$?
        if ((status == 0)); then
            break
        fi
        # The lock timeout above covers dpkg's locks, but not those of the lists and the downloads.
        if grep --quiet --extended-regexp 'Could not get lock|Unable to lock' "$complaint"; then
            ((SECONDS < deadline)) || break
            say "another package manager is at work, waiting for it"
        else
            ((++failures < tries)) || break
            if grep --quiet --extended-regexp -- "-backports Release' (does not have|no longer has)" "$complaint"; then
                say "the mirror has no backports for this release any more: leaving them out"
                leave_out_backports
            fi
            say "apt-get $1 failed with exit code $status, trying again"
        fi
        sleep 5
    done
    rm -f "$complaint"
    if ((status != 0)); then
        fail "apt-get $1 failed with exit code $status"
    fi
}

start_agent() {
    # Where the unit is started by its device this changes nothing, and is no error.
    systemctl --quiet enable qemu-guest-agent.service
    if [[ -e /dev/virtio-ports/org.qemu.guest_agent.0 ]]; then
        systemctl start qemu-guest-agent.service
    else
        # Starting would wait for the device.
        say "the VM has no guest agent device; the agent starts when it has one"
    fi
}

set_timezone() {
    [[ -f /usr/share/zoneinfo/$VM_TIMEZONE ]] || fail "VM_TIMEZONE: there is no time zone '$VM_TIMEZONE'"
    say "setting the time zone to $VM_TIMEZONE"
    ln --symbolic --force "/usr/share/zoneinfo/$VM_TIMEZONE" /etc/localtime
    printf '%s\n' "$VM_TIMEZONE" >/etc/timezone
}

set_root_password() {
    say "setting root's password"
    chpasswd <<<"root:$VM_ROOT_PASSWORD"
    unset VM_ROOT_PASSWORD
}

main() {
    # needrestart would ask which services to restart; the VM is rebooted after this.
    export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 UCF_FORCE_CONFFOLD=1 LC_ALL=C

    say "updating the package index"
    apt update
    say "upgrading packages"
    apt upgrade --with-new-pkgs
    say "installing the guest agent"
    apt install qemu-guest-agent tzdata
    start_agent
    if [[ -n ${VM_TIMEZONE:-} ]]; then
        set_timezone
    fi
    # Not by its value, which `set -x` would show.
    if [[ ${VM_ROOT_PASSWORD:+set} ]]; then
        set_root_password
    fi
    say "the VM is up to date"
}

# One command on the last line: a stream that was cut runs nothing, and no child reads the script.
main </dev/null
