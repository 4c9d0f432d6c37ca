
# --- servers as processes of this script

everything() {
    devices
    for_servers start
    check_all
}

check_all() { for_servers check; }

up() {
    for_servers can_start
    own_logs
    or_undo everything
}

down() { undo_if_up; }
