"""How much is read of what others wrote, be it a file or a message: one table, which every reader obeys.

A file can be small and ask for much: a nested text, a packed archive, a table of which most is missing, a database
whose tables are programs. So sizes are checked before anything is unpacked, parsed or allocated, and memory and time
stay in proportion to these limits. What exceeds one is an `InputError` of one line that names the value and the place.

    bytes              of whole files, by what they are
    unpacked           of compressed files: bytes altogether, and per byte of the file
    nested             depth and number of values in JSON and TOML
    tables             columns and cells
    text               characters of a number, of a line on a terminal, of a message
    kept               of what strangers can make us write down

Messages between owners and coordinator have limits of their own, which are part of how they are written
(`federation/frames.py`, `federation/cards.py`); private files are read by `_private_files.py`.
"""

from __future__ import annotations

# Bytes of a file.
TEXT = 4_000_000  # policies, columns, terms, cards, notes
SPEC = 128_000_000  # specs, and files of sets and graphs: a graph's edges stand in its spec as one text
RESULT = 64_000_000  # models, results and whatever else a run leaves as JSON
TABLE = 512_000_000  # history.csv, nodes.csv
CASE = 32_000_000  # a power network; the largest that is published has 9 MB
DATA = 1 << 30  # records in a format that is read as a whole, packed or not

# What compressed files may become.
RATIO = 100  # unpacked bytes per byte; images of digits have 5, and a file of nothing but zeros 1,000
MEMBERS = 10_000  # files in an archive

# JSON and TOML.
DEPTH = 50  # values inside each other
VALUES = 4_000_000  # in one text
TOML_VALUES = 200_000  # likewise; its reader is slow
KEY_PARTS = 20  # of a dotted key in TOML

# Tables.
COLUMNS = 100_000  # of records
HEADER = 10_000_000  # bytes of a first line
CELLS_PER_BYTE = 1_000  # in Parquet, which can say once what many rows have
METRICS = 1_000  # columns of what a run has measured
CELLS = 500_000_000  # of records: rows times columns
GAPS = 8  # cells of a grid of rounds and runs per row of its file

# Text.
NUMBER = 64  # characters of a number in a case file
LINE = 20_000  # characters of a line on a terminal
MESSAGE = 2_000  # characters of an error
REASON = 500  # characters of what somebody else gives as a reason

# SQLite, of a file that somebody may have made.
CELL = 256_000_000  # bytes of a value or row
STATEMENT = 100_000  # bytes of SQL, also of what defines a table
STEPS = 1_000_000_000  # of SQLite's machine without a pause: seconds
CELLS_IN_DATABASE = 10  # values that a query finds per byte of its file, beyond a million
QUERY = 10_000_000_000  # likewise, for the query that finds records: minutes

# What strangers can make us keep.
LOG = 1_000_000  # bytes of a log; what is older is forgotten
PROPOSAL = 20_000  # bytes of a run that waits for an owner's decision
WAITING = 50  # such runs
