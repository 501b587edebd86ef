"""command.py - the command `ptxpack` of an environment into which pip has installed the package: runs the program that the wheel
holds, or, in place of an editable one, that of the tree."""
from __future__ import annotations

import os
import sys

from .library import LIBRARY


def main() -> None:
    here = os.path.dirname(os.path.realpath(__file__))
    programs = [os.path.join(here, folder, "ptxpack") for folder in ("bin", os.path.dirname(LIBRARY))]
    program = next((path for path in programs if os.path.isfile(path)), None)
    if program is None:
        sys.exit("ptxpack: the command is not at %s" % programs[0])
    os.execv(program, ["ptxpack"] + sys.argv[1:])
