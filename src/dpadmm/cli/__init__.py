"""The command line: one file per verb.

Only Typer and Rich are imported at the top of these files; a verb imports the library when it runs, so that
`dpadmm --help` answers at once.
"""
