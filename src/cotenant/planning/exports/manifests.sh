#!/usr/bin/env bash
# Carries a cotenant plan out on a cluster. README.md beside this file says what it does and what it can't.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
manifests=()
tenants=()

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "error: $*"
    exit 1
}

each() { # COMMAND...: with every manifest
    local name
    for name in "${manifests[@]}"; do "$@" -f "$here/$name"; done
}

up() {
    local name tenant
    for name in "${manifests[@]}"; do
        ! grep -nF REPLACE- -- "$here/$name" >&2 || fail "replace these lines of $here/$name"
    done
    each kubectl apply -l '!app.kubernetes.io/name' # claims and configurations
    # One tenant at a time: a server measures the memory that is left when it starts.
    for tenant in "${tenants[@]}"; do
        each kubectl apply -l "app.kubernetes.io/name=$tenant"
        kubectl rollout status "deployment/$tenant" --timeout="${COTENANT_READY_S:-3600}s"
    done
}

main() {
    case "${1:-}" in
        up) up ;;
        down) each kubectl delete --ignore-not-found ;;
        *)
            say "usage: $0 up | down"
            exit 2
            ;;
    esac
}
