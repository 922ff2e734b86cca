"""Pages in a browser, where there is one; else their address is said."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from pathlib import Path

from dpadmm.cli.console import err


def opened(address: str) -> bool:
    """Whether a browser with windows took the address; one that would take over the terminal is not asked."""
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER")
    if sys.platform.startswith("linux") and not screen:
        return False
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


def temporary(name: str) -> Path:
    """A folder for a run that was given none; it stays until the system clears it away."""
    return Path(tempfile.mkdtemp(prefix=f"dpadmm-{name}-"))


def show_report(folder: Path, quiet: bool) -> None:
    """Writes a run's report into its folder and shows it."""
    from dpadmm.report.gather import gather
    from dpadmm.report.page import write

    path = folder / "report.html"
    write(gather([folder]), path)
    shown = opened(path.absolute().as_uri())
    if not quiet or not shown:
        where = "report" if shown else "no browser here; the report is"
        err().print(f"{where} in {path}", soft_wrap=True)
