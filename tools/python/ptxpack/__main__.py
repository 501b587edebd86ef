"""python3 -m ptxpack [info | verify] [--device gpu | emu] [--version]

  info    say what the first device is and how PTX is compiled for it (the default)
  verify  compute attention on random input and compare it with the same in double precision on the CPU

Without a GPU both use the emulated driver, and say so; --device, PTXPACK_DEVICE and PTXPACK_DRIVER choose it.
Exit status: 0 done, 1 failed, 2 wrong usage."""
from __future__ import annotations

import argparse
import os
import sys

from . import Error, __version__, info
from .device import _driver
from .verify import verify

ABSENT = ("PTXPACK_E_NO_DRIVER", "PTXPACK_E_STUB_DRIVER", "PTXPACK_E_NO_DEVICE")


def _choose_device(device: str | None) -> str:
    """Chooses the device.  Returns why the emulated driver is used although nobody asked for it, or ""."""
    if device is not None:
        os.environ["PTXPACK_DEVICE"] = device
    try:
        info()
    except Error as failure:
        named = os.environ.get("PTXPACK_DEVICE") or os.environ.get("PTXPACK_DRIVER")
        if named or failure.status not in ABSENT:
            raise
        os.environ["PTXPACK_DEVICE"] = "emu"
        return str(failure).partition("; PTXPACK_DEVICE")[0]
    return ""


def _main() -> int:
    lines = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser("python3 -m ptxpack", description=lines[1], epilog=lines[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="info", choices=("info", "verify"))
    parser.add_argument("--device", choices=("gpu", "emu"))
    parser.add_argument("--version", action="version", version=__version__)
    asked = parser.parse_args()
    try:
        why = _choose_device(asked.device)
        facts = info()
        if why:
            print("no GPU: %s" % why)
        if _driver().emulated:
            print("emulated: every instruction is executed on the CPU; times say nothing of a GPU")
        if asked.what == "info":
            print("\n".join("%-15s %s" % pair for pair in facts.items()))
            return 0
        print("%s, %s" % (facts["name"], facts["target"]))
        return 0 if verify(facts["target"]) else 1
    except (Error, ImportError) as failure:
        print(failure, file=sys.stderr)
        return 1


sys.exit(_main())
