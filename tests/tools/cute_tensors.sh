#!/bin/sh
# cute_tensors.sh - `ptxpack layout` prints tensors as CuTe does, byte for byte: tests/data/cute_tensors.txt has lines
# "> EXPRESSION", each followed by what a C++ program with CuTe's headers printed of it (tests/data/record_cute_tensors.py).
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# A comment before each expression is copied, so that a difference has its expression above it.
sed -n 's/^> \(.*\)/# \1\n\1/p' tests/data/cute_tensors.txt >"$work/lines"
sed 's/^> /# /' tests/data/cute_tensors.txt >"$work/cute"
build/ptxpack layout - <"$work/lines" >"$work/ours" || echo "ptxpack layout ended with status $?"
count=$(grep -c '^> ' tests/data/cute_tensors.txt)
if ! cmp -s "$work/cute" "$work/ours"; then
    diff -U8 "$work/cute" "$work/ours" | head -60
    echo "FAIL: of the $count tensors some differ from CuTe's (-)"
    exit 1
fi
echo "$count tensors as CuTe prints them"
