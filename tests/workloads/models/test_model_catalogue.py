"""Every model of the catalogue matches its publication, and is listed without importing torch."""

import subprocess
import sys

import pytest

from cotenant.errors import WorkloadError
from cotenant.workloads import catalogue, find
from cotenant.workloads.catalogue import model_entries

FULL = [entry for entry in model_entries() if entry.mini_of is None]
MINI = [entry for entry in model_entries() if entry.mini_of is not None]

PUBLISHED = {
    "distilbert": 66_362_880,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "roberta-base": 124_645_632,
    "roberta-large": 355_359_744,
    "deberta-v3-base": 183_831_552,
    "deberta-v3-large": 434_012_160,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "distilgpt2": 81_912_576,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-7b": 7_248_023_552,
    "deepseek-r1-distill-qwen-1.5b": 1_777_088_000,
    "deepseek-v2-lite": 15_706_484_224,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "phi-2": 2_779_683_840,
    "phi-3-3.8b": 3_821_079_552,
    "phi-4": 14_659_507_200,
    "gemma-3-1b": 999_885_952,
    "gemma-3-4b": 3_880_099_328,
    "gemma-3-12b": 11_765_788_416,
    "gpt-oss-20b": 20_914_757_184,
    "deepseek-v3": 671_026_404_352,
    "bge-small": 33_360_000,
    "bge-base": 109_482_240,
    "e5-large": 335_141_888,
    "ms-marco-minilm": 22_713_601,
    "bge-reranker-base": 278_044_417,
    "vgg11": 132_863_336,
    "vgg13": 133_047_848,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "densenet121": 7_978_856,
    "densenet169": 14_149_480,
    "densenet201": 20_013_928,
    "inception-v3": 23_834_568,
    "yolos-small": 30_684_768,
    "pointnet": 3_480_049,
    "whisper-large-v3": 1_543_490_560,
    "pegasus-x-base": 272_292_096,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "mobilenet-v2": 3_504_872,
    "efficientnet-b0": 5_288_548,
    "efficientnet-v2-s": 21_458_488,
    "efficientnet-v2-l": 118_515_272,
    "vit-b-16": 86_567_656,
    "vit-b-32": 88_224_232,
    "vit-l-16": 304_326_632,
    "vit-l-32": 306_535_400,
    "dlrm": 540_677_217,
}


def test_the_catalogue_contains_exactly_the_published_models():
    assert {entry.name: entry.params for entry in FULL} == PUBLISHED


@pytest.mark.parametrize("entry", FULL, ids=lambda entry: entry.name)
def test_a_model_built_on_meta_has_the_published_number_of_parameters(entry):
    from cotenant.workloads.models.skeleton import build_skeleton

    model = build_skeleton(entry, entry.modes[0])
    assert all(parameter.is_meta for parameter in model.parameters())
    assert sum(parameter.numel() for parameter in model.parameters()) == entry.params


def test_every_model_has_a_source_and_a_small_sibling():
    lines = {line.name: line for line in catalogue()}
    for entry in FULL:
        line = lines[entry.name]
        assert line.source, entry.name
        assert line.counted, entry.name
        assert line.mini in lines
    assert len(MINI) == len(FULL)


def test_listing_the_catalogue_needs_neither_torch_nor_transformers():
    code = (
        "import sys; from cotenant.workloads import catalogue, find; assert len(catalogue()) > 60;"
        "find('bert-base'); print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_typo_suggests_the_nearest_names():
    with pytest.raises(WorkloadError, match="no workload 'bert-bse'") as caught:
        find("bert-bse")
    assert "bert-base" in caught.value.hint
