"""Releases before the rounds, and rows as they let them be seen: principal components, standardised columns."""
