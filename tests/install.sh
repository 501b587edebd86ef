#!/bin/sh
# install.sh - `make install` into a temporary folder: what must be there is there, the library needs libc alone and
# shows only ptxpack_ names, programs in C and C++ build against what was installed and run without a GPU, and
# `make uninstall` takes every file away.
cd "$(dirname "$0")/.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
root="$work/a root" # DESTDIR may hold spaces
cc=${CC:-cc} failed=0
lib=$root/usr/lib include=$root/usr/include

fail() {
    echo "FAIL: $1"
    failed=$((failed + 1))
}

make all >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
touch "$work/stamp"
make install DESTDIR="$root" PREFIX=/usr >"$work/log" 2>&1 || { cat "$work/log"; echo "FAIL: make install"; exit 1; }
find build -maxdepth 1 -type f -newer "$work/stamp" | grep . && fail "install built something"

# ---- files ----
for file in usr/bin/ptxpack usr/lib/libptxpack.a usr/lib/libptxpack.so usr/lib/libptxpack.so.0 \
    usr/lib/libptxpack-emu.so; do
    [ -f "$root/$file" ] || fail "$file is not installed"
done
for header in $(sed -n '/^PUBLIC_HEADERS :=/,/[^\\]$/p' Makefile | sed 's/^PUBLIC_HEADERS :=//; s/\\$//'); do
    cmp "$header" "$include/ptxpack/$(basename "$header")" || fail "$header is not installed"
done
[ "$(readlink "$lib/libptxpack.so")" = libptxpack.so.0 ] || fail "libptxpack.so is no link to libptxpack.so.0"
find "$root" -type f -perm /022 | grep . && fail "others may write to what is installed"

# ---- the libraries ----
readelf -dW "$lib/libptxpack.so.0" >"$work/dynamic"
grep -q 'SONAME.*\[libptxpack\.so\.0\]' "$work/dynamic" || fail "the soname is not libptxpack.so.0"
sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' "$work/dynamic" |
    grep -Ev '^(libc|libdl|libpthread|libm|ld-linux[^.]*|ld64)\.so\.[0-9]+$' && fail "libptxpack.so needs more than libc"
grep -E 'TEXTREL|RPATH|RUNPATH' "$work/dynamic" && fail "libptxpack.so has text relocations or a search path"
nm -D --defined-only "$lib/libptxpack-emu.so" | awk '{print $3}' | grep -Ev '^(cu[A-Z]|nvPTXCompiler|ptxpack_emu_)' &&
    fail "libptxpack-emu.so shows other names than a driver's"
(cd / && "$root/usr/bin/ptxpack" vector-add --n 1000 --device emu --verify >"$work/log" 2>&1) ||
    { cat "$work/log"; fail "the installed command does not find the emulated driver"; }
readelf -lW "$lib/libptxpack.so.0" | grep 'GNU_STACK.*RWE' && fail "libptxpack.so wants an executable stack"
bytes=$(wc -c <"$lib/libptxpack.so.0")
echo "libptxpack.so: $bytes bytes"
[ "$bytes" -le 1048576 ] || fail "libptxpack.so has more than 1 MiB"
nm -D --defined-only "$lib/libptxpack.so.0" | awk '{print $3}' >"$work/names"
[ "$(wc -l <"$work/names")" -ge 20 ] || fail "libptxpack.so shows hardly any names"
grep -v '^ptxpack_' "$work/names" && fail "libptxpack.so shows names without our prefix"
nm -g --defined-only "$lib/libptxpack.a" | awk 'NF == 3 {print $3}' | grep -v '^ptxpack_' &&
    fail "libptxpack.a has global names without our prefix"

# ---- programs ----
cat >"$work/program.c" <<'PROGRAM'
#include <stdio.h>
#include <string.h>
#include <ptxpack/ptxpack.h>

/* One key: the output is its value. */
static int reference_works(void)
{
    const uint16_t q[8] = {0x3c00}, v[8] = {0x3c00, 0x4000, 0xc000, 0x3800, 0, 0x4200, 0x3c00, 0x3c00};
    double o[8] = {0}, lse[1] = {0};
    ptxpack_attention_desc d;
    memset(&d, 0, sizeof d);
    d.size = sizeof d;
    d.dtype = PTXPACK_F16;
    d.batch = d.seqlen_q = d.seqlen_kv = d.heads_q = d.heads_kv = 1;
    d.head_dim = 8;
    return ptxpack_attention_reference(&d, q, q, v, NULL, o, lse) == PTXPACK_OK && o[1] == 2 &&
           o[2] == -2 && o[5] == 3;
}

int main(void)
{
    ptxpack *handle = NULL;
    ptxpack_status status = ptxpack_open(NULL, &handle);
    printf("%s: %s\n", ptxpack_status_name(status), ptxpack_detail(NULL));
    if (status != PTXPACK_OK && handle != NULL)
        return 3;
    ptxpack_close(handle);
    return reference_works() ? 0 : 4;
}
PROGRAM
cp "$work/program.c" "$work/program.cc"

# run NAME COMMAND...: with a driver that is not there, and with what the machine has
run() {
    name=$1
    shift
    PTXPACK_DRIVER=/no/such/driver.so "$@" >"$work/out" 2>&1 || fail "$name: exit status $?"
    grep -q '^PTXPACK_E_NO_DRIVER: .*/no/such/driver\.so' "$work/out" || fail "$name: $(cat "$work/out")"
    "$@" >"$work/out" 2>&1 || fail "$name: exit status $?"
    grep -Eq '^PTXPACK_(OK: |E_[A-Z_]*: .+)' "$work/out" || fail "$name: $(cat "$work/out")"
    [ "$(wc -l <"$work/out")" -eq 1 ] || fail "$name printed more: $(cat "$work/out")"
}

# build NAME COMPILER FLAG...
build() {
    name=$1
    shift
    "$@" -Wall -Wextra -Wpedantic -Werror -I"$include" -o "$work/$name" || { fail "$name does not build"; return 1; }
}

export PTXPACK_CACHE_DIR="$work/cache"
build shared "$cc" -std=c11 "$work/program.c" -L"$lib" -lptxpack &&
    run "the shared library" env LD_LIBRARY_PATH="$lib" "$work/shared"
build static "$cc" -std=c11 "$work/program.c" "$lib/libptxpack.a" -ldl -lpthread -lm &&
    run "the static library" "$work/static"
cxx=$(command -v g++ || command -v clang++)
if [ -n "$cxx" ]; then
    build cxx "$cxx" -std=c++17 "$work/program.cc" -L"$lib" -lptxpack &&
        run "the shared library in C++" env LD_LIBRARY_PATH="$lib" "$work/cxx"
else
    echo "SKIP: install: no g++ and no clang++: no program in C++ was built"
fi
"$root/usr/bin/ptxpack" list >"$work/out" && grep -q attention_mma "$work/out" || fail "the installed command"

# ---- and away again ----
make uninstall DESTDIR="$root" PREFIX=/usr >"$work/log" 2>&1 || { cat "$work/log"; fail "make uninstall"; }
find "$root" ! -type d | grep . && fail "uninstall leaves files"
[ ! -e "$include/ptxpack" ] || fail "uninstall leaves $include/ptxpack"
echo "$failed failures"
[ $failed -eq 0 ]
