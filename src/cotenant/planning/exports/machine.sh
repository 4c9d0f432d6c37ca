#!/usr/bin/env bash
# Carries a cotenant plan out on this machine. README.md beside this file says what it does and what it can't.
set -euo pipefail
usual_umask=$(umask)
umask 077
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
record="$here/.state-$(id -u)" # names the folder that holds pipes, logs and process ids
logs="$here/logs"
tenants=()
servers=()
state=""

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "error: $*"
    exit 1
}

# --- the state: a folder that nobody else can write or guess, in memory where the system offers it

ours() { [[ -d $1 && ! -L $1 && -O $1 && $(stat -c %a -- "$1") == 700 ]]; }

new_state() {
    [[ ! -e $record && ! -L $record ]] || fail "this plan is up already, or was interrupted: run $0 down first"
    local new
    new=$(mktemp -- "$here/.new.XXXXXXXX") || fail "$here can't be written: copy it to a folder of yours"
    state=$(mktemp -d -- "${XDG_RUNTIME_DIR:-${TMPDIR:-/tmp}}/cotenant.XXXXXXXX")
    printf '%s\n' "$state" >"$new"
    : >"$state/undo"
    # A hard link is never made over a file or through a link that somebody put there meanwhile.
    if ! ln -T -- "$new" "$record"; then
        rm -rf -- "$new" "$state"
        fail "this plan is being started already"
    fi
    rm -f -- "$new"
}

find_state() { # fails if the plan isn't up
    [[ -f $record && ! -L $record && -O $record ]] || return 1
    IFS= read -r state <"$record" || return 1
    ours "$state"
}

# Every change is noted once it is made, and undone in reverse order.
note() { printf '%s\n' "$*" >>"$state/undo"; }

undo() {
    local -a steps=() words=() left=()
    local number
    mapfile -t steps <"$state/undo"
    for ((number = ${#steps[@]} - 1; number >= 0; number--)); do
        read -r -a words <<<"${steps[number]}"
        "${words[@]}" || left=("${steps[number]}" ${left[@]+"${left[@]}"})
    done
    if ((${#left[@]})); then
        printf '%s\n' "${left[@]}" >"$state/undo"
        say "error: not undone: ${left[*]}; run $0 down again"
        return 1
    fi
    rm -rf -- "$state"
    rm -f -- "$record"
}

# --- devices

uuid_of() { nvidia-smi -i "$1" --query-gpu=uuid --format=csv,noheader; }

needs_memory() { # GPU MIB
    local free
    free=$(nvidia-smi -i "$1" --query-gpu=memory.free --format=csv,noheader,nounits)
    [[ $free =~ ^[0-9]+$ ]] || fail "nvidia-smi doesn't say how much memory GPU $1 has free"
    ((free >= $2)) || fail "GPU $1 has $free MiB free; the plan needs $2 MiB"
}

# One MPS daemon per GPU. GPUs are named by UUID: with numbers, clients would count from the daemon's first GPU.
in_mps() { # GPU COMMAND...
    local gpu=$1
    shift
    CUDA_MPS_PIPE_DIRECTORY="$state/mps-$gpu" CUDA_MPS_LOG_DIRECTORY="$state/mps-$gpu-log" "$@"
}

mps_up() { # GPU
    local uuid
    uuid=$(uuid_of "$1")
    mkdir -- "$state/mps-$1" "$state/mps-$1-log"
    CUDA_VISIBLE_DEVICES=$uuid in_mps "$1" nvidia-cuda-mps-control -d
    note mps_down "$1"
}

mps_down() { # GPU
    local pid="" waited
    read -r pid <"$state/mps-$1/nvidia-cuda-mps-control.pid" 2>/dev/null || true
    echo quit | in_mps "$1" nvidia-cuda-mps-control || [[ -z $pid ]] || ! lives "$pid" || return 1
    for ((waited = 0; waited < 300; waited++)); do
        [[ -n $pid ]] && lives "$pid" || return 0
        sleep 0.1
    done
    return 1
}

instances_of() { nvidia-smi -i "$1" -L | sed -n 's/.*UUID: \(MIG-[^)]*\)).*/\1/p'; }

mig_mode_up() { # GPU
    local mode
    mode=$(nvidia-smi -i "$1" --query-gpu=mig.mode.current --format=csv,noheader)
    [[ $mode != Enabled ]] || return 0 # it stays on afterwards
    nvidia-smi -i "$1" -mig 1
    note mig_mode_down "$1"
}

mig_mode_down() { nvidia-smi -i "$1" -mig 0; }

mig_up() { # GPU PROFILE TENANT
    local before made id uuid
    before=$(instances_of "$1")
    made=$(nvidia-smi mig -i "$1" -cgi "$2" -C) || fail "no $2 instance on GPU $1: $made"
    id=$(sed -n 's/.*created GPU instance ID *\([0-9][0-9]*\) .*/\1/p' <<<"$made")
    [[ $id =~ ^[0-9]+$ ]] || fail "nvidia-smi doesn't say which instance it made: $made"
    note mig_down "$1" "$id"
    uuid=$(comm -13 <(sort <<<"$before") <(instances_of "$1" | sort))
    [[ $uuid == MIG-* && $uuid != *[[:space:]]* ]] || fail "nvidia-smi doesn't list the new $2 instance of GPU $1"
    printf '%s\n' "$uuid" >"$state/instance-$3"
}

mig_down() { # GPU INSTANCE
    nvidia-smi mig -i "$1" -dci -gi "$2" && nvidia-smi mig -i "$1" -dgi -gi "$2"
}

clock_up() { # GPU MHZ
    nvidia-smi -i "$1" -lgc "$2,$2"
    note clock_down "$1"
}

clock_down() { nvidia-smi -i "$1" -rgc; }

power_up() { # GPU WATTS
    local before
    before=$(nvidia-smi -i "$1" --query-gpu=power.limit --format=csv,noheader,nounits)
    nvidia-smi -i "$1" -pl "$2"
    note power_down "$1" "$before"
}

power_down() { nvidia-smi -i "$1" -pl "$2"; }

# --- tenants

# Sets what the plan says of a tenant.
look_up() { # TENANT
    memory="" gpus="" mps="" percentage="" instance="" ports="" ready="" needs=() command=()
    tenant "$1" || fail "unknown tenant; expected one of: ${tenants[*]}"
}

environment() { # TENANT: NAME=VALUE lines
    local number
    local -a uuids=()
    look_up "$1"
    if [[ -n $instance ]]; then
        printf 'CUDA_VISIBLE_DEVICES=%s\n' "$(<"$state/instance-$1")"
    elif [[ -n $gpus ]]; then
        for number in $gpus; do uuids+=("$(uuid_of "$number")"); done
        printf 'CUDA_VISIBLE_DEVICES=%s\n' "$(IFS=, && echo "${uuids[*]}")"
    fi
    if [[ -n $mps ]]; then
        in_mps "$mps" env | grep '^CUDA_MPS_[PL][A-Z]*_DIRECTORY='
        [[ -z $percentage ]] || printf 'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%s\n' "$percentage"
    fi
}

# --- servers: each in a session of its own, so that whatever it starts can be found again

facts_of() { # PID: sets `facts` to the fields of /proc/PID/stat behind the name
    local line=""
    { IFS= read -r -d '' line <"/proc/$1/stat"; } 2>/dev/null || [[ -n $line ]] || return 1
    read -r -a facts <<<"${line##*) }"
}

lives() { # PID
    local -a facts=()
    facts_of "$1" && [[ ${facts[0]} != Z ]]
}

members() { # SESSION: its processes
    local path
    local -a facts=()
    for path in /proc/[0-9]*; do
        facts_of "${path#/proc/}" || continue
        [[ ${facts[3]} != "$1" || ${facts[0]} == Z ]] || echo "${path#/proc/}"
    done
}

session_of() { # TENANT: fails if it was not started, or its number belongs to another process by now
    local pid since
    local -a facts=()
    { read -r pid since <"$state/process-$1"; } 2>/dev/null || return 1
    ! facts_of "$pid" || [[ ${facts[19]} == "$since" ]] || return 1
    echo "$pid"
}

answers() ( # PORT [PATH]: the port is open, and the path answers 200
    exec 2>/dev/null 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
    [[ -n ${2:-} ]] || exit 0
    printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' "$2" >&3
    read -r -t 10 line <&3 && [[ $line == HTTP/*" 200"* ]]
)

is_complete() { # TENANT: nothing of it is left to people
    local word
    look_up "$1"
    for word in "${command[@]}"; do
        [[ $word != *REPLACE-* ]] || fail "replace $word in $here/plan.sh, in the command of $1"
    done
    for word in ${needs[@]+"${needs[@]}"}; do
        [[ -e $here/$word ]] || fail "$1 needs $here/$word"
        [[ $word != *.json ]] || ! grep -qF REPLACE- -- "$here/$word" || fail "write the model of $1 in $here/$word"
    done
}

can_start() { # TENANT: before anything changes
    local word
    is_complete "$1"
    type -P "${command[0]}" >/dev/null || fail "$1 needs ${command[0]}, which isn't installed"
    for word in $ports; do ! answers "$word" || fail "port $word, which $1 needs, is in use"; done
}

spawn() { # NAME COMMAND...
    local name=$1 pid
    local -a facts=()
    shift
    (
        umask "$usual_umask"
        cd -- "$here"
        exec setsid "$@"
    ) >"$logs/$name.log" 2>&1 </dev/null &
    pid=$!
    facts_of "$pid" || fail "$name couldn't be started"
    printf '%s %s\n' "$pid" "${facts[19]}" >"$state/process-$name"
    note stop "$name"
}

start() { # TENANT: returns once it is ready, since others measure the memory that is left
    local -a settings=()
    look_up "$1"
    mapfile -t settings < <(environment "$1")
    spawn "$1" env ${settings[@]+"${settings[@]}"} "${command[@]}"
    await "$1" || {
        tail -n 20 -- "$logs/$1.log" >&2
        fail "see $logs/$1.log"
    }
}

serve() { # TENANT: becomes its server, for tools that keep processes themselves
    local -a settings=() facts=()
    can_start "$1"
    mapfile -t settings < <(environment "$1")
    ((${#settings[@]})) || exit 1
    facts_of "$$"
    printf '%s %s\n' "$$" "${facts[19]}" >"$state/process-$1"
    umask "$usual_umask"
    cd -- "$here"
    exec env "${settings[@]}" "${command[@]}"
}

await() { # TENANT [NAME]: until it answers, or what was spawned for it ends
    local session deadline=$((SECONDS + ${COTENANT_READY_S:-3600}))
    look_up "$1"
    until answers "${ports%% *}" "$ready"; do
        if session=$(session_of "${2:-$1}") && ! lives "$session"; then
            say "error: $1 ended before it was ready"
            return 1
        elif ((SECONDS >= deadline)); then
            say "error: $1 wasn't ready in time"
            return 1
        fi
        sleep 0.2
    done
    say "$1 answers at http://127.0.0.1:${ports%% *}"
}

stop() { # TENANT: the server ends by itself; what it leaves behind is ended
    local session signal deadline
    session=$(session_of "$1") || return 0
    deadline=$((SECONDS + 60))
    kill -TERM "$session" 2>/dev/null || true
    while lives "$session" && ((SECONDS < deadline)); do sleep 0.1; done
    for signal in TERM KILL; do
        # shellcheck disable=SC2046 # process ids
        kill "-$signal" $(members "$session") 2>/dev/null || return 0
        deadline=$((SECONDS + 3))
        while [[ -n $(members "$session") ]] && ((SECONDS < deadline)); do sleep 0.1; done
    done
    [[ -z $(members "$session") ]]
}

clients_of() { # GPU: processes attached to its MPS
    local server
    for server in $(echo get_server_list | in_mps "$1" nvidia-cuda-mps-control); do
        echo "get_client_list $server" | in_mps "$1" nvidia-cuda-mps-control
    done
}

used_by() { # PROCESSES: MiB
    local pid mib sum=0
    while IFS=', ' read -r pid mib; do
        if [[ $mib =~ ^[0-9]+$ && " $* " == *" $pid "* ]]; then sum=$((sum + mib)); fi
    done < <(nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits)
    echo "$sum"
}

check() { # TENANT: it runs, inside MPS if the plan says so; says how much memory it uses
    local session="" processes="" used
    look_up "$1"
    ! session=$(session_of "$1") || processes=$(members "$session")
    if [[ -z $processes ]]; then
        say "error: $1 isn't running: see $logs/$1.log"
        return 1
    fi
    if [[ -n $mps && -z $(comm -12 <(clients_of "$mps" | tr -d ' ' | sort) <(sort <<<"$processes")) ]]; then
        say "error: $1 isn't attached to the MPS of GPU $mps: it would take turns with the others"
        return 1
    fi
    if [[ -z $gpus && -z $instance ]]; then # on the CPU
        say "$1 runs"
        return 0
    fi
    # shellcheck disable=SC2086 # process ids
    used=$(used_by $processes)
    if ((used == 0)); then
        say "$1: nvidia-smi doesn't say how much memory it uses; the plan has $memory MiB"
    elif ((used > memory)); then
        say "warning: $1 uses $used MiB; the plan has $memory MiB"
    else
        say "$1 uses $used MiB; the plan has $memory MiB"
    fi
}

attached() { # TENANT: as many clients as the plan puts there; for tools that hide which process is whose
    local gpu key expected=0
    look_up "$1"
    gpu=$mps
    [[ -n $gpu ]] || return 0
    for key in "${tenants[@]}"; do
        look_up "$key"
        [[ $mps != "$gpu" ]] || expected=$((expected + 1))
    done
    (($(clients_of "$gpu" | wc -w) >= expected)) && return 0
    say "error: not all $expected tenants are attached to the MPS of GPU $gpu: they would take turns"
    return 1
}

# --- commands

for_servers() { # COMMAND: of each server, in order
    local key failed=0
    for key in ${servers[@]+"${servers[@]}"}; do "$1" "$key" || failed=1; done
    return "$failed"
}

own_logs() {
    [[ -d $logs ]] || mkdir -- "$logs"
    ours "$logs" || fail "$logs isn't a folder of yours alone"
}

or_undo() { # COMMAND...: what it changed is undone if it fails or is interrupted
    new_state
    trap '[[ -z $state ]] || undo' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    "$@"
    trap - EXIT
}

undo_if_up() {
    if find_state; then undo; else
        rm -f -- "$record" # left behind by a reboot; nothing is running
        say "this plan isn't up"
    fi
}

main() {
    local -a settings=()
    case "${1:-}" in
        up | down) "$1" ;;
        devices) or_undo devices ;;
        undo) ! find_state || undo ;;
        check)
            find_state || fail "this plan isn't up: run $0 up"
            check_all
            ;;
        serve | await)
            find_state || fail "this plan isn't up: run $0 up"
            "$1" "${2:?name a tenant}"
            ;;
        env | run)
            find_state || fail "this plan isn't up: run $0 up"
            mapfile -t settings < <(environment "${2:?name a tenant}")
            ((${#settings[@]})) || exit 2
            if [[ $1 == env ]]; then
                printf 'export %q\n' "${settings[@]}"
            else
                shift 2
                exec env "${settings[@]}" "$@"
            fi
            ;;
        *)
            say "usage: $0 up | down | check | env TENANT | run TENANT COMMAND..."
            exit 2
            ;;
    esac
}
