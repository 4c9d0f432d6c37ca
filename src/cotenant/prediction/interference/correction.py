"""Learn the prior's error from measured mixes: a Gaussian process with fixed variances."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from cotenant.prediction.interference.covariance import (
    Atoms,
    Variances,
    atoms_of,
    covariance,
    likenesses,
)
from cotenant.prediction.interference.setting import Setting, group_size
from cotenant.prediction.kernels.columns import Floats, Ints

_JITTER = 1e-8
_WITNESSES = 200
"""Rows of evidence used for the variances of very many pairs; using fewer only widens them."""
_MOST_WORK = 2e11
"""Tenants times rows of evidence, squared; above it, variances use only `_WITNESSES` rows."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Measured slowdowns, a row per victim of each measured mix."""

    rows: Ints
    """The victim first, then its neighbours."""
    logs: Floats
    """Log slowdown, mean over blocks."""
    variance: Floats
    """Variance of that mean, from the blocks; 0 if unknown."""
    cell: Ints
    """Rows with the same number were measured together: every victim of a mix."""
    blocks: Ints
    """Number of blocks."""
    half: Floats
    """Half-width of its interval, from the blocks."""

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.logs.size)

    @property
    def cells(self) -> int:
        """Measured mixes."""
        return int(np.unique(self.cell).size)

    def only(self, chosen: Ints) -> "Evidence":
        """Some of the rows."""
        return Evidence(
            self.rows[chosen],
            self.logs[chosen],
            self.variance[chosen],
            self.cell[chosen],
            self.blocks[chosen],
            self.half[chosen],
        )


def no_evidence() -> Evidence:
    """Empty evidence."""
    none, numbers = np.empty(0), np.empty(0, np.int64)
    return Evidence(np.empty((0, 2), np.int64), none, none, numbers, numbers, none)


class Correction:
    """The process conditioned on the evidence."""

    def __init__(self, setting: Setting, evidence: Evidence, variances: Variances) -> None:
        self.setting = setting
        self.evidence = evidence
        self.variances = variances
        self._atoms = atoms_of(setting, evidence.rows)
        prior = setting.prior(evidence.rows)[:, 0] if len(evidence) else np.empty(0)
        self.residual = evidence.logs - prior
        """Log of measured over prior."""
        self._noise = evidence.variance + variances.noise + variances.group_noise * self._atoms.size**2
        if len(evidence):
            within = covariance(setting, variances, self._atoms, self._atoms)
            within[np.diag_indices_from(within)] += self._noise + _JITTER
            self._factor = cho_factor(within, lower=True)
            self._alpha = cho_solve(self._factor, self.residual)

    def mean(self, rows: Ints) -> Floats:
        """Expected log of measured over prior, for rows with the victim first."""
        if not len(self.evidence):
            return np.zeros(len(rows))
        table = self.pair_means
        if rows.shape[1] == 2:
            return np.asarray(table[rows[:, 0], rows[:, 1]])
        atoms = atoms_of(self.setting, rows)
        assert atoms.gather is not None
        shared = self.variances.group * float(self._atoms.size @ self._alpha)
        return np.asarray(atoms.gather @ table[atoms.victim, atoms.neighbour] + shared * atoms.size)

    @cached_property
    def pair_means(self) -> Floats:
        """Tenants x tenants: the expected correction of the first beside the second.

        Every part of the covariance is a product of a victim's term and a neighbour's, so all pairs take only a few
        matrix products.
        """
        count = len(self.setting)
        alpha = self._alpha if self._atoms.gather is None else self._atoms.gather.T @ self._alpha
        plain, sloped = np.zeros((count, count)), np.zeros((count, count))
        where = (self._atoms.victim, self._atoms.neighbour)
        np.add.at(plain, where, alpha)
        np.add.at(sloped, where, alpha * self._atoms.prior)
        tables = likenesses(self.setting)
        result, growing = np.zeros((count, count)), np.zeros((count, count))
        for part, table in enumerate(tables):
            shifts = sum(self.variances.shift[part, other] * likeness for other, likeness in enumerate(tables))
            slopes = sum(self.variances.slope[part, other] * likeness for other, likeness in enumerate(tables))
            result += table @ plain @ shifts
            growing += table @ sloped @ slopes
        return np.asarray(result + self.setting.pair_prior * growing)

    def variance(self, rows: Ints) -> Floats:
        """Predictive variance of the measured logarithm, for rows with the victim first."""
        size = group_size(rows)
        of_groups = self.variances.group + self.variances.group_noise
        return np.asarray(self.variance_of_pairs(rows) + of_groups * size**2)

    def variance_of_pairs(self, rows: Ints) -> Floats:
        """The same without the errors that pairs of a group don't show.

        Pairs of a group are assumed to be fully correlated, which is conservative.
        """
        table = self.pair_variances
        if rows.shape[1] == 2:
            return np.asarray(table[rows[:, 0], rows[:, 1]] + self.variances.noise)
        atoms = atoms_of(self.setting, rows)
        assert atoms.gather is not None
        own = np.asarray(atoms.gather @ np.sqrt(table[atoms.victim, atoms.neighbour])) ** 2
        return np.asarray(own + self.variances.noise)

    @cached_property
    def pair_variances(self) -> Floats:
        """Tenants x tenants: variance of the correction of the first beside the second, without noise."""
        prior = self.setting.pair_prior
        result = self.variances.shift.sum() + self.variances.slope.sum() * prior**2
        if not len(self.evidence):
            return np.asarray(result)
        many = (len(self.setting) * len(self.evidence)) ** 2 > _MOST_WORK and len(self.evidence) > _WITNESSES
        atoms, lower = self._few if many else (self._atoms, self._factor[0])
        inverse = solve_triangular(lower, np.eye(len(lower)), lower=True)
        tables = likenesses(self.setting)
        of_neighbours = [table[atoms.neighbour] for table in tables]
        shifts = np.tensordot(self.variances.shift, of_neighbours, 1)
        slopes = np.tensordot(self.variances.slope, of_neighbours, 1) * atoms.prior[None, :, None]
        for victim in range(len(self.setting)):
            alike = np.stack([table[atoms.victim, victim] for table in tables])[:, :, None]
            across = (alike * shifts).sum(axis=0) + (alike * slopes).sum(axis=0) * prior[victim][None, :]
            known = inverse @ (across if atoms.gather is None else atoms.gather @ across)
            result[victim] -= np.einsum("ij,ij->j", known, known)
        return np.asarray(np.maximum(result, 0.0))

    def posterior(self, rows: Ints) -> Floats:
        """Posterior covariances among the rows' corrections, without noise."""
        atoms = atoms_of(self.setting, rows)
        own = covariance(self.setting, self.variances, atoms, atoms)
        if not len(self.evidence):
            return own
        across = covariance(self.setting, self.variances, self._atoms, atoms)
        known = solve_triangular(self._factor[0], across, lower=True)
        return np.asarray(own - known.T @ known)

    @cached_property
    def _few(self) -> tuple[Atoms, Floats]:
        chosen = np.linspace(0, len(self.evidence) - 1, _WITNESSES).astype(np.int64)
        atoms = atoms_of(self.setting, self.evidence.rows[chosen])
        within = covariance(self.setting, self.variances, atoms, atoms)
        within[np.diag_indices_from(within)] += self._noise[chosen] + _JITTER
        return atoms, np.asarray(np.linalg.cholesky(within), np.float64)

    def left_out(self, groups: Ints) -> tuple[Floats, Floats]:
        """Predict each row of the evidence without the rows of its group.

        Args:
            groups: A number per row; rows with the same number are left out together.

        Returns:
            Errors of the logarithms (measured - predicted) and their expected standard deviations.
        """
        errors, deviations = np.zeros(len(self.evidence)), np.zeros(len(self.evidence))
        for group in np.unique(groups):
            mine = np.flatnonzero(groups == group)
            errors[mine], deviations[mine] = self.without(mine)
        return errors, deviations

    def without(self, mine: Ints) -> tuple[Floats, Floats]:
        """The same for a group of rows, given by position."""
        block = np.linalg.inv(self._inverse[np.ix_(mine, mine)])
        return block @ self._alpha[mine], np.sqrt(np.maximum(np.diag(block), 0.0))

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(cho_solve(self._factor, np.eye(len(self.evidence))))
