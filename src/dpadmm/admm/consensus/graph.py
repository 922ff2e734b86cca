"""No server: every node talks to its neighbours (theory 6). What a node hears is the mean of their releases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._fields import option
from dpadmm.admm.consensus.base import Consensus, Server
from dpadmm.admm.rho import Rho
from dpadmm.admm.setting import Setting
from dpadmm.errors import InputError


@dataclass(frozen=True)
class Neighbours(Consensus):
    """Tilt = 2 q_i, kappa = 2 theta_i V_i, centre = the mean over neighbours j of (x_i + x_j) / 2.

    q_i <- q_i + (theta/2) sum over j of (x_i - x_j) = q_i + (theta V_i / 2) (x_i - mean of the x_j): a node needs its
    own release and one mean, and nothing of anybody farther away. All nodes' means are one sparse product.

    The duals sum to zero, and the nodes agree on the pooled optimum, if all use the same penalty in the dual step. With
    a theta_i of its own in every node's dual step they agree on the solution of sum of grad f_i / theta_i = 0 instead,
    which 003 overlooks (docs/graphs.md); M-ADMM's common dual step has no such bias. Nor have `edge_penalties`: with
    theta_ij = (theta_i + theta_j)/2 in place of theta_i wherever node i speaks of its neighbour j, both ends of an edge
    pull alike, so the duals sum to zero again (theory 6.4). V_i theta_i becomes the sum of the theta_ij, and the mean
    over neighbours is weighted by them.
    """

    edge_penalties: bool = option(
        False,
        help="Penalties of edges, the mean of both nodes', with which nodes agree on the optimum.",
        panel="Algorithm",
        off_flag="--node-penalties",
        shown="those of nodes, as in 003",
    )

    name = "graph"
    about = "no server: every node hears the mean of its neighbours' releases, and keeps a dual"
    decentralised = True

    def check(self, setting: Setting) -> None:
        if setting.graph is None:
            raise InputError(
                "consensus 'graph' needs a topology: who talks to whom, as in 'ring:10' or 'erdos-renyi:20:0.3'."
            )
        if setting.members.max(initial=0) >= setting.graph.nodes:
            raise InputError(
                f"a graph of {setting.graph.nodes} nodes for {setting.members.max() + 1} agents: it must have a node "
                f"for each."
            )

    def kappa(self, setting: Setting, rho: Rho) -> FloatArray:
        if self.by_edge and isinstance(rho, np.ndarray):
            assert setting.graph is not None
            return 2.0 * np.asarray(setting.graph.edge_penalties(rho).sum(axis=1))[setting.members]
        return 2.0 * rho * setting.degrees

    @property
    def by_edge(self) -> bool:
        return self.edge_penalties

    def heard(self, setting: Setting, releases: FloatArray, rho: Rho) -> FloatArray:
        assert setting.graph is not None
        if self.by_edge and isinstance(rho, np.ndarray):
            return setting.graph.weighted_means(releases, rho)
        return setting.graph.means(releases)

    def dual(
        self, setting: Setting, rho: Rho, dual: FloatArray, released: FloatArray, common: FloatArray
    ) -> FloatArray:
        return dual + (0.25 * self.kappa(setting, rho))[:, None] * (released - common)

    def terms(
        self, setting: Setting, rho: Rho, dual: FloatArray, released: FloatArray, common: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        return 2.0 * dual, self.kappa(setting, rho)[:, None], 0.5 * (released + common)

    def combine(
        self,
        setting: Setting,
        server: Server,
        releases: FloatArray,
        *,
        round: int,
        eta: FloatArray,
        rho: Rho,
        next_rho: Rho,
    ) -> Server:
        return self._broadcast(self.heard(setting, releases, rho))

    def opening(self, setting: Setting, first: FloatArray, runs: int) -> Server:
        """Every node broadcasts x_i(0) before the first update: 003's listings omit this, its formulas need it."""
        assert setting.graph is not None
        return self._broadcast(setting.graph.means(np.broadcast_to(first, (runs, *first.shape))))

    def model(self, server: Server, releases: FloatArray) -> FloatArray:
        """The nodes' mean, which no node knows: for whoever looks at a simulation, or collects what was released."""
        return releases.mean(axis=1)

    @staticmethod
    def _broadcast(heard: FloatArray) -> Server:
        common = heard.reshape(-1, heard.shape[2])
        return Server(common, np.zeros_like(common[:, :0]))
