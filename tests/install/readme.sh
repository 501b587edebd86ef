#!/bin/sh
# readme.sh - the program in README.md compiles unchanged, has at most 30 lines, and runs, also twice in one thread: to
# its end with the fake driver, the emulated driver and a GPU; without any of them it ends with a clear line.  The
# commands of README.md run its two kernels.
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
folder=$PWD emulated=$PWD/build/libptxpack-emu.so

# ---- the kernels, run by each complete command for them ---------------------------------------------------
sed -n '/^```ptx$/,/^```$/p' README.md | sed '1d;$d' >"$work/scale.ptx"
sed -n '/^```cuda$/,/^```$/p' README.md | sed '1d;$d' >"$work/scale.cu"
grep -E '^    ptxpack (ptx|nvrtc) scale\.(ptx|cu) ' README.md | grep -v -e ' \.\.\. ' >"$work/commands"
[ "$(wc -l <"$work/commands")" -ge 3 ] || { echo "there are fewer than 3 commands for the kernels"; exit 1; }
sed -i 's/--sass.*/--no-run/' "$work/commands" # there may be no disassembler
while read -r command; do
    (
        cd "$work" || exit 1
        export PATH="$folder/build:$PATH" PTXPACK_CACHE_DIR="$work/kernels"
        export PTXPACK_DRIVER="$emulated" PTXPACK_PTXJIT="$emulated"
        eval "$command"
    ) >"$work/out" 2>&1 && continue
    if grep -q 'no NVRTC library could be loaded' "$work/out"; then
        echo "SKIP: readme: NVRTC is not installed: $command"
        continue
    fi
    cat "$work/out"
    echo "failed: $command"
    exit 1
done <"$work/commands"

# ---- the program --------------------------------------------------------------------------------------------
sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' >"$work/readme.c"
lines=$(wc -l <"$work/readme.c")
[ "$lines" -ge 10 ] && [ "$lines" -le 30 ] || { echo "the program has $lines lines"; exit 1; }
${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -Ibuild/include "$work/readme.c" build/libptxpack.a \
    -ldl -lpthread -o "$work/readme" || exit 1
{
    sed 's/^int main(void)$/static int once(void)/; $s/^}$/    return 0;\n}/' "$work/readme.c"
    echo 'int main(void) { return once() || once(); }'
} >"$work/twice.c"
${CC:-cc} -std=c11 -Wall -Wextra -Werror -Ibuild/include "$work/twice.c" build/libptxpack.a -ldl -lpthread \
    -o "$work/twice" || exit 1
fakes=$PWD/build/tests
for program in readme twice; do
    PTXPACK_CACHE_DIR=$work/fakes PTXPACK_DRIVER=$fakes/fake_driver.so PTXPACK_PTXJIT=$fakes/fake_ptxjit.so \
        "$work/$program" || { echo "$program: the exit status is $? with the fake driver"; exit 1; }
    PTXPACK_CACHE_DIR=$work/emulated PTXPACK_DRIVER=$emulated PTXPACK_PTXJIT=$emulated \
        "$work/$program" 2>"$work/reports" || { echo "$program: the exit status is $? with the emulated driver"; exit 1; }
    [ ! -s "$work/reports" ] || { cat "$work/reports"; exit 1; }
done
PTXPACK_CACHE_DIR=$work/cache "$work/readme" >"$work/out"
status=$?
cat "$work/out"
[ $status -eq 0 ] && exit 0
[ $status -eq 1 ] && [ "$(wc -l <"$work/out")" -eq 1 ] && grep -q libcuda "$work/out" && {
    echo "SKIP: readme: there is no GPU: the program ran on the fake and the emulated driver only"
    exit 0
}
echo "exit status $status"
exit 1
