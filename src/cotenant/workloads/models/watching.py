"""Records every operator of a request and every live storage: on `meta` as a dry run, on real tensors as a check."""

import math
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import Operator

# The layers of a model repeat a few operators many times: what each gives on `meta` is computed once.

_MOST = 10_000
"""Forms that are kept. The whole catalogue has fewer."""


@dataclass(frozen=True, slots=True)
class OperatorResult:
    """What an operator of a form leaves."""

    template: Any
    operator: Operator
    beside: int
    """Bytes of workspace."""

    def fresh(self) -> Any:
        """New tensors of the same form."""
        if isinstance(self.template, _Form):  # nearly always; a tree takes longer to walk than a tensor to make
            return self.template.tensor()
        return tree_map_only(_Form, _Form.tensor, self.template)


@dataclass(frozen=True, slots=True)
class _Form:
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device="meta")


class Recurring:
    """The outcomes of operators seen so far, by form."""

    def __init__(self) -> None:
        self._outcomes: dict[Hashable, OperatorResult] = {}

    def find(self, form: Hashable | None) -> OperatorResult | None:
        """The outcome, if an operator of this form was seen."""
        return None if form is None else self._outcomes.get(form)

    def add(self, form: Hashable | None, out: Any, operator: Operator, beside: int) -> None:
        """Keep an outcome whose tensors can be made again: each has a storage of its own, of just its size."""
        if form is None:
            return
        template = tree_map_only(
            torch.Tensor, lambda tensor: _Form(tuple(tensor.shape), tensor.stride(), tensor.dtype), out
        )
        outcome = OperatorResult(template, operator, beside)
        if _storages(out) != _storages(outcome.fresh()):
            return
        if len(self._outcomes) >= _MOST:
            self._outcomes.clear()
        self._outcomes[form] = outcome


def form_of(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable | None:
    """All that the outcome depends on; None: it writes to its inputs, or has inputs beyond `meta`."""
    if func._schema.is_mutable:  # noqa: SLF001  the only place that says so
        return None
    tensors: list[torch.Tensor] = []
    form = (func, _frozen(args, tensors), _frozen(sorted(kwargs.items()), tensors))
    return form if tensors and all(map(_on_meta, tensors)) else None


def _frozen(value: Any, tensors: list[torch.Tensor]) -> Hashable:
    """What is not a tensor or a list of them is a number, a name, a type or a device, and can be hashed."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        if not _on_meta(value):
            return None
        # An expanded tensor has less memory behind it than its shape says, which counts as bytes read.
        return (value.shape, value.stride(), value.dtype, value.untyped_storage().nbytes())
    if isinstance(value, list | tuple):
        return tuple([_frozen(element, tensors) for element in value])
    return (type(value), value)  # 1 and 1.0 are equal, and give other types


def _on_meta(tensor: torch.Tensor) -> bool:
    return tensor.is_meta and tensor.layout is torch.strided


def _storages(out: Any) -> list[tuple[int, int]]:
    """Of each tensor: which of the storages it has, and its size."""
    storages = [leaf.untyped_storage() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
    numbers: dict[int, int] = {}
    return [(numbers.setdefault(storage._cdata, len(numbers)), storage.nbytes()) for storage in storages]  # noqa: SLF001


_aten = torch.ops.aten
_grouped_mm = getattr(torch, "_grouped_mm", None)
_GATHERS = frozenset({"embedding", "_embedding_bag_forward_only", "_embedding_bag", "index", "index_select", "gather"})
"""Operators that read only the rows they look up."""
_NO_KERNEL = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
"""Operators that allocate memory and move nothing."""
RECURRING = Recurring()


class Watch:
    """Records operators and the bytes of all live storages while it is active."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self.live_bytes = 0
        self.peak_bytes = 0
        self._seen: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._on = ExitStack()

    def __enter__(self) -> Self:
        self._on.enter_context(_FusedOnMeta())
        self._on.enter_context(_Operators(self))
        return self

    def __exit__(self, *exc: object) -> None:
        self._on.close()

    def restart(self) -> None:
        """Drop the operators so far and start a new peak; live storages stay."""
        self.operators.clear()
        self.peak_bytes = self.live_bytes

    def hold(self, tensors: Iterable[torch.Tensor], *, beside: int = 0) -> None:
        """Count what these tensors take while they live, and extra memory for now."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key = storage._cdata  # noqa: SLF001  the only identity a storage has
            if key in self._seen:
                continue
            size = storage.nbytes()
            self._seen[key] = weakref.ref(storage, self._on_death(key, size))
            self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes + beside)

    def ordinary_answer(self) -> bool:
        """What a model that inspects its data would see on ordinary data: valid, and nothing special."""
        question = self.operators[-1].name if self.operators else ""
        if question not in ("all", "any"):
            raise WorkloadError("the model's control flow depends on its data, so a dry run can't follow it")
        return question == "all"

    def _on_death(self, key: int, size: int) -> Callable[[Any], None]:
        def forget(_: Any) -> None:
            self.live_bytes -= size
            self._seen.pop(key, None)

        return forget


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Report each operator that would be a kernel to the watch."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.watch = watch

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here. The default imports torch's compiler and wraps every operator to keep it out."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is _aten._local_scalar_dense.default and args[0].is_meta:  # noqa: SLF001
            return self.watch.ordinary_answer()
        if _composite(func):
            with self:
                return func.decompose(*args, **kwargs)
        form = form_of(func, args, kwargs)
        known = RECURRING.find(form)
        if known is not None:
            again = known.fresh()
            self.watch.hold(_tensors(again), beside=known.beside)
            self.watch.operators.append(known.operator)
            return again
        out = func(*args, **kwargs)
        sources, results = _tensors((args, kwargs)), _tensors(out)
        beside = workspace_bytes(func, args, results)
        self.watch.hold(results, beside=beside)
        if not _moves_nothing(func, sources, results):
            operator = _operator(func, sources, results, flops=_flops(func, args, kwargs, out))
            self.watch.operators.append(operator)
            RECURRING.add(form, out, operator, beside)
        return out


class _FusedOnMeta(TorchFunctionMode):
    """On `meta` torch has no fused attention and no grouped products; devices do, so the dry run adds them."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention and args[0].is_meta:
            return _attention(*args, **kwargs)
        if func is _grouped_mm and args[0].is_meta:
            return _grouped_product(*args, **kwargs)
        return func(*args, **kwargs)


def _grouped_product(rows: torch.Tensor, weights: torch.Tensor, **_: Any) -> torch.Tensor:
    """A product of rows with several matrices, a matrix per row: here evenly distributed."""
    most = min(len(rows), len(weights))
    groups = next(count for count in range(most, 0, -1) if len(rows) % count == 0)
    product = torch.bmm(rows.view(groups, -1, rows.shape[-1]), weights[:groups])
    return product.view(len(rows), -1)


def _attention(  # noqa: PLR0917  torch's own signature
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    fusible = dropout_p == 0.0 and query.shape[-1] == value.shape[-1]
    if not fusible:
        plain: torch.Tensor = torch._C._nn.scaled_dot_product_attention(  # noqa: SLF001  the function under the mode
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return plain
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.empty(attn_mask.shape, dtype=query.dtype, device="meta")
    fused: torch.Tensor = _aten._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001  the operator torch picks on a CPU
        query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )[0]
    return fused


@cache
def _composite(func: Any) -> bool:
    """Inference mode passes composite operators undecomposed: their parts are what runs."""
    if func._overloadpacket in flop_registry or func is torch.ops.prim.device.default:  # noqa: SLF001
        return False
    return bool(func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd))  # noqa: SLF001


def _tensors(values: Any) -> list[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        return [values]
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _moves_nothing(func: Any, sources: list[torch.Tensor], results: list[torch.Tensor]) -> bool:
    if func._overloadpacket.__name__ in _NO_KERNEL or not results:  # noqa: SLF001
        return True
    if func._schema.is_mutable:  # noqa: SLF001  an in-place operator returns its input, not a view
        return False
    known = {source.untyped_storage()._cdata for source in sources}  # noqa: SLF001
    return all(result.untyped_storage()._cdata in known for result in results)  # noqa: SLF001


def _operator(func: Any, sources: list[torch.Tensor], results: list[torch.Tensor], *, flops: float) -> Operator:
    name = func._overloadpacket.__name__  # noqa: SLF001
    gathers = name in _GATHERS
    read = _gathered(name, sources, results) if gathers else sum(_nbytes(source) for source in sources)
    numbers = [tensor.dtype for tensor in (*results, *sources) if tensor.dtype.is_floating_point]
    dtype = numbers[0] if numbers else results[0].dtype
    return Operator(
        name=name,
        dtype=str(dtype).removeprefix("torch."),
        shapes=tuple(tuple(source.shape) for source in sources),
        out_shapes=tuple(tuple(result.shape) for result in results),
        flops=flops,
        bytes_read=float(read),
        bytes_written=float(sum(_nbytes(result) for result in results)),
    )


def _flops(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> float:
    """FLOPs of products, convolutions and attention; everything else counts as bytes only."""
    packet = func._overloadpacket  # noqa: SLF001
    if packet is _aten._scaled_dot_product_flash_attention_for_cpu:  # noqa: SLF001
        return _attention_flops(*args[:3])
    if packet is _aten._scaled_dot_product_flash_attention_for_cpu_backward:  # noqa: SLF001
        # Five products instead of two: the scores are recomputed.
        return 2.5 * _attention_flops(*args[1:4])
    if packet is _aten.convolution_backward:
        # torch's formula ignores groups: a depthwise convolution would cost hundreds of times more.
        output_gradient, _, weight = args[:3]
        product: float = 2.0 * output_gradient.numel() * weight[0].numel()
        return product * sum(map(bool, args[10][:2]))
    formula = flop_registry.get(packet)
    return 0.0 if formula is None else float(formula(*args, **kwargs, out_val=out))


def _attention_flops(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> float:
    batch, heads, positions, width = query.shape
    return 2.0 * batch * heads * positions * key.shape[-2] * (width + value.shape[-1])


def _gathered(name: str, sources: list[torch.Tensor], results: list[torch.Tensor]) -> float:
    table, *indices = sources
    numbers = float(sum(_nbytes(index) for index in indices))
    if "embedding_bag" in name:
        return numbers + indices[0].numel() * table.shape[-1] * table.element_size()
    return numbers + _nbytes(results[0])


def _nbytes(tensor: torch.Tensor) -> int:
    """Bytes behind a tensor; fewer than its shape implies if it is expanded."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


_SMALL_INPUT = 20480
"""Single images up to this many elements are unfolded and multiplied instead of convolved (torch's own threshold)."""
_MANY_IMAGES = 16
"""From this batch on, 1x1 convolutions are convolved too instead of multiplied."""


def workspace_bytes(func: Any, args: tuple[Any, ...], results: list[torch.Tensor]) -> int:
    """Bytes the operator needs besides its inputs and outputs."""
    if func is _aten.convolution.default:
        source, weight = args[:2]
        return _convolution(source, weight, results[0], groups=args[8])
    if func is _aten.convolution_backward.default:
        gradient, source, weight = args[:3]
        # Two passes: the output's gradient is rearranged too, and the weights' gradient is made in blocks and restored.
        return _convolution(source, weight, gradient, groups=args[9]) + _size(gradient) + 2 * _size(weight)
    return 0


def _convolution(source: torch.Tensor, weight: torch.Tensor, result: torch.Tensor, *, groups: int) -> int:
    kernel = weight.shape[2:]
    if math.prod(kernel) == 1 and groups == 1 and len(source) < _MANY_IMAGES:
        return 0
    unfolds = groups == 1 and len(source) == 1 and source.numel() <= _SMALL_INPUT and max(kernel) <= 3
    if unfolds:
        return weight[0].numel() * math.prod(result.shape[2:]) * source.element_size()
    # All are rearranged into channel blocks; three-colour images stay as they are. The source's blocks
    # are released before the result is rearranged, so only the larger of the two counts.
    return _size(weight) + max(_size(source) if source.shape[1] > 3 else 0, _size(result))


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
