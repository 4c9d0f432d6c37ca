
# --- servers in containers

compose() { # WORDS...: with what compose.yaml leaves open
    local key name
    for key in "${tenants[@]}"; do
        look_up "$key"
        name=${key//-/_}
        [[ -z $instance ]] || export "MIG_${name^^}=$(<"$state/instance-$key")"
    done
    COTENANT_STATE=$state docker compose --project-directory "$here" --file "$here/compose.yaml" "$@"
}

compose_down() { compose down; }

is_served() { # TENANT
    look_up "$1"
    ((EUID == 0)) || [[ -z $mps ]] || fail "run this as root: containers do, and an MPS daemon serves one user"
}

everything() {
    devices
    note compose_down
    compose up --detach --wait
    check_all
}

up() {
    ! grep -nF REPLACE- -- "$here/compose.yaml" >&2 || fail "replace these lines of $here/compose.yaml"
    for_servers is_complete
    for_servers is_served
    or_undo everything
}

check_all() { for_servers attached; }

down() { undo_if_up; }
