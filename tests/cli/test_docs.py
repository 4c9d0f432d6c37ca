"""The documentation matches the code, and its links work."""

import re
from pathlib import Path

import pytest

from tests.support.scripts import loaded

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)|<img[^>]+src=\"([^\"]+)\"")


GENERATOR = loaded(ROOT / "docs/generate.py")


@pytest.mark.parametrize("name", GENERATOR.PAGES)
def test_the_reference_matches_the_code(name, monkeypatch):
    for variable in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    on_disk = (ROOT / "docs/reference" / name).read_text(encoding="utf-8")
    assert on_disk == GENERATOR.NOTE + GENERATOR.PAGES[name](), "run `make reference`"


def test_help_names_values_in_words_and_leaves_no_line_of_a_list_unfinished():
    page = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^ +--\S+ .*(?:INTEGER|FLOAT|%Y).*", page, flags=re.MULTILINE) == []
    lists = re.findall(r"^Commands:\n((?:  .*\n)+)", page, flags=re.MULTILINE)
    assert len(lists) == 3
    assert [line for entries in lists for line in entries.splitlines() if line.endswith("...")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files_and_headings(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = LINK.findall(text) + [first or second for first, second in PICTURE.findall(text)]
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), f"{page.relative_to(ROOT)} links to {target}"
        if heading:
            assert heading in anchors(file), f"{page.relative_to(ROOT)} links to {target}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ +(.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_index():
    seen, ahead = set(), [ROOT / "docs/index.md"]
    while ahead:
        page = ahead.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        ahead += [(page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(text) if "://" not in link]
    missing = [str(page.relative_to(ROOT)) for page in PAGES if "docs" in page.parts and page not in seen]
    assert missing == [], "link them in docs/index.md"


GUIDE_FILES = [
    (page.name, block)
    for page in sorted(ROOT.glob("docs/guide/*.md"))
    for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    if re.search(r"^tenants:", block, flags=re.MULTILINE)
]


@pytest.mark.parametrize(("page", "verbs"), [("plan.md", 3), ("loop.md", 3), ("serve.md", 3), ("own-study.md", 1)])
def test_the_first_tenants_file_of_a_guide_works_with_the_verbs_it_says(page, verbs, tmp_path):
    from cotenant.planning.inputs.tenants import tenants_to_plan
    from cotenant.serving.tenants_file import read_tenants
    from cotenant.study.files import load_study

    path = tmp_path / "mine.yaml"
    path.write_text(next(text for name, text in GUIDE_FILES if name == page), encoding="utf-8")
    for read in (load_study, tenants_to_plan, read_tenants)[:verbs]:
        assert read(path).tenants


def test_the_guide_s_study_can_be_run_and_overridden(tmp_path):
    from cotenant.study.files import load_study
    from cotenant.study.workload_check import check_workloads

    text = next(block for name, block in GUIDE_FILES if name == "own-study.md")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    study = load_study(tmp_path / "mine.yaml", ["budget=10min", "tenants.encoder.batch=8"])
    check_workloads(study)
    assert (study.budget_s, study.tenants["encoder"].batch) == (600, 8)
