"""wheel.py - what hatchling runs to make a wheel: builds libptxpack.so, libptxpack-emu.so and the command with make, puts them
beside the Python files, and names the platform by the version of glibc that they need.

CC, CFLAGS, MAKE and MAKEFLAGS of the environment are make's; STRIP names a program that removes symbols, or is "no"."""
import os
import platform
import re
import shutil
import subprocess

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = {"libptxpack.so": "ptxpack/libptxpack.so", "libptxpack-emu.so": "ptxpack/libptxpack-emu.so",
         "ptxpack": "ptxpack/bin/ptxpack"}  # from build/, to the wheel


def build(root):
    """Builds libraries and command with the Makefile."""
    command = [os.environ.get("MAKE", "make")] + ["build/" + name for name in FILES]
    if "MAKEFLAGS" not in os.environ:
        command.append("-j%d" % (os.cpu_count() or 1))
    try:
        subprocess.run(command, cwd=root, check=True)
    except (OSError, subprocess.CalledProcessError) as why:
        raise SystemExit("ptxpack: %s; the build needs make, gcc and the headers of libxxhash, libmd and zlib (on "
                         "Debian: make gcc libxxhash-dev libmd-dev zlib1g-dev)" % why) from None


def stripped(root, name):
    """Makes a copy without symbols, as `make install` does."""
    folder, strip = os.path.join(root, "build", "wheel"), os.environ.get("STRIP", "strip")
    os.makedirs(folder, exist_ok=True)
    copy = shutil.copy(os.path.join(root, "build", name), os.path.join(folder, name))
    if strip != "no":
        subprocess.run([strip, "--strip-unneeded", copy], check=True)
    return copy


def platform_tag(files):
    """The tag of the newest glibc symbols that the files name: manylinux_2_34_x86_64; for another libc linux_x86_64."""
    versions = []
    for file in files:
        with open(file, "rb") as binary:
            versions += re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", binary.read())
    machine = platform.machine()
    if not versions:
        return "linux_" + machine
    return "manylinux_%d_%d_%s" % (max((int(major), int(minor)) for major, minor in versions) + (machine,))


class Binaries(BuildHookInterface):
    def initialize(self, version, build_data):
        build(self.root)
        if version == "editable":  # the module finds build/ by itself
            return
        copies = {stripped(self.root, name): place for name, place in FILES.items()}
        build_data["force_include"].update(copies)
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + platform_tag(copies)
