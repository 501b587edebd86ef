"""python3 -m ptxpack - say what the first device is and how PTX is compiled for it."""
import sys

from . import Error, info

try:
    print("\n".join("%-15s %s" % pair for pair in info().items()))
except (Error, ImportError) as failure:
    sys.exit(str(failure))
