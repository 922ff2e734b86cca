"""One round: subproblem, solver, perturbation, consensus, schedule, and the algorithm that puts them together."""
