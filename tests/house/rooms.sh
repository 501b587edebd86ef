#!/bin/sh
# rooms.sh - checks the order of the house, from the #include lines and the sizes of files, and prints one line for
# each thing that is out of order.
#
#   Arrows between rooms point down: tests, tools -> host -> loader -> cache; in host: parallel -> attention, gemm, vector
#   -> plan -> atom -> layout.  There are no circles of rooms.  A folder and the folders in it count as one room for this.
#   The emulator stands apart: it includes its own headers, and of the rest the driver's prototypes and number types.
#   Tools and tests include public headers, headers made for them (inspect.h, notation.h, scalars.h), and the tests of cache,
#   loader, host and emulator the private headers of the room they test.
#   No room has more than 25 files, no file more than 700 lines, no C function more than 80 lines.
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Lines that may stand, and why:
cat >"$work/exceptions" <<'END'
END

files() { find cache loader host tools tests -name '*.[ch]' ! -path 'tools/examples/*' ! -path 'tests/emu/programs/*'; }
public=$(make -s --no-print-directory -f - public <<'END'
include Makefile
public:
	@echo $(PUBLIC_HEADERS)
END
)

# ---- arrows -------------------------------------------------------------------------------------------
# "FILE HEADER" for every header of the house that a file includes.
files | xargs grep -H '^#include "' | sed 's/:#include "\([^"]*\)".*/ \1/' | while read -r file header; do
    case $header in
    */*) [ ! -f "$header" ] || echo "$file $header" ;;
    esac
done >"$work/includes"

awk -v public=" $public " '
    function room(path) { sub(/\/[^\/]*$/, "", path); return path }
    function level(path) {
        if (path ~ /^ptx\//) return 0
        if (path ~ /^cache\//) return 1
        if (path ~ /^loader\//) return 2
        if (path ~ /^host\/(dtype|scalars|panel)\.h$/) return 3
        if (path ~ /^host\/layout\//) return 4
        if (path ~ /^host\/atom\//) return 5
        if (path ~ /^host\/plan\//) return 6
        if (path ~ /^host\/parallel\//) return 8
        if (path ~ /^host\/.*\//) return 7
        if (path ~ /^host\//) return 9
        return path ~ /^tools\// ? 10 : 11
    }
    function within(inner, outer) { return index(inner "/", outer "/") == 1 }
    {
        from = room($1)
        to = room($2)
        emulator = $1 ~ /^tools\/emu\//
        if (emulator && $2 !~ /^tools\/emu\/|^loader\/driver.h$|^host\/dtype.h$/)
            print $1 ": the emulator includes " $2
        if (level($2) > level($1))
            print $1 ": an arrow up to " $2
        else if (level($1) == 7 && level($2) == 7 && !within(from, to) && !within(to, from))
            print $1 ": an arrow aside to " $2
        mirror = $1 ~ /^tests\/emu\// ? "tools/emu" : substr($1, 7)
        sub(/\/.*/, mirror ~ /^tools/ ? "/emu" : "", mirror)
        mirrored = $1 ~ /^tests\// && within(to, mirror) || $1 ~ /^tests\/(fake|support)\//
        if (level($1) >= 10 && !emulator && $2 ~ /^(cache|loader|host|tools\/emu)\// && !index(public, " " $2 " ") &&
            $2 !~ /\/(inspect|notation|scalars)\.h$/ && !mirrored)
            print $1 ": the private header " $2
        if (level($1) < 11 && !emulator && !within(from, to) && !within(to, from))
            print from, to >(work "/arrows")
    }' work="$work" "$work/includes" >"$work/found"
tsort <"$work/arrows" 2>&1 >/dev/null | sed -n 's/^tsort: \([a-z/]*\)$/\1: in a circle of rooms/p' | sort -u >>"$work/found"

# ---- sizes --------------------------------------------------------------------------------------------
find cache loader host ptx tools tests -type d | grep -vE '^tests/(data|golden|bad|emu/programs|loader/expand_cases)' |
    while read -r room; do
        count=$(find "$room" -maxdepth 1 -type f | wc -l)
        [ "$count" -le 25 ] || echo "$room: $count files"
    done >>"$work/found"
find cache loader host ptx tools tests Makefile -type f ! -path 'tests/data/*' ! -path 'tests/golden/*' -exec wc -l {} + |
    awk '$2 != "total" && $1 > 700 { print $2 ": " $1 " lines" }' >>"$work/found"
files | xargs awk '
    FNR == 1 { start = 0 }
    /^[a-z].*\)$/ || /^    .*\)$/ && !start { name = $0 }
    /^\{$/ { start = FNR }
    /^\}$/ && start {
        if (FNR - start - 1 > 80) {
            sub(/\(.*/, "", name)
            sub(/.*[ *]/, "", name)
            print FILENAME ": " name "() has " FNR - start - 1 " lines"
        }
        start = 0
    }' >>"$work/found"

grep -vxFf "$work/exceptions" "$work/found" && exit 1
echo "$(files | wc -l) files, $(wc -l <"$work/includes") arrows"
