#!/bin/sh
# flags.sh - the flags of the build: by default what runs seldom is small, what a launch runs is fast, commands are compiled
# soon, the stack and the calls of libc are checked and relocations are read-only; who gives CFLAGS and LDFLAGS gets these
# instead, and the library still compiles without a warning.
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL CFLAGS CPPFLAGS LDFLAGS WERROR

# commands ARGUMENT...: how some objects and the shared library would be made.
commands() {
    make -n V=1 B="$work/b" "$@" "$work/b/cache/cache.o" "$work/b/tools/commands/gemm.o" "$work/b/libptxpack.so" \
        >"$work/all" 2>&1 || { cat "$work/all"; exit 1; }
    grep -e ' -c cache/cache.c ' "$work/all" >"$work/compile"
    grep -e ' -c host/gemm/gemm.c ' "$work/all" >"$work/fast"
    grep -e ' -c loader/expand/text.c ' "$work/all" >"$work/seldom"
    grep -e ' -c tools/commands/gemm.c ' "$work/all" >"$work/command"
    grep -e ' -shared ' "$work/all" >"$work/link"
    [ -s "$work/compile" ] && [ -s "$work/link" ] || { echo "make $*: no commands"; exit 1; }
}
# has FILE WORD..., lacks FILE WORD...
has() {
    file=$1 && shift
    for word; do grep -q -e " $word" "$work/$file" || { echo "$file: $word is missing"; cat "$work/$file"; exit 1; }; done
}
lacks() {
    file=$1 && shift
    for word; do ! grep -q -e "$word" "$work/$file" || { echo "$file: $word"; cat "$work/$file"; exit 1; }; done
}

commands
has compile -Os -fstack-protector-strong -D_FORTIFY_SOURCE=2
has fast -O2 -fstack-protector-strong -D_FORTIFY_SOURCE=2
has seldom -O1 -fstack-protector-strong -D_FORTIFY_SOURCE=2
has command -O0 -fstack-protector-strong
lacks command FORTIFY
has link -Wl,-z,relro,-z,now
for how in environment argument; do
    if [ $how = environment ]; then
        export CFLAGS='-O0 -g' LDFLAGS=-Wl,-O1
        commands
        unset CFLAGS LDFLAGS
    else
        commands CFLAGS='-O0 -g' LDFLAGS=-Wl,-O1
    fi
    has compile -O0 -std=c11 -Wall
    lacks compile Os stack-protector FORTIFY
    lacks fast O2
    lacks seldom O1
    has command -O0 -g
    has link -Wl,-O1
    lacks link relro
done

# As they are meant: _FORTIFY_SOURCE without optimisation would be a warning.
make -s B="$work/b" CFLAGS=-O0 WERROR=-Werror "$work/b/cache/cache.o" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
make -s B="$work/b" WERROR=-Werror "$work/b/cache/key.o" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -q __stack_chk_fail "$work/b/cache/key.o" || { echo "key.o does not check its stack"; exit 1; }
