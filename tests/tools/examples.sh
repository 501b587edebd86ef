#!/bin/sh
# examples.sh - every example of the documents runs, and prints exactly what they show, except for blanks at the ends
# of lines.
#
# In an indented block a line "$ COMMAND" is run by the shell, with build/ in the PATH; the lines up to the
# next command or the end of the block are its output, errors included.  A line "ptxpack layout ... # RESULT" has
# its output behind it.  Other lines without a $ that call subcommands which need no device must succeed.
# In host/*.md a ```c fence is the inside of main, and the ```text fence after it is what it prints.
# A row "| 1.2 | prose | `COMMAND` | `LINE`<br>`LINE` |" of a table is an example as well, whose lines stand without the
# blanks before them; instead of a command it may have a reason.  "`NAME` in `FILE`": the file must have that name.
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
PATH=$PWD/build:$PATH PTXPACK_CACHE_DIR=$work/cache PTXPACK_DRIVER=/nonexistent
export PATH PTXPACK_CACHE_DIR PTXPACK_DRIVER
unset PTXPACK_PTX_DIR PTXPACK_ARCH
ran=0 failed=0

fail() {
    echo "FAIL: $1"
    failed=$((failed + 1))
}

# split DOCUMENT FOLDER: LINE.sh (a command), LINE.row (of a table), LINE.c (inside of main) or LINE.do (must succeed),
# and LINE.want
split() {
    fragments=0
    [ "$(dirname "$1")" = host ] && fragments=1
    mkdir -p "$2" && awk -v folder="$2" -v fragments=$fragments '
        function open_example(suffix) {
            kind = suffix
            name = sprintf("%s/%04d.", folder, NR)
            printf "" >(name suffix)
            printf "" >(name "want")
        }
        fence == "" && /^\| [0-9]+\.[0-9]+ \|/ {
            sub(/ \|$/, "")
            split($0, cell, / \| */)
            if (cell[4] ~ /^reason: ./) next
            open_example("row")
            gsub(/\\\|/, "|", cell[3])
            print substr(cell[3], 2, length(cell[3]) - 2) >(name "row")
            lines = split(cell[4], line, "<br>")
            for (i = 1; i <= lines; i++) {
                gsub(/\\\|/, "|", line[i])
                print substr(line[i], 2, length(line[i]) - 2) >(name "want")
            }
            kind = ""
            next
        }
        fence != "" && /^```/ { fence = ""; next }
        /^```/ {
            fence = substr($0, 4)
            if (fence == "c" && fragments) open_example("c")
            next
        }
        fence == "c" && fragments { print >(name "c"); next }
        fence == "text" && kind == "c" { print >(name "want"); next }
        fence != "" { next }
        /^    [$] / { open_example("sh"); print substr($0, 7) >(name "sh"); next }
        /^    ptxpack layout .* # / {
            open_example("sh")
            print substr($0, 5) >(name "sh")
            sub(/.* # */, "")
            print >(name "want")
            kind = ""
            next
        }
        /^    (build\/)?ptxpack (expand|layout|atom|plan) / {
            open_example("do")
            print substr($0, 5) >(name "do")
            next
        }
        /^    ./ && kind == "sh" { print substr($0, 5) >(name "want"); next }
        kind != "c" { kind = "" }' "$1"
}

# perform EXAMPLE: runs it, and writes its output and errors to EXAMPLE.got
perform() {
    case $1 in
    *.c)
        { printf '#include <stdio.h>\n#include <ptxpack.h>\nint main(void)\n{\n' && cat "$1" && echo '}'; } \
            >"$1.main.c"
        ${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -Ibuild/include/ptxpack "$1.main.c" \
            build/libptxpack.a -ldl -lpthread -lm -o "$1.program" >"$1.got" 2>&1 &&
            "$1.program" >"$1.got" 2>&1
        ;;
    *) sh "$1" >"$1.got" 2>&1 ;;
    esac
}

# judge DOCUMENT EXAMPLE
judge() {
    at="$1:$(basename "${2%.*}" | sed 's/^0*//')" want=${2%.*}.want
    perform "$2"
    status=$?
    sed -i 's/ *$//' "$2.got" "$want"
    case $2 in
    *.row) sed -i 's/^ *//' "$2.got" "$want" ;;
    esac
    ran=$((ran + 1))
    case $2 in
    *.do)
        [ $status -eq 0 ] || fail "$at: exit status $status: $(head -n 3 "$2.got")"
        return
        ;;
    esac
    [ $status -le 1 ] || fail "$at: exit status $status" # 1: a refusal, which the document shows
    [ -s "$want" ] || fail "$at: the document does not show its output"
    cmp -s "$want" "$2.got" || fail "$at: the output differs from the document (-):
$(diff -u "$want" "$2.got" | tail -n +4)"
}

# examine DOCUMENT LEAST: at least so many examples must be found in it
examine() {
    before=$ran folder=$work/${1%.md}
    split "$1" "$folder" || fail "$1 cannot be read"
    for example in "$folder"/*.sh "$folder"/*.row "$folder"/*.c "$folder"/*.do; do
        [ -f "$example" ] && judge "$1" "$example"
    done
    [ $((ran - before)) -ge "$2" ] || fail "$1: only $((ran - before)) examples were found"
}

# names DOCUMENT LEAST: "`NAME` in `FILE`" holds, at least so often
names() {
    grep -o '`[^`]*` in `[^`]*`' "$1" | tr -d '`' >"$work/names"
    while read -r name in file; do
        grep -qF -e "$name" "$file" || fail "$1: there is no $name $in $file"
    done <"$work/names"
    [ "$(wc -l <"$work/names")" -ge "$2" ] || fail "$1: it names only $(wc -l <"$work/names") things"
}

# count DOCUMENT: its items, rows and commands with "# 1.2", are numbered in order, and it says how many there are
count() {
    sed -n -e 's/^| \([0-9]*[.][0-9]*\) | .*/\1/p' -e 's/^    [$] .* # \([0-9]*[.][0-9]*\)$/\1/p' "$1" >"$work/items"
    items=$(wc -l <"$work/items") reasons=$(grep -c '^| [0-9].* | reason: ' "$1")
    grep -q "There are $items items: $((items - reasons)) are" "$1" || fail "$1: it has $items items, $reasons with a reason"
    awk -F . '$0 != s "." n + 1 && $0 != s + 1 ".1" { print } { s = $1; n = $2 }' "$work/items" >"$work/unordered"
    [ ! -s "$work/unordered" ] || fail "$1: numbers that do not follow: $(tr '\n' ' ' <"$work/unordered")"
}

examine host/README.md 40
examine host/ARTICLES.md 180
names host/ARTICLES.md 50
count host/ARTICLES.md
examine README.md 3
examine ptx/README.md 2
echo "$ran examples, $failed failures"
[ $failed -eq 0 ]
