"""All targets: where their files are, and which ones a person means."""

from __future__ import annotations

from pathlib import Path

from dpadmm.errors import InputError, unknown
from dpadmm.reproducing.target import Target, read

PAPERS = {
    "000": "Huang et al., DP-ADMM",
    "001": "Ryu & Kim, constrained DP ADMM",
    "002": "Ding et al., PS-ADMM",
    "003": "Zhang, Khalili & Liu, recycled ADMM",
    "004": "Zhou & Xiang, FDP-ADMM",
}
DECLARED = Path(__file__).parent / "declared"  # part of an installation
_OF_A_CHECKOUT = Path(__file__).parents[3] / "reproductions"


def folder(given: Path | None = None) -> Path:
    """Where the declarations are: as asked for, or those that come with the library."""
    place = DECLARED if given is None else given
    if not any(place.glob("[0-9]*.toml")):
        raise InputError(f"no reproductions in {str(place)!r}: name a folder that has some with --folder.")
    return place


def home(given: Path | None = None) -> Path:
    """Below which results are kept: beside declarations of one's own, else in a checkout's or the current folder."""
    if given is not None:
        return given
    return _OF_A_CHECKOUT if _OF_A_CHECKOUT.is_dir() else Path("reproductions")


def targets(place: Path, paper: str | None = None, figure: str | None = None) -> list[Target]:
    """Those of a paper, or one of them: `000`, `000 figure-1`, `000 figure 1`, `000 1`, `004 table-2`."""
    if paper is not None and paper not in PAPERS:
        raise unknown("paper", paper, PAPERS)
    paths = sorted(place.glob("[0-9]*.toml"), key=_order)
    found = [read(path) for path in paths if paper in (None, path.name[:3])]
    if figure is None:
        return found
    wanted = figure.strip().lower().replace(" ", "-")
    wanted = f"figure-{wanted}" if wanted.isdigit() else wanted
    mine = [target for target in found if target.id == f"{paper}-{wanted}"]
    if not mine:
        raise unknown(f"figure of paper {paper}", figure, [target.id[4:] for target in found])
    return mine


def _order(path: Path) -> tuple[str, bool, str]:
    """Paper by paper; figures, tables, and then what no paper has."""
    paper, _, name = path.stem.partition("-")
    return paper, not name.startswith(("figure", "table")), name
