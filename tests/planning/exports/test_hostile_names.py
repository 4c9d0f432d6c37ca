"""Names of tenants, devices and models that hold commands: exported for every target, then run and parsed."""

from dataclasses import replace

import pytest
import yaml

from cotenant.errors import StudyError
from cotenant.planning.exports import CARRIERS, SERVERS, TARGETS, servers
from cotenant.planning.exports.model import LONGEST_KEY, CannotExpress, Model, distinct, exported
from cotenant.tenancy.values import LONGEST_NAME, RESERVED_IN_NAMES
from tests.support.exported_plans import Machine, device, files_for, free_ports, plan, plan_of, seat

HOSTILE = [
    "$(touch X)", "`touch X`", "a'; touch X; '", 'a"; touch X; "', "a; touch X #", "# touch X", "-rf", "--help",
    "a b", "A-B", "a_b", "a*?[b]", "é中文🎉", "中文", "~", "!!", "${IFS}touch${IFS}X", "a\\", "%n%s", "{{x}}", "*alias",
    "&anchor", "yes", "null", "1e3", "[x]", "| touch X", "> X", "x" * 300, "../../X", "/etc/X", "<b>", "a=b", "$HOME",
]  # fmt: skip
UNPRINTABLE = ["a\nb: c", "a\rb", "a\tb", "a\0b", "a\x1b[2Jb", "a\u2028b", "a\u202eb", "", " ", "x" * 301]
SHARES = {"alone": None, "processes": None, "mps": 40.0, "mig": "1g.10gb"}


def fits_a_file(name):
    """Whether a tenants file accepts the name."""
    return len(name) <= LONGEST_NAME and not set(name) & set(RESERVED_IN_NAMES)


def hostile_plan(target, sharing, *, generates):
    """Every hostile name as tenant, workload and weights; two of them as devices."""
    names = HOSTILE[:8] if sharing == "mig" else HOSTILE
    if target == "cotenant":
        names = [name for name in names if fits_a_file(name)]
    if target in (*SERVERS, *CARRIERS):  # each takes a second
        names = [" ".join(HOSTILE[:6]), *HOSTILE[:2]]
    seats = [seat(name, share=SHARES[sharing], gib=1) for name in names]
    devices = [device(sharing, *seats[start::2], name=seats[start].tenant) for start in (0, 1)]
    texts = {name: name.lstrip("-") for name in names}
    models = {
        name: Model(text, generates=generates, weights=text, dtype=text, seq=8, runs={"workload": text})
        for name, text in texts.items()
    }
    return plan_of(*devices), models


def test_every_tenant_has_a_plain_key_of_its_own():
    keys = distinct(HOSTILE)
    assert len(set(keys)) == len(HOSTILE)
    assert all(set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for key in keys)
    assert all(0 < len(key) <= LONGEST_KEY and key.strip("-") == key for key in keys)


def test_a_name_that_is_a_key_keeps_it_whoever_else_would_get_it():
    assert distinct(["A b", "a-b", "a-b-2", "a_b", "a-b"]) == ["a-b-3", "a-b", "a-b-2", "a-b-4", "a-b-5"]


@pytest.mark.parametrize("sharing", sorted(SHARES))
@pytest.mark.parametrize(
    ("target", "generates"),
    [*((target, False) for target in TARGETS), *((target, True) for target in (*SERVERS, "llama-swap"))],
)
def test_no_name_is_executed(tmp_path, monkeypatch, target, sharing, generates):
    monkeypatch.setattr(servers, "FIRST_PORT", free_ports(24))
    made, models = hostile_plan(target, sharing, generates=generates)
    plain = plan_of(
        *(device(sharing, *(seat(name, share=SHARES[sharing]) for name in pair), name=pair) for pair in ("ab", "cd"))
    )
    try:
        files_for(target, plain, dict.fromkeys("abcd", Model("m", generates=generates, runs={"workload": "m"})))
    except CannotExpress:  # whatever the names
        with pytest.raises(CannotExpress, match="can't express"):
            files_for(target, made, models)
        return
    machine = Machine(tmp_path)
    files = files_for(target, made, models, folder=machine.folder)
    machine.write({name: text.replace("REPLACE-", "") for name, text in files.items() if name.endswith(".yaml")})
    machine.write({name: text for name, text in files.items() if not name.endswith(".yaml")})
    machine.provide(files)
    for script in machine.folder.glob("*.sh"):
        script.chmod(0o755)
    for name, text in files.items():
        assert len(name) < 200
        assert not any(line.startswith("#") and "touch" in line for line in text.splitlines()), "a name in a comment"
        if name.endswith(".yaml"):
            assert list(yaml.safe_load_all(text))
        if name.endswith(".sh"):
            for command in ("up", "down"):
                done = machine.run(name, command, cwd=tmp_path)
                unattached = "not all" in done.stderr  # containers of a stand-in are no clients of MPS
                assert done.returncode == 0 or (target == "compose" and unattached), done.stderr
    assert list(tmp_path.rglob("X")) == []
    written = {str(path.relative_to(machine.folder)) for path in machine.folder.rglob("*") if path.is_file()}
    assert set(files) <= written, "every file is inside the folder"
    assert machine.running == []


@pytest.mark.parametrize("name", [name for name in HOSTILE if not fits_a_file(name)], ids=lambda name: name[:20])
def test_a_name_that_a_tenants_file_refuses_is_not_written_to_a_plan(name):
    with pytest.raises(StudyError, match="the plan can't be written") as refused:
        files_for("cotenant", plan("alone", seat(name)), {name: Model("m", runs={"workload": "m"})})
    assert refused.value.problems[0].startswith("tenant: ")


@pytest.mark.parametrize("name", UNPRINTABLE, ids=lambda name: repr(name)[:20])
def test_names_of_several_lines_are_refused_wherever_they_stand(name):
    fine = plan("processes", seat("a"), seat("b"))
    models = {"a": Model("m"), "b": Model("m"), name: Model("m")}
    renamed = replace(fine.devices[0].tenants[0], tenant=name)
    hostile = [
        (replace(fine, devices=(replace(fine.devices[0], tenants=(renamed,)),)), models),
        (replace(fine, devices=(replace(fine.devices[0], name=name),)), models),
        (replace(fine, devices=(replace(fine.devices[0], title=name),)), models),
        (replace(fine, devices=(replace(fine.devices[0], sharing=name),)), models),
        (fine, {**models, "a": Model(name)}),
        (fine, {**models, "a": Model("m", weights=name)}),
    ]
    for made, given in hostile:
        with pytest.raises(StudyError, match="can't be exported as"):
            exported(made, given, "/srv")


@pytest.mark.parametrize("share", ["3g.40gb; touch X", "$(touch X)", "3g.40gb\n", "-1g.5gb", "3g", 60.0, None])
def test_only_mig_profiles_are_exported_as_such(share):
    with pytest.raises(StudyError, match="can't be exported as"):
        exported(plan("mig", seat("embed", share=share)), {"embed": Model("bert-base")}, "/srv")


@pytest.mark.parametrize("value", ["1095; touch X", float("nan"), float("inf"), -1, True])
def test_only_numbers_are_exported_as_clocks(value):
    fine = plan("alone", seat("embed"))
    held = replace(fine, devices=(replace(fine.devices[0], clock_mhz=value),))
    with pytest.raises(StudyError, match="can't be exported as a clock"):
        exported(held, {"embed": Model("bert-base")}, "/srv")
