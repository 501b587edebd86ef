#!/bin/sh
# ctypes_client.sh - a program in another language finds the emulated driver only by the library path.
# Usage: ctypes_client.sh [BUILD]; $PTXPACK_EMU_LIBRARY names another library.
build=${1:-build}
here=$(dirname "$0")
library=${PTXPACK_EMU_LIBRARY:-$build/libptxpack-emu.so}
if ! command -v python3 >/dev/null || ! python3 -c 'import ctypes' 2>/dev/null; then
    echo "SKIP: no python3 with ctypes"
    exit 77
fi
if [ ! -f "$library" ]; then
    echo "$library is missing"
    exit 1
fi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
ln -s "$(readlink -f "$library")" "$folder/libcuda.so.1"
for sm in 75 90; do
    PTXPACK_EMU_SM=$sm PTXPACK_EMU_FAULT= LD_LIBRARY_PATH=$folder python3 "$here/ctypes_client.py" || exit 1
done
