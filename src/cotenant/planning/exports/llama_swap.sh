
# --- servers of llama-swap

awaited() { await "$1" _llama-swap; }

everything() {
    devices
    spawn _llama-swap llama-swap --config llama-swap.yaml --listen "127.0.0.1:$door"
    for_servers awaited
    check_all
}

up() {
    type -P llama-swap >/dev/null || fail "llama-swap isn't installed"
    ! answers "$door" || fail "port $door, which llama-swap needs, is in use"
    for_servers can_start
    own_logs
    or_undo everything
}

check_all() { for_servers attached; }

down() { undo_if_up; }
