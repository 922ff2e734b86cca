"""Agents' work on the workers of a Dask cluster."""
