
# --- servers as units

manager() { if ((EUID == 0)); then systemctl "$@"; else systemctl --user "$@"; fi; }

up() {
    for_servers can_start
    manager link "$here"/units/*
    manager start cotenant.target || {
        down || true
        fail "a unit failed: systemctl status 'cotenant-*' says which"
    }
    find_state || fail "the units ran, but no state was left behind"
    check_all || {
        down || true
        exit 1
    }
}

check_all() { for_servers check; }

down() {
    local -a units=("$here"/units/*)
    manager stop "${units[@]##*/}"
    manager disable "${units[@]##*/}" # removes the links
    if find_state; then undo; fi
}
