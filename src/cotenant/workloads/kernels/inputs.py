"""Matrices by named distribution: the values affect the power a multiplication draws."""

import math
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

FORMS = "zeros, constant, uniform, normal, sorted, sparse(share of zeros)"
_NAMES = ("zeros", "constant", "uniform", "normal", "sorted", "sparse")
_FORM = re.compile(r"^\s*([a-z]+)\s*(?:\(\s*(\d+(?:\.\d+)?)\s*(%?)\s*\))?\s*$")


class Distribution(NamedTuple):
    """The distribution of an input's entries.

    `zeros`; `constant`: all 1; `uniform` over [-1, 1); `normal`: mean 0, deviation 1; `sorted`: the quantiles of that
    normal, rising along the rows; `sparse(90%)`: normal, but each entry is 0 with that probability.
    """

    name: str
    zeros_share: float = 0.0

    def __str__(self) -> str:
        """Its text form."""
        return f"sparse({self.zeros_share * 100:g}%)" if self.name == "sparse" else self.name

    @classmethod
    def parse(cls, text: str) -> "Distribution":
        """Parse the text form.

        Raises:
            ValueError: It is not one of the forms.
        """
        match = _FORM.match(text)
        if match is None or match.group(1) not in _NAMES or (match.group(2) and match.group(1) != "sparse"):
            raise ValueError(f"expected one of {FORMS}, e.g. sparse(90%)")
        if match.group(1) != "sparse":
            return cls(match.group(1))
        if match.group(2) is None:
            raise ValueError("sparse needs the share of zeros, e.g. sparse(90%)")
        share = float(match.group(2)) / (100 if match.group(3) else 1)
        if not 0 <= share <= 1:
            raise ValueError("the share of zeros lies between 0 and 1, or 0% and 100%")
        return cls("sparse", share)


def matrix(
    distribution: Distribution, rows: int, columns: int, dtype: "torch.dtype", generator: "torch.Generator"
) -> "torch.Tensor":
    """A matrix in host memory; needs only one row of extra memory."""
    import torch

    made = torch.empty(rows, columns, dtype=dtype)
    match distribution.name:
        case "zeros":
            return made.zero_()
        case "constant":
            return made.fill_(1)
        case "uniform":
            return made.uniform_(-1, 1, generator=generator)
        case "normal":
            return made.normal_(generator=generator)
        case "sorted":
            for number, row in enumerate(made):
                rank = torch.arange(number * columns, (number + 1) * columns, dtype=torch.float64)
                row.copy_(((rank + 0.5) * (2 / made.numel()) - 1).erfinv_().mul_(math.sqrt(2)))
            return made
        case _:
            made.normal_(generator=generator)
            for row in made:
                row.masked_fill_(torch.rand(columns, generator=generator) < distribution.zeros_share, 0)
            return made
