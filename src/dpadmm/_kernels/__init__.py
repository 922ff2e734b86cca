"""Compiled loops: how they are compiled, kept on disk, and how the tag of a loss selects what they call."""

import os

# Intel's vector library computes the exponential of the last records of a loop, which fill no vector, by another
# formula than that of the others. A slope must not depend on where its record lies.
os.environ.setdefault("NUMBA_DISABLE_INTEL_SVML", "1")
