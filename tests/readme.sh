#!/bin/sh
# readme.sh - the program in README.md compiles as it stands, has at most 30 lines, and runs: to its end with
# the fake driver, the emulated one and a GPU, elsewhere to a clear line.
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' >"$work/readme.c"
lines=$(wc -l <"$work/readme.c")
[ "$lines" -ge 10 ] && [ "$lines" -le 30 ] || { echo "the program has $lines lines"; exit 1; }
${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -Icache -Iloader -Ihost "$work/readme.c" build/libptxpack.a \
    -ldl -lpthread -o "$work/readme" || exit 1
fakes=$PWD/build/tests
PTXPACK_CACHE_DIR=$work/fakes PTXPACK_DRIVER=$fakes/fake_driver.so PTXPACK_PTXJIT=$fakes/fake_ptxjit.so \
    "$work/readme" || { echo "exit status $? with the fake driver"; exit 1; }
emulated=$PWD/build/libptxpack-emu.so
PTXPACK_CACHE_DIR=$work/emulated PTXPACK_DRIVER=$emulated PTXPACK_PTXJIT=$emulated \
    "$work/readme" 2>"$work/reports" || { echo "exit status $? with the emulated driver"; exit 1; }
[ ! -s "$work/reports" ] || { cat "$work/reports"; exit 1; }
PTXPACK_CACHE_DIR=$work/cache "$work/readme" >"$work/out"
status=$?
cat "$work/out"
[ $status -eq 0 ] && exit 0
[ $status -eq 1 ] && [ "$(wc -l <"$work/out")" -eq 1 ] && grep -q libcuda "$work/out" && {
    echo "SKIP: readme: run on the fake and the emulated driver only: no GPU"
    exit 0
}
echo "exit status $status"
exit 1
