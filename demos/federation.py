"""A federation on one machine: a coordinator and three owners as processes of their own, with mutual TLS on loopback.

The records are Adult's, split by work class. The companies' lie in a Parquet file, the state's in a PostgreSQL
database, those of the self-employed in a CSV file. Everything is done by the commands that people would give; each is
printed before it runs. Needs dpadmm[federation], and for the database PostgreSQL's programs, which are installed from
Debian's packages where that is possible and done without otherwise.

    python demos/federation.py [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet
from rich.console import Console

from dpadmm.datasets import ADULT_ENCODER, adult_table
from dpadmm.spec.columns import Schema

OWNERS = {
    "companies": ("Private",),
    "self-employed": ("Self-emp-inc", "Self-emp-not-inc", "Without-pay"),
    "state": ("Federal-gov", "Local-gov", "State-gov"),
}
SCHEMA = Schema.of(ADULT_ENCODER, "income", ("<=50K", ">50K"))
PUBLIC = 5222  # records that everybody may see, to try the model on
PASSWORD = "only-for-this-demo"
SPEC = """\
[run]
algorithm = "auto"
epsilon = 1.0
delta = 1e-6

[federation]
public_test = "public.csv"
"""
POLICY = """\
dataset = "{name}"
epsilon = 2.0
delta = 1e-6
smallest_count = 100
"""
console = Console(highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="leave everything in this folder")
    keep = parser.parse_args().keep
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dpadmm-federation-") as place:
        home = keep or Path(place)
        home.mkdir(parents=True, exist_ok=True)
        os.environ["DPADMM_STATE"] = str(home / "state")  # keys and ledgers of a demo lie nowhere else
        tables = records(home)
        with contextlib.ExitStack() as open_things:
            sources = open_things.enter_context(placed(home, tables))
            federate(home, sources, open_things)
    console.print(f"\n{time.monotonic() - began:.0f} s in all.")


def records(home: Path) -> dict[str, pa.Table]:
    """Who owns what; and the records that are public."""
    table = adult_table()
    order = np.random.default_rng(0).permutation(table.num_rows)
    csv.write_csv(table.take(order[:PUBLIC]), home / "public.csv")
    rest = table.take(order[PUBLIC:])
    return {
        name: rest.filter(pc.is_in(rest.column("workclass"), value_set=pa.array(values)))
        for name, values in OWNERS.items()
    }


@contextlib.contextmanager
def placed(home: Path, tables: dict[str, pa.Table]) -> Iterator[dict[str, list[str]]]:
    """Everybody's records where they keep them; the options that say so."""
    parquet.write_table(tables["companies"], home / "companies.parquet")
    csv.write_csv(tables["self-employed"], home / "self-employed.csv")
    options = {
        "companies": ["--data", str(home / "companies.parquet")],
        "self-employed": ["--data", str(home / "self-employed.csv")],
    }
    server = load_postgres()
    try:
        with server.postgres(PASSWORD) as database:
            os.environ["DPADMM_DATABASE_PASSWORD"] = PASSWORD
            fill(database.url(), tables["state"])
            yield {**options, "state": ["--data", database.url(), "--query", "SELECT * FROM people"]}
            return
    except server.Unavailable as reason:
        console.print(f"[yellow]no PostgreSQL here ({reason}); the state's records go into a CSV file.[/yellow]")
    csv.write_csv(tables["state"], home / "state.csv")
    yield {**options, "state": ["--data", str(home / "state.csv")]}


def fill(url: str, table: pa.Table) -> None:
    import sqlalchemy as sql

    engine = sql.create_engine(sql.make_url(url).set(password=PASSWORD))
    kinds = {True: sql.Text(), False: sql.Float()}
    columns = [sql.Column(field.name, kinds[pa.types.is_string(field.type)]) for field in table.schema]
    people = sql.Table("people", sql.MetaData(), *columns)
    with engine.begin() as connection:
        people.create(connection)
        connection.execute(people.insert(), table.to_pylist())
    engine.dispose()


def federate(home: Path, sources: dict[str, list[str]], open_things: contextlib.ExitStack) -> None:
    """The commands, in the order in which people would give them."""
    columns, spec, study = home / "columns.toml", home / "spec.toml", home / "study"
    columns.write_text(SCHEMA.dumps())
    spec.write_text(SPEC)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    run("federation", "init", str(study), "--host", "localhost", "--port", port, "--columns", str(columns))
    cards = [str(home / f"{name}.card.json") for name in sources]
    for (name, options), card in zip(sources.items(), cards, strict=True):
        policy = home / f"{name}.toml"
        policy.write_text(POLICY.format(name=name))
        words = ["--invitation", str(study / "invitation.json"), "--policy", str(policy), *options, "--card", card]
        run("agent", "init", name, *words)
    run("federation", "add", str(study), *cards)
    open_things.enter_context(kept("coordinator", "start", str(study)))
    for name in sources:
        open_things.enter_context(kept("agent", "start", name))
    result = json.loads(run("submit", str(spec), "--federation", str(study), "--name", "income", "--json", quiet=True))
    show(study, result, list(sources))


def show(study: Path, result: dict[str, Any], owners: list[str]) -> None:
    """The model, and what each owner spent."""
    console.print(
        f"\n[bold]The model[/bold]: {result['algorithm']}, {result['rounds']} rounds in {result['seconds']:.1f} s; "
        f"error on {PUBLIC:,} public records [bold]{result['test_error']:.4f}[/bold] "
        f"(epsilon {result['epsilon']:.3g}, delta {result['delta']:g}, {result['relation']} relation)"
    )
    model = json.loads((study / "runs" / "income" / "model.json").read_text())
    largest = sorted(zip(model["coefficients"], model["features"], strict=True), key=lambda pair: -abs(pair[0]))
    for value, name in largest[:5]:
        console.print(f"  {value:+.3f}  {name}")
    console.print("\n[bold]What each owner spent[/bold]")
    for name in owners:
        status = json.loads(run("agent", "status", name, "--json", quiet=True))
        spent = status["spending"]
        console.print(
            f"  {name}: epsilon {spent['epsilon_spent']:.4g} of {spent['policy_epsilon']:g} "
            f"(delta {spent['delta']:g}), {spent['releases']} releases"
        )


def run(*words: str, quiet: bool = False) -> str:
    """One of our commands, to its end."""
    console.print(f"[dim]$ dpadmm {shlex.join(words)}[/dim]", soft_wrap=True)
    done = subprocess.run(command(*words), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.returncode)
    if not quiet:
        console.print(done.stdout, end="", soft_wrap=True, markup=False)
    return done.stdout


@contextlib.contextmanager
def kept(*words: str) -> Iterator[None]:
    """One of our commands, in the background until the end, which is Ctrl-C."""
    console.print(f"[dim]$ dpadmm {shlex.join(words)} &[/dim]", soft_wrap=True)
    process = subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", "from dpadmm.cli.main import main; main()", *words]


def load_postgres() -> Any:
    """The tests' own server of PostgreSQL."""
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
    return importlib.import_module("postgres")


if __name__ == "__main__":
    main()
