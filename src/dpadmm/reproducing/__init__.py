"""The papers' figures and tables, run anew: a declarative file says what to run, and what the paper claims of it."""
