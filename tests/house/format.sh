#!/bin/sh
# format.sh - every C file must be as clang-format 14 or later leaves it; `make format` (--apply) formats them all.
# Left alone: the examples, which are formatted for their readers, PTX programs of the emulator's tests, inline headers.
cd "$(dirname "$0")/../.." || exit 1
formatter=${CLANG_FORMAT:-clang-format}
version=$("$formatter" --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p')
[ "${version:-0}" -ge 14 ] || { echo "SKIP: house/format: clang-format 14 or later is not installed"; exit 77; }
files() { find cache loader host tools tests -name '*.[ch]' ! -path 'tools/examples/*' ! -path 'tests/emu/programs/*'; }
case $1 in
--apply) files | xargs "$formatter" -i ;;
*)
    files | xargs "$formatter" --dry-run 2>&1 | sed -n 's/^\([^:]*\):[0-9:]* warning:.*/\1: not as make format leaves it/p' |
        sort | uniq -c | grep . && exit 1
    echo "$(files | wc -l) files"
    ;;
esac
