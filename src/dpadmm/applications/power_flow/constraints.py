"""The public conditions on an operating point: equations of the lines, limits, and the relaxed products."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array, vstack

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.applications.power_flow.network import ComplexArray, Network
from dpadmm.applications.power_flow.variables import Part, Variables
from dpadmm.errors import InputError
from dpadmm.problems.sets.conic.cone import Cone

Term = tuple[IntArray, FloatArray | float]  # of each row: a column, and what stands there
Block = tuple[csr_array, FloatArray]  # rows and their limits


def constrain(network: Network, part: Part, variables: Variables) -> Cone:
    """The set of a part's operating points: rows x + s = limits."""
    bounds = _bounds(network, part, variables)
    equations = [*_flows(network, part, variables), bounds[0]]
    inequalities = [*bounds[1:], *_angles(network, part, variables)]
    ratings = _ratings(network, part, variables)
    products = _products(network, part, variables)
    rows, limits = _stack([*equations, *inequalities, ratings, products])
    return Cone(
        csc_array(rows),
        limits,
        zero=sum(block[1].size for block in equations),
        nonnegative=sum(block[1].size for block in inequalities),
        second_order=(3,) * (ratings[1].size // 3) + (4,) * (products[1].size // 4),
    )


def _flows(network: Network, part: Part, variables: Variables) -> list[Block]:
    """p^F + ı q^F = Y_ff^* W_i + Y_ft^* (c + ı s) and p^T + ı q^T = Y_tt^* W_j + Y_tf^* (c − ı s) for a line i → j.

    Each equation is divided by the length of its row: admittances span four orders of magnitude.
    """
    x, lines, pairs = variables, network.lines, network.pairs
    y_ff, y_ft, y_tf, y_tt = (admittance[part.lines] for admittance in lines.admittances)
    w_i, w_j = (x.voltage[np.searchsorted(part.buses, end[part.lines])] for end in (lines.start, lines.end))
    pair = np.searchsorted(part.pairs, pairs.of_line[part.lines])
    c, s, sign = x.cosine[pair], x.sine[pair], pairs.direction[part.lines]

    def equations(
        p: IntArray, q: IntArray, w: IntArray, own: ComplexArray, other: ComplexArray, sign: FloatArray
    ) -> Block:
        g, b = other.real, other.imag
        of_w, of_c = np.concatenate([-own.real, own.imag]), np.concatenate([-g, b])
        of_s = np.concatenate([-b * sign, -g * sign])
        length = np.sqrt(1 + of_w**2 + of_c**2 + of_s**2)
        return _rows(
            x.size,
            np.zeros(length.size),
            (np.concatenate([p, q]), 1 / length),
            (np.tile(w, 2), of_w / length),
            (np.tile(c, 2), of_c / length),
            (np.tile(s, 2), of_s / length),
        )

    return [
        equations(x.active_start, x.reactive_start, w_i, y_ff, y_ft, sign),
        equations(x.active_end, x.reactive_end, w_j, y_tt, y_tf, -sign),
    ]


def _bounds(network: Network, part: Part, variables: Variables) -> tuple[Block, Block, Block]:
    """Voltages and generation within their limits: equations where the two limits are one, upper limits, lower ones."""
    buses, generators, chosen = network.buses, network.generators, part.generators
    columns = np.concatenate([variables.voltage, variables.active, variables.reactive])
    low = np.concatenate(
        [buses.lowest_voltage[part.buses] ** 2, generators.lowest_active[chosen], generators.lowest_reactive[chosen]]
    )
    high = np.concatenate(
        [buses.highest_voltage[part.buses] ** 2, generators.highest_active[chosen], generators.highest_reactive[chosen]]
    )
    fixed = low == high  # as two inequalities the set would have no interior, which interior-point solvers walk in
    above, below = ~fixed & np.isfinite(high), ~fixed & np.isfinite(low)
    size = variables.size
    return (
        _rows(size, high[fixed], (columns[fixed], 1.0)),
        _rows(size, high[above], (columns[above], 1.0)),
        _rows(size, -low[below], (columns[below], -1.0)),
    )


def _angles(network: Network, part: Part, variables: Variables) -> list[Block]:
    """tan(θ_min) c ≤ s ≤ tan(θ_max) c, times the cosine; a limit of 90° or more says nothing in this form."""
    lines, pairs = network.lines, network.pairs
    ahead = pairs.direction > 0
    low, high = np.full(len(pairs), -np.inf), np.full(len(pairs), np.inf)
    np.maximum.at(low, pairs.of_line, np.where(ahead, lines.lowest_angle, -lines.highest_angle))
    np.minimum.at(high, pairs.of_line, np.where(ahead, lines.highest_angle, -lines.lowest_angle))
    empty = np.flatnonzero(low > high)
    if empty.size:
        both = np.array([pairs.low[empty[0]], pairs.high[empty[0]]])
        raise InputError(
            f"{network.name}: the angle limits of the parallel lines between buses {network.named(both)} "
            "leave no angle that all of them allow."
        )
    low, high = low[part.pairs], high[part.pairs]
    above, below = high < np.pi / 2, low > -np.pi / 2
    c, s = variables.cosine, variables.sine
    return [
        _rows(variables.size, np.zeros(above.sum()), (s[above], np.cos(high[above])), (c[above], -np.sin(high[above]))),
        _rows(variables.size, np.zeros(below.sum()), (s[below], -np.cos(low[below])), (c[below], np.sin(low[below]))),
    ]


def _ratings(network: Network, part: Part, variables: Variables) -> Block:
    """|(p, q)| ≤ rating at either end of a line, unless the voltage limits imply it.

    |S_ij| ≤ |Y_ff| W_i + |Y_ft| |(c, s)|, and |(c, s)|² ≤ W_i W_j: a limit above what that can reach is left out, as
    files that know no limit write one of 9900 MVA.
    """
    x, lines, highest = variables, network.lines, network.buses.highest_voltage
    y_ff, y_ft, y_tf, y_tt = (np.abs(admittance) for admittance in lines.admittances)
    v_i, v_j = highest[lines.start], highest[lines.end]
    ends = [
        (x.active_start, x.reactive_start, y_ff * v_i**2 + y_ft * v_i * v_j),
        (x.active_end, x.reactive_end, y_tt * v_j**2 + y_tf * v_i * v_j),
    ]
    binding = [(lines.rating < reach)[part.lines] for _, _, reach in ends]
    p = np.concatenate([active[kept] for (active, _, _), kept in zip(ends, binding, strict=True)])
    q = np.concatenate([reactive[kept] for (_, reactive, _), kept in zip(ends, binding, strict=True)])
    rating = np.concatenate([lines.rating[part.lines][kept] for kept in binding])
    nothing = np.zeros(p.size)
    return _cones(_rows(x.size, rating), _rows(x.size, nothing, (p, -1.0)), _rows(x.size, nothing, (q, -1.0)))


def _products(network: Network, part: Part, variables: Variables) -> Block:
    """c² + s² ≤ W_i W_j, as |(c, s, (W_i − W_j)/2)| ≤ (W_i + W_j)/2."""
    pairs, size = network.pairs, variables.size
    w_i, w_j = (variables.voltage[np.searchsorted(part.buses, end[part.pairs])] for end in (pairs.low, pairs.high))
    nothing = np.zeros(part.pairs.size)
    return _cones(
        _rows(size, nothing, (w_i, -0.5), (w_j, -0.5)),
        _rows(size, nothing, (variables.cosine, -1.0)),
        _rows(size, nothing, (variables.sine, -1.0)),
        _rows(size, nothing, (w_i, -0.5), (w_j, 0.5)),
    )


def _rows(width: int, limits: FloatArray, *terms: Term) -> Block:
    """A row for each limit, the sum of one entry from each term."""
    count = limits.size
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *(column for column, _ in terms)])
    values = np.concatenate([np.zeros(0), *(np.broadcast_to(value, count) for _, value in terms)])
    at = np.tile(np.arange(count), len(terms))
    return csr_array(coo_array((values, (at, columns)), shape=(count, width))), limits


def _stack(blocks: list[Block]) -> Block:
    return csr_array(vstack([rows for rows, _ in blocks])), np.concatenate([limits for _, limits in blocks])


def _cones(*blocks: Block) -> Block:
    """Row k of each block together make cone k."""
    rows, limits = _stack(list(blocks))
    order = np.arange(limits.size).reshape(len(blocks), -1).T.ravel()
    return rows[order], limits[order]
