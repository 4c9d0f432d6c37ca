"""Operators become the kernels that libraries would launch, fused as current software does."""

from dataclasses import replace

import numpy as np
import pytest

from cotenant.prediction.kernels.columns import KINDS, joined
from cotenant.prediction.kernels.fusion import FUSIONS, kernels_of
from cotenant.workloads.protocol import Operator


def operator(name, shapes, out, *, dtype="float16", flops=0.0, read=None, written=None):
    width = {"float16": 2, "float32": 4}[dtype]
    return Operator(
        name=name,
        dtype=dtype,
        shapes=shapes,
        out_shapes=(out,),
        flops=flops,
        bytes_read=float(sum(np.prod(shape) for shape in shapes) * width) if read is None else read,
        bytes_written=float(np.prod(out) * width) if written is None else written,
    )


def convolution(channels=64, filters=64, side=3, groups=1, *, stride=1, dtype="float16"):
    out = 56 // stride
    flops = 2.0 * 8 * out * out * filters * channels // groups * side * side
    shapes = ((8, channels, 56, 56), (filters, channels // groups, side, side))
    return operator("convolution", shapes, (8, filters, out, out), flops=flops, dtype=dtype)


def after(source, name):
    shape = source.out_shapes[0]
    return operator(name, (shape,), shape, dtype=source.dtype)


def kind(kernels):
    return [KINDS[code] for code in kernels.kind]


def test_a_product_knows_its_size_and_which_side_are_weights():
    kernels = kernels_of([operator("addmm", ((512,), (96, 256), (256, 512)), (96, 512), flops=2.0 * 96 * 256 * 512)])
    assert (kernels.m[0], kernels.n[0], kernels.k[0], kernels.batches[0]) == (96, 512, 256, 1)
    assert kernels.weights[0] == 256 * 512 * 2
    assert kernels.tensor[0]


def test_a_batched_product_has_no_weights():
    kernels = kernels_of([operator("bmm", ((12, 128, 64), (12, 64, 128)), (12, 128, 128), flops=1e6)])
    assert (kernels.batches[0], kernels.m[0], kernels.weights[0]) == (12, 128, 0)


def test_a_convolution_is_a_product_of_its_unfolded_input():
    kernels = kernels_of([convolution(stride=2)])
    assert kind(kernels) == ["conv"]
    assert (kernels.m[0], kernels.n[0], kernels.k[0]) == (8 * 28 * 28, 64, 64 * 9)


def test_small_and_depthwise_convolutions_are_distinguished():
    assert kind(kernels_of([convolution(), convolution(groups=64), convolution(side=1)])) == [
        "conv3x3",
        "depthwise",
        "conv",
    ]


@pytest.mark.parametrize(
    ("tf32", "conv", "gemm"), [("convolutions", True, False), ("all", True, True), ("none", False, False)]
)
def test_float32_uses_tensor_cores_where_it_is_allowed(tf32, conv, gemm):
    product = operator("mm", ((64, 64), (64, 64)), (64, 64), dtype="float32", flops=1.0)
    kernels = kernels_of([convolution(dtype="float32"), product], tf32=tf32)
    assert kernels.tensor.tolist() == [conv, gemm]


def test_operators_that_no_gpu_executes_are_left_out():
    shape = (8, 64)
    assert len(kernels_of([operator("clone", (shape,), shape), operator("detach_", (shape,), shape)])) == 0


def test_a_loss_reads_one_score_per_row():
    scores, targets = (1024, 50_257), (1024,)
    loss = operator("nll_loss_forward", (scores, targets), ())
    gradient = operator("nll_loss_backward", ((), scores, targets), scores)
    kernels = kernels_of([loss, gradient])
    assert kernels.read.max() < 20_000, "not all 50 million, one thread block of which would take milliseconds"
    assert kernels.written[1] == gradient.bytes_written


@pytest.mark.parametrize("name", ["_native_batch_norm_legit", "native_batch_norm_backward"])
def test_a_batch_norm_in_training_has_one_thread_block_per_channel_and_reads_its_inputs_twice(name):
    norm = after(convolution(filters=96), name)
    kernels = kernels_of([norm, after(convolution(filters=96), "_native_batch_norm_legit_no_training")])
    assert kernels.blocks[0] == 96
    assert kernels.read[0] == 2 * norm.bytes_read
    assert kernels.blocks[1] > 96, "inference needs no sums"
    assert kernels.read[1] == norm.bytes_read


def test_gradients_of_the_input_of_small_convolutions_need_less_arithmetic_too():
    forward = convolution()
    source, weight = forward.shapes
    shapes = (forward.out_shapes[0], source, weight)
    backward = replace(forward, name="convolution_backward", shapes=shapes, out_shapes=(source, weight))
    assert kind(kernels_of([backward])) == ["conv3x3", "weight_gradient"]


def test_copies_between_host_and_device_are_transfers():
    shape = (8, 3, 224, 224)
    cast = operator("_to_copy", (shape,), shape, written=float(np.prod(shape) * 4))
    assert kind(kernels_of([operator("_to_copy", (shape,), shape), cast])) == ["transfer", "copy"]


def residual_block():
    first = convolution()
    norm = after(first, "_native_batch_norm_legit_no_training")
    added = operator("add_", (norm.out_shapes[0], norm.out_shapes[0]), norm.out_shapes[0])
    return [first, norm, added, after(first, "relu"), convolution(side=1)]


def test_fusion_saves_launches_and_traffic_but_no_arithmetic():
    eager, compiled, engine = (kernels_of(residual_block(), fusion=fusion) for fusion in FUSIONS[:3])
    assert [len(eager), len(compiled), len(engine)] == [5, 3, 2]
    traffic = [float((kernels.read + kernels.written).sum()) for kernels in (eager, compiled, engine)]
    assert traffic[0] > traffic[1] > traffic[2]
    assert eager.flops.sum() == compiled.flops.sum() == engine.flops.sum()


def test_a_fused_kernel_still_reads_what_comes_from_elsewhere():
    engine = kernels_of(residual_block(), fusion="engine")
    residual = float(np.prod((8, 64, 56, 56)) * 2)
    assert engine.read[0] == pytest.approx(residual + 64 * 64 * 9 * 2 + residual, rel=0.01)


def test_a_norm_of_several_operators_is_one_kernel_when_compiled():
    shape, reduced = (8, 512, 1024), (8, 512, 1)
    norm = [
        operator("pow", (shape,), shape),
        operator("mean", (shape,), reduced),
        operator("rsqrt", (reduced,), reduced),
        operator("mul", (shape, reduced), shape),
    ]
    assert len(kernels_of(norm, fusion="compile")) == 1
    assert len(kernels_of(norm)) == 4


def test_attention_is_one_kernel_or_two_products_around_a_softmax():
    heads = (2, 16, 384, 64)
    name = "_scaled_dot_product_flash_attention_for_cpu"
    attention = operator(name, (heads, heads, heads), heads, flops=4.0 * 2 * 16 * 384 * 384 * 64)
    fused = kernels_of([attention])
    unfused = kernels_of([attention], attention="unfused")
    assert kind(fused) == ["attention"]
    assert kind(unfused).count("gemm") == 2
    assert unfused.flops[np.array(kind(unfused)) == "gemm"].sum() == attention.flops
    scores = 2 * 16 * 384 * 384 * 2
    assert unfused.written.max() == scores > fused.written.max()


def test_looped_attention_is_the_same_work_launched_by_head_and_item():
    heads = (2, 16, 384, 64)
    name = "_scaled_dot_product_flash_attention_for_cpu"
    attention = operator(name, (heads, heads, heads), heads, flops=4.0 * 2 * 16 * 384 * 384 * 64)
    unfused, looped = (kernels_of([attention], attention=how) for how in ("unfused", "looped"))
    products = np.array(kind(looped)) == "gemm"
    assert list(looped.launches[products]) == [32, 32]
    assert list(looped.batches[products]) == [1, 1]
    assert looped.flops[products].sum() == attention.flops
    assert kind(looped).count("copy") < kind(unfused).count("copy"), "heads lie side by side"


def test_kernels_can_be_taken_and_joined():
    block = kernels_of(residual_block())
    both = joined([block.take(np.array([0])), block])
    assert len(both) == 6
    assert [both.names[number] for number in both.name][:2] == ["convolution", "convolution"]


def test_names_may_carry_their_library():
    kernels = kernels_of([operator("aten.mm", ((64, 32), (32, 16)), (64, 16), flops=1.0)])
    assert kind(kernels) == ["gemm"]


def test_an_optimiser_works_on_many_parameters_at_once():
    step = [
        operator(name, (shape,), shape) for shape in [(256, 256), (256,)] * 50 for name in ("lerp_", "addcmul_", "sqrt")
    ]
    backward = operator("mm", ((64, 64), (64, 64)), (64, 64), flops=1.0)
    kernels = kernels_of([backward, *step])
    assert [kernels.names[number] for number in kernels.name] == [
        "mm",
        "optimiser lerp_",
        "optimiser addcmul_",
        "optimiser sqrt",
    ]
    assert kernels.launches.tolist() == [1, 3, 3, 3]
    assert kernels.read[1:].sum() == sum(operator.bytes_read for operator in step)


def test_a_few_final_pointwise_operators_are_not_an_optimiser():
    shape = (64, 64)
    product = operator("mm", (shape, shape), shape, flops=1.0)
    assert len(kernels_of([product, *[operator("relu", (shape,), shape)] * 10])) == 11
    assert len(kernels_of([product, *[operator("mul_", (shape,), shape)] * 1000])) == 1001
