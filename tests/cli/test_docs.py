"""The documentation matches the code, and its links work."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)|<img[^>]+src=\"([^\"]+)\"")


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = generator()


@pytest.mark.parametrize("name", GENERATOR.PAGES)
def test_the_reference_matches_the_code(name, monkeypatch):
    for variable in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    on_disk = (ROOT / "docs/reference" / name).read_text(encoding="utf-8")
    assert on_disk == GENERATOR.NOTE + GENERATOR.PAGES[name](), "run `make reference`"


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


GUIDE_STUDIES = [
    (page.name, block)
    for page in sorted(ROOT.glob("docs/guide/*.md"))
    for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    if re.search(r"^tenants:", block, flags=re.MULTILINE) and page.name not in ("plan.md", "serve.md")
    if not block.startswith("# tenants.yaml")
]


def test_the_tenants_of_the_whole_loop_can_be_planned_for(tmp_path):
    from cotenant.planning.tenants_file import read_tenants

    text = (ROOT / "docs/guide/loop.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(# tenants.yaml\n.*?)```", text, flags=re.DOTALL)
    (tmp_path / "tenants.yaml").write_text(block, encoding="utf-8")
    assert list(read_tenants(tmp_path / "tenants.yaml").tenants) == ["search", "photos", "recs", "tags", "complete"]


def test_the_tenants_of_the_guide_to_planning_can_be_planned_for(tmp_path):
    from cotenant.planning.tenants_file import read_tenants

    text = (ROOT / "docs/guide/plan.md").read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL) if "tenants:" in block]
    assert blocks
    for block in blocks:
        (tmp_path / "tenants.yaml").write_text(block, encoding="utf-8")
        assert read_tenants(tmp_path / "tenants.yaml").tenants


def test_the_tenants_of_the_guide_to_serving_can_be_served(tmp_path):
    from cotenant.serving.tenants_file import read_tenants

    text = (ROOT / "docs/guide/serve.md").read_text(encoding="utf-8")
    files = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    served = []
    for number, block in enumerate(files):
        (tmp_path / f"{number}.yaml").write_text(block, encoding="utf-8")
        served.append(set(read_tenants(tmp_path / f"{number}.yaml").tenants))
    assert served[0] == {"bert", "conv", "gpt"}


@pytest.mark.parametrize("text", [text for _, text in GUIDE_STUDIES], ids=[name for name, _ in GUIDE_STUDIES])
def test_studies_in_the_guides_are_valid(text, tmp_path):
    from cotenant.study.files import load_study

    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    assert load_study(tmp_path / "mine.yaml").tenants


def test_the_guide_s_study_can_be_run_and_overridden(tmp_path):
    from cotenant.study.files import load_study
    from cotenant.study.workload_check import check_workloads

    (text,) = (block for name, block in GUIDE_STUDIES if name == "own-study.md")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    study = load_study(tmp_path / "mine.yaml", ["budget=10min", "tenants.encoder.batch=8"])
    check_workloads(study)
    assert (study.budget_s, study.tenants["encoder"].batch) == (600, 8)
