"""Differentially private distributed learning and optimisation by ADMM."""
