"""A complete search by the models' own heads: LEEP and NCE."""

import json

import numpy as np
import pytest
import torch

from cotenant.api.search import search
from cotenant.cli.main import main
from cotenant.ranking.candidates import resolve
from cotenant.ranking.costs import even_order
from cotenant.ranking.data import open_data
from cotenant.workloads.models.weights import load


def logits_of(folder, data):
    """The output of the library's full model, in the order of a search."""
    (candidate,) = resolve([str(folder)])
    model = load(candidate.entry, "classify", candidate.weights, dtype=torch.float32, seed=0)
    order = even_order(data.labels, 0)
    parts = [[int(one) for one in order[at : at + 32]] for at in range(0, len(data), 32)]
    with torch.inference_mode():
        rows = [model(**data.load(part, candidate.shape)).logits for part in parts]
    return torch.cat(rows).double().numpy(), data.labels[order]


def leep(logits, labels, classes):
    belief = torch.softmax(torch.from_numpy(logits), dim=1).numpy()
    joint = np.eye(classes)[labels].T @ belief
    given = joint / joint.sum(axis=0)
    return np.log([belief[row] @ given[label] for row, label in enumerate(labels)]).mean()


def nce(logits, labels, classes):
    counts = np.zeros((logits.shape[1], classes))
    np.add.at(counts, (logits.argmax(axis=1), labels), 1)
    shares = counts / counts.sum(axis=1, keepdims=True).clip(1)
    return (counts * np.log(np.where(counts > 0, shares, 1))).sum() / len(labels)


def with_head(folder, classes):
    """The same model with a head for another number of classes."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(classes)
    width = weights["classifier.weight"].shape[1]
    weights["classifier.weight"] = torch.randn(classes, width, generator=generator)
    weights["classifier.bias"] = torch.zeros(classes)
    save_file(weights, folder / "model.safetensors")
    settings = json.loads((folder / "config.json").read_text())
    settings["id2label"] = {str(number): f"kind {number}" for number in range(classes)}
    settings["label2id"] = {f"kind {number}": number for number in range(classes)}
    (folder / "config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize(("scorer", "reference"), [("leep", leep), ("nce", nce)])
def test_a_search_ranks_by_the_logits_of_heads_of_several_sizes(scorer, reference, siblings, photos, tmp_path):
    made = siblings("vit-b-16-mini", 3, changed=1, seed=3)
    with_head(made[1], 7)
    with_head(made[2], 300)
    outcome = search(str(photos), [str(made[0].parent)], scorer=scorer, exact=True, out=tmp_path / "out")
    data = open_data(str(photos))
    expected = {folder.name: reference(*logits_of(folder, data), 3) for folder in made}
    assert {line.name: line.estimate.est for line in outcome.ranking} == pytest.approx(expected, rel=1e-4)
    assert [line.name for line in outcome.ranking] == sorted(expected, key=expected.get, reverse=True)
    assert all(line.estimate.lo < line.estimate.est < line.estimate.hi for line in outcome.ranking)
    assert [line.name.split()[0] for line in outcome.baselines] == ["random"] * len(outcome.baselines)
    assert outcome.baselines
    assert any("no raw-input baseline" in note for note in outcome.notes)


def test_a_model_without_a_head_is_refused_by_name(siblings, text_table, tmp_path, capsys):
    (made,) = siblings("bert-base-mini", 1, changed=1)
    code = main(["search", "--data", text_table, str(made), "--scorer", "leep", "--out", str(tmp_path / "out")])
    assert code == 1
    assert "the weights of sibling-00 have no classification head" in capsys.readouterr().err
