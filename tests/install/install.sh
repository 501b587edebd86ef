#!/bin/sh
# install.sh - `make install` into a temporary folder: all files are there, and the libraries need libc alone and
# export only their own names.  After the folder is moved, programs in C and C++ use it, shared and static, by flags,
# by pkg-config and by CMake, and so does Python.  `make uninstall` removes every file of ours and no other.
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL PREFIX DESTDIR BINDIR LIBDIR INCLUDEDIR PYTHONDIR STRIP
unset PTXPACK_LIBRARY PTXPACK_PTX_DIR PTXPACK_ARCH PTXPACK_DEVICE PTXPACK_EMU PYTHONPATH
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cc=${CC:-cc} failed=0
cxx=$(command -v g++ || command -v clang++)
export PTXPACK_CACHE_DIR="$work/cache"

fail() {
    echo "FAIL: $1"
    failed=$((failed + 1))
}

skip() {
    echo "SKIP: install: $1"
}

# try WHAT COMMAND...: shows its output only when it fails
try() {
    what=$1
    shift
    "$@" >"$work/log" 2>&1 && return
    cat "$work/log"
    fail "$what"
    return 1
}

# ---- files: DESTDIR may hold spaces, and a user's umask does not matter ------------------------------------
make all >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
root="$work/a root"
lib=$root/usr/lib include=$root/usr/include
touch "$work/stamp"
(umask 077 && exec make install DESTDIR="$root" PREFIX=/usr) >"$work/log" 2>&1 ||
    { cat "$work/log"; echo "FAIL: make install"; exit 1; }
find build -maxdepth 1 -type f -newer "$work/stamp" | grep . && fail "install built something"
version=$(sed -n 's/^.define PTXPACK_VERSION  *"\(.*\)"/\1/p' loader/version.h)

for file in bin/ptxpack lib/libptxpack.a "lib/libptxpack.so.$version" lib/libptxpack-emu.so \
    lib/pkgconfig/ptxpack.pc lib/cmake/ptxpack/ptxpack-config.cmake lib/cmake/ptxpack/ptxpack-config-version.cmake \
    share/ptxpack/python/ptxpack/__init__.py share/ptxpack/python/ptxpack/py.typed \
    share/man/man1/ptxpack.1 share/man/man7/ptxpack-environment.7 share/man/man7/ptxpack-ptx.7 \
    share/bash-completion/completions/ptxpack share/zsh/site-functions/_ptxpack \
    share/fish/vendor_completions.d/ptxpack.fish share/doc/ptxpack/LICENSE share/doc/ptxpack/CHANGELOG.md; do
    [ -f "$root/usr/$file" ] || fail "$file is not installed"
done
[ "$(readlink "$lib/libptxpack.so")" = libptxpack.so.0 ] || fail "libptxpack.so is not a link to libptxpack.so.0"
[ "$(readlink "$lib/libptxpack.so.0")" = "libptxpack.so.$version" ] || fail "libptxpack.so.0 is not a link to libptxpack.so.$version"
for header in build/include/ptxpack/*.h; do
    cmp "$header" "$include/ptxpack/$(basename "$header")" || fail "$header is not installed"
done
for header in ptx/inline/*.h; do
    cmp "$header" "$include/ptxpack/inline/$(basename "$header")" || fail "$header is not installed"
done
find "$root" ! -type l -perm /022 | grep . && fail "others may write to what is installed"
find "$root" ! -type l ! -perm -444 | grep . && fail "others may not read what is installed"
grep -rIl '@[A-Z]*@' "$root" && fail "a template is not filled in"

# ---- the libraries -----------------------------------------------------------------------------------------
readelf -dW "$lib/libptxpack.so.0" >"$work/dynamic"
grep -q 'SONAME.*\[libptxpack\.so\.0\]' "$work/dynamic" || fail "the soname is not libptxpack.so.0"
sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' "$work/dynamic" |
    grep -Ev '^(libc|libdl|libpthread|libm|ld-linux[^.]*|ld64)\.so\.[0-9]+$' &&
    fail "libptxpack.so needs more than libc"
grep -E 'TEXTREL|RPATH|RUNPATH' "$work/dynamic" && fail "libptxpack.so has text relocations or a search path"
readelf -dW "$lib/libptxpack-emu.so" | grep -q 'SONAME.*\[libptxpack-emu\.so\]' ||
    fail "libptxpack-emu.so has a wrong soname" # ldconfig would make a link of that name
nm -D --defined-only "$lib/libptxpack-emu.so" | awk '{print $3}' |
    grep -Ev '^(cu[A-Z]|nvPTXCompiler|ptxpack_emu_)' &&
    fail "libptxpack-emu.so exports other names than a driver's"
readelf -lW "$lib/libptxpack.so.0" | grep 'GNU_STACK.*RWE' && fail "libptxpack.so needs an executable stack"
bytes=$(wc -c <"$lib/libptxpack.so.0")
echo "libptxpack.so: $bytes bytes"
[ "$bytes" -le 1200000 ] || fail "libptxpack.so has more than 1.2 MB"
nm -D --defined-only "$lib/libptxpack.so.0" | awk '{print $3}' >"$work/names"
[ "$(wc -l <"$work/names")" -ge 20 ] || fail "libptxpack.so exports almost no names"
grep -v '^ptxpack_' "$work/names" && fail "libptxpack.so exports names without our prefix"
nm -g --defined-only "$lib/libptxpack.a" | awk 'NF == 3 {print $3}' | grep -v '^ptxpack_' &&
    fail "libptxpack.a has global names without our prefix"

# ---- manual pages and completions ----------------------------------------------------------------------------
man=$root/usr/share/man
grep -q "^\.TH PTXPACK 1 .*ptxpack $version" "$man/man1/ptxpack.1" || fail "ptxpack.1 does not name the version"
for word in $(build/ptxpack --help | sed -n 's/^  \([a-z-]*\) .*/\1/p'); do
    grep -q "^\.SS $word" "$man/man1/ptxpack.1" || fail "ptxpack.1 lacks $word"
    grep -q " $word" "$root/usr/share/bash-completion/completions/ptxpack" || fail "bash does not know $word"
    grep -q "'$word:" "$root/usr/share/zsh/site-functions/_ptxpack" || fail "zsh does not know $word"
    grep -q " -a $word " "$root/usr/share/fish/vendor_completions.d/ptxpack.fish" || fail "fish does not know $word"
done
for word in PTXPACK_DEVICE PTXPACK_CACHE_DIR PTXPACK_EMU_SM nvidia; do
    grep -q "$word" "$man/man7/ptxpack-environment.7" || fail "ptxpack-environment.7 lacks $word"
done
for word in '\.irp' '\.macro' '\\e\['; do
    grep -q "$word" "$man/man7/ptxpack-ptx.7" || fail "ptxpack-ptx.7 lacks $word"
done
if command -v groff >/dev/null; then
    for page in "$man"/man?/*; do
        groff -Kutf8 -man -Tutf8 -ww -z "$page" 2>&1 | grep . && fail "$page is not good"
    done
fi
if command -v bash >/dev/null; then
    bash -c '. "$0" && COMP_WORDS=(ptxpack vector-add --device "") COMP_CWORD=3 && _ptxpack && echo "${COMPREPLY[*]}"' \
        "$root/usr/share/bash-completion/completions/ptxpack" | grep -qx 'gpu emu' || fail "bash does not complete --device"
fi
for shell in zsh fish; do
    command -v $shell >/dev/null || continue
    find "$root/usr/share/$shell" -type f -exec $shell -n {} \; 2>&1 | grep . && fail "the completion for $shell"
done

# ---- moved, and used from elsewhere ------------------------------------------------------------------------
mkdir -p "$work/opt"
mv "$root/usr" "$work/opt/ptxpack"
prefix=$work/opt/ptxpack
lib=$prefix/lib include=$prefix/include emulator=$prefix/lib/libptxpack-emu.so
(cd / && "$prefix/bin/ptxpack" vector-add --n 1000 --device emu --verify >"$work/log" 2>&1) ||
    { cat "$work/log"; fail "the installed command does not find the emulated driver"; }
(cd / && "$prefix/bin/ptxpack" list >"$work/out") && grep -q attention_mma "$work/out" ||
    fail "the installed command failed"

for header in build/include/ptxpack/*.h; do
    printf '#include <ptxpack/%s>\ntypedef int not_empty;\n' "$(basename "$header")" >"$work/alone.c"
    "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" "$work/alone.c" ||
        fail "ptxpack/$(basename "$header") does not compile alone as C"
    [ -z "$cxx" ] ||
        "$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" -x c++ "$work/alone.c" ||
        fail "ptxpack/$(basename "$header") does not compile alone as C++"
done

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
    ptxpack_vector_plan *plan = NULL;
    ptxpack_status status = ptxpack_open(NULL, &handle);
    if (status == PTXPACK_OK)
        status = ptxpack_vector_plan_create(handle, PTXPACK_F16, &plan);
    printf("%s: %s\n", ptxpack_status_name(status), ptxpack_detail(handle));
    ptxpack_vector_plan_free(plan);
    ptxpack_close(handle);
    return strcmp(ptxpack_version(), PTXPACK_VERSION) == 0 && reference_works() ? 0 : 4;
}
PROGRAM
cp "$work/program.c" "$work/program.cc"

# run NAME COMMAND...: runs it with a driver that does not exist, with the emulated driver, and with the machine's own
run() {
    name=$1
    shift
    PTXPACK_DRIVER=/no/such/driver.so "$@" >"$work/out" 2>&1 || fail "$name: exit status $?"
    grep -q '^PTXPACK_E_NO_DRIVER: .*/no/such/driver\.so' "$work/out" || fail "$name: $(cat "$work/out")"
    PTXPACK_DRIVER=$emulator PTXPACK_PTXJIT=$emulator "$@" >"$work/out" 2>&1 || fail "$name: exit status $?"
    [ "$(cat "$work/out")" = "PTXPACK_OK: " ] || fail "$name, emulated: $(cat "$work/out")"
    case $name in # a static program finds the emulated driver where the linker does
    *static*) LD_LIBRARY_PATH=$lib PTXPACK_DEVICE=emu "$@" >"$work/out" 2>&1 || fail "$name: exit status $?" ;;
    *) PTXPACK_DEVICE=emu "$@" >"$work/out" 2>&1 || fail "$name: exit status $?" ;;
    esac
    [ "$(cat "$work/out")" = "PTXPACK_OK: " ] || fail "$name, PTXPACK_DEVICE=emu: $(cat "$work/out")"
    "$@" >"$work/out" 2>&1 || fail "$name: exit status $?"
    grep -Eq '^PTXPACK_(OK: |E_[A-Z_]*: .+)' "$work/out" || fail "$name: $(cat "$work/out")"
    [ "$(wc -l <"$work/out")" -eq 1 ] || fail "$name printed more than one line: $(cat "$work/out")"
}

# build NAME COMPILER FLAG...
build() {
    program=$1
    shift
    (cd / && exec "$@" -Wall -Wextra -Wpedantic -Werror -o "$work/$program") ||
        { fail "$program does not build"; return 1; }
}

# use HOW CFLAGS LIBS STATIC_LIBS: builds in both languages and both ways, and runs
use() {
    for language in c cc; do
        case $language in
        c) compiler="$cc -std=c11" ;;
        cc) [ -n "$cxx" ] || continue && compiler="$cxx -std=c++17" ;;
        esac
        build "shared_$language" $compiler $2 "$work/program.$language" $3 &&
            run "$1, shared, .$language" env LD_LIBRARY_PATH="$lib" "$work/shared_$language"
        readelf -dW "$work/shared_$language" | grep -q 'NEEDED.*\[libptxpack\.so\.0\]' ||
            fail "$1: the program is not linked to the shared library"
        build "static_$language" $compiler $2 "$work/program.$language" $4 &&
            run "$1, static, .$language" "$work/static_$language"
        readelf -dW "$work/static_$language" | grep 'NEEDED.*libptxpack' && fail "$1: the program is not linked statically"
    done
}

[ -n "$cxx" ] || skip "no g++ and no clang++: no program in C++ was built"
use "by flags" "-I$include" "-L$lib -lptxpack" "$lib/libptxpack.a -ldl -lpthread -lm"

if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH="$lib/pkgconfig"
    [ "$(pkg-config --modversion ptxpack)" = "$version" ] || fail "pkg-config reports another version"
    [ -f "$(pkg-config --variable=emulator ptxpack)" ] || fail "pkg-config does not know the emulated driver"
    use "by pkg-config" "$(pkg-config --cflags ptxpack)" "$(pkg-config --libs ptxpack)" \
        "$(pkg-config --static --libs ptxpack | sed 's/-lptxpack/-l:libptxpack.a/')"
else
    skip "no pkg-config: ptxpack.pc was not used"
fi

mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'PROJECT'
cmake_minimum_required(VERSION 3.5...3.31)
project(program C)
foreach(wrong 0.0 0.2 1.0 9.9.9)
  find_package(ptxpack ${wrong} QUIET CONFIG)
  if(ptxpack_FOUND)
    message(FATAL_ERROR "version ${wrong} was found")
  endif()
endforeach()
find_package(ptxpack 0.1 REQUIRED CONFIG)
if(NOT EXISTS "${ptxpack_EMULATOR}" OR NOT EXISTS "${ptxpack_PYTHON_DIR}/ptxpack/__init__.py")
  message(FATAL_ERROR "the emulated driver or the Python module is not found")
endif()
add_executable(shared ../program.c)
target_link_libraries(shared PRIVATE ptxpack::ptxpack)
add_executable(static ../program.c)
target_link_libraries(static PRIVATE ptxpack::ptxpack_static)
PROJECT
if command -v cmake >/dev/null; then
    try "CMake does not find the package" cmake -S "$work/project" -B "$work/project/build" \
        -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" &&
        try "CMake does not build" cmake --build "$work/project/build" &&
        run "CMake, shared" "$work/project/build/shared" && run "CMake, static" "$work/project/build/static"
else
    skip "no cmake: the CMake package was not used"
fi

if python3 -c 'import ctypes' 2>/dev/null; then
    (cd / && PTXPACK_DEVICE=emu python3 -c "
import sys
sys.path.insert(0, '$prefix/share/ptxpack/python')
import ptxpack
print(ptxpack.info()['library'])") >"$work/out" 2>&1
    [ "$(cat "$work/out")" = "$lib/libptxpack.so.0" ] || fail "the Python module: $(cat "$work/out")"
else
    skip "no python3 with ctypes: the Python module was not used"
fi

# ---- uninstall ----------------------------------------------------------------------------------------
mv "$prefix" "$root/usr"
touch "$root/usr/include/ptxpack/somebody_elses.h"
try "make uninstall" make uninstall DESTDIR="$root" PREFIX=/usr
[ "$(find "$root" ! -type d)" = "$root/usr/include/ptxpack/somebody_elses.h" ] ||
    fail "uninstall leaves files, or removes others: $(find "$root" ! -type d)"
rm -r "$root"

# ---- other folders, and unstripped -------------------------------------------------------------------------
# folders TARGET: installs or uninstalls with other folders
folders() {
    try "make $1 into other folders" make "$1" DESTDIR="$root" PREFIX=/usr STRIP=no BINDIR=/usr/libexec \
        LIBDIR=/usr/lib/some-gnu INCLUDEDIR=/inc PYTHONDIR=/usr/lib/python3/dist-packages DATADIR=/data
}
root=$work/root # pkg-config cannot split a .pc file's variables at blanks
folders install
lib=$root/usr/lib/some-gnu
for file in inc/ptxpack/ptxpack.h usr/libexec/ptxpack usr/lib/some-gnu/libptxpack.so data/man/man1/ptxpack.1; do
    [ -f "$root/$file" ] || fail "$file is not installed"
done
readelf -SW "$lib/libptxpack.so.0" | grep -q '\.symtab' || fail "STRIP=no strips the library"
for folder in usr/bin usr/include usr/share usr/lib/pkgconfig; do
    [ ! -e "$root/$folder" ] || fail "$folder exists, although another folder was named"
done
grep -q '^LIBRARY = "../../../some-gnu/libptxpack.so.0"$' "$root/usr/lib/python3/dist-packages/ptxpack/library.py" ||
    fail "the Python module does not know where its library is"
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH="$lib/pkgconfig"
    [ -f "$(pkg-config --variable=includedir ptxpack)/ptxpack/ptxpack.h" ] || fail "ptxpack.pc: includedir"
    [ -f "$(pkg-config --variable=libdir ptxpack)/libptxpack.so" ] || fail "ptxpack.pc: libdir"
fi
LD_LIBRARY_PATH="$lib" "$root/usr/libexec/ptxpack" vector-add --n 1000 --device emu --verify \
    >"$work/log" 2>&1 || { cat "$work/log"; fail "the command does not run with LD_LIBRARY_PATH"; }
folders uninstall
find "$root" ! -type d | grep . && fail "uninstall leaves files in other folders"
echo "$failed failures"
[ $failed -eq 0 ]
