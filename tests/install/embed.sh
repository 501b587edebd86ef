#!/bin/sh
# embed.sh - the examples of embedding, tools/examples/embed_*: each builds against an installation as its own
# build file says, from a copy elsewhere.  Each runs on the emulated driver as GPUs of two kinds, without a driver
# (it prints one clear line), and on a GPU if there is one.
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL PREFIX DESTDIR BINDIR LIBDIR INCLUDEDIR PYTHONDIR STRIP
unset PTXPACK_LIBRARY PTXPACK_PTX_DIR PTXPACK_ARCH PTXPACK_DRIVER PTXPACK_PTXJIT PTXPACK_DEVICE PTXPACK_EMU PYTHONPATH
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0 ran=0
make install DESTDIR="$work" PREFIX=/usr >"$work/log" 2>&1 ||
    { cat "$work/log"; echo "FAIL: make install"; exit 1; }
cp -r tools/examples/embed_c tools/examples/embed_cpp tools/examples/embed_python "$work/" || exit 1
prefix=$work/usr
export LD_LIBRARY_PATH="$prefix/lib" PTXPACK_CACHE_DIR="$work/cache" PYTHONDONTWRITEBYTECODE=1
cd "$work" || exit 1

fail() {
    echo "FAIL: $1"
    failed=$((failed + 1))
}

skip() {
    echo "SKIP: embed: $1"
}

# run NAME PATTERN COMMAND...: fails unless the command prints one line with PATTERN, on GPUs of the kinds $sms
sms="75 90"
run() {
    name=$1 pattern=$2
    shift 2
    ran=$((ran + 1))
    for sm in $sms; do
        PTXPACK_EMU_SM=$sm PTXPACK_DEVICE=emu "$@" >out 2>&1 ||
            fail "$name as sm_$sm: exit status $?"
        grep -q "$pattern" out && [ "$(wc -l <out)" -eq 1 ] || fail "$name as sm_$sm: $(cat out)"
    done
    PTXPACK_DRIVER=/no/such.so "$@" >out 2>&1 && fail "$name succeeds without a driver"
    grep -q '^PTXPACK_E_NO_DRIVER: .*/no/such.so' out && [ "$(wc -l <out)" -eq 1 ] || fail "$name: $(cat out)"
    if "$@" >out 2>&1; then
        cat out
    elif grep -Eq '^PTXPACK_E_(NO_DRIVER|STUB_DRIVER|NO_DEVICE): ' out; then
        skip "$name ran on the emulated driver only: no GPU"
    else
        fail "$name on this machine's driver: $(cat out)"
    fi
}

# ---- C: make and pkg-config --------------------------------------------------------------------------------
if command -v pkg-config >/dev/null; then
    make -C embed_c PKG_CONFIG_PATH="$prefix/lib/pkgconfig" LDFLAGS="-Wl,-rpath,$prefix/lib" \
        CFLAGS="-O1 -Werror" >log 2>&1 &&
        (unset LD_LIBRARY_PATH && ldd embed_c/attention) >>log && grep -q "libptxpack.so.0 => $prefix" log
else
    skip "no pkg-config: the example in C was built by flags"
    make -C embed_c CFLAGS="-O1 -Werror" PTXPACK_CFLAGS="-I$prefix/include" \
        PTXPACK_LIBS="-L$prefix/lib -lptxpack" >log 2>&1
fi || { cat log; fail "embed_c does not build"; }
run "embed_c" '^attention_[a-z0-9_]* on .*: largest error' embed_c/attention
sms="75 80 90"
run "embed_c: decode" '^attention_[a-z0-9_]*: 40 steps, largest error' embed_c/decode
sms="75 90"

# ---- C++: CMake, and its test ----------------------------------------------------------------------
cxx=$(command -v g++ || command -v clang++)
if [ -z "$cxx" ]; then
    skip "no g++ and no clang++: the example in C++ was not built"
else
    if command -v cmake >/dev/null; then
        cmake -S embed_cpp -B embed_cpp/build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx" \
            -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wpedantic -Werror" >log 2>&1 &&
            cmake --build embed_cpp/build >log 2>&1 || { cat log; fail "embed_cpp does not build"; }
        (cd embed_cpp/build && ctest) >log 2>&1 && grep -q '100% tests passed.* out of 1' log ||
            { cat log; fail "embed_cpp: ctest"; }
    else
        skip "no cmake: the example in C++ was built by flags"
        mkdir embed_cpp/build
        "$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Werror -I"$prefix/include" embed_cpp/main.cpp \
            -L"$prefix/lib" -lptxpack -o embed_cpp/build/accumulate || fail "embed_cpp does not build"
    fi
    run "embed_cpp" '^vector_add_[a-z0-9_]* on .*: 1000 sums, 0 wrong$' embed_cpp/build/accumulate
fi

# ---- Python ------------------------------------------------------------------------------------------------
if python3 -c 'import ctypes' 2>/dev/null; then
    export PYTHONPATH="$prefix/share/ptxpack/python"
    run "embed_python" '^bytes on .*: largest error' python3 embed_python/attention.py bytes
    python3 embed_python/attention.py numpy >out 2>&1 && fail "embed_python accepts a wrong word"
    grep -q '^numpy is not one of' out || fail "embed_python: $(cat out)"
else
    skip "no python3 with ctypes: the example in Python did not run"
fi
echo "$ran examples, $failed failures"
[ $failed -eq 0 ]
