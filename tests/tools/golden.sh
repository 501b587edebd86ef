#!/bin/sh
# golden.sh - runs the commands in the transcripts of tests/golden and compares what they print with the transcripts.
# Usage: golden.sh [--update] [TRANSCRIPT...]; --update writes what the commands print now into the transcripts.
#
# Lines of a transcript that are not indented are prose.  "  $ COMMAND" is run by sh, together with the lines
# "  > ..." that follow it.  The other indented lines are its output: stdout, then stderr with the exit status in
# brackets before every line; a status that is not 0 stands alone when stderr is empty.  If the output is one line
# and there is room, it follows the command after "  # ".  A line with only a dot stands for an empty line, and
# blanks at the ends of lines are not compared.
#
# The commands of a transcript share a fresh folder with copies of tests/golden/files.  Their environment is
# empty except for $BUILD, the folder of the programs, and what turns off the CUDA driver and every compiler.
cd "$(dirname "$0")/../.." || exit 1
update=
[ "$1" = --update ] && update=yes && shift
[ $# -gt 0 ] || set -- tests/golden/*.txt
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
build=$PWD/build failed=0 ran=0

# Run $command, and print its lines of the transcript.  Times, folders and what depends on the build differ between runs.
perform() {
    (cd "$folder" && exec env -i PATH="$build:$PATH" LC_ALL=C BUILD="$build" \
        PTXPACK_CACHE_DIR="$folder/cache" PTXPACK_DRIVER=/no/such/driver.so PTXPACK_PTXJIT=none PTXPACK_PTXAS=none \
        PTXPACK_NVRTC=none sh -c "$command" >"$work/out" 2>"$work/err" </dev/null)
    status=$? ran=$((ran + 1))
    command=$command folder=$folder build=$build awk -v status=$status '
        BEGIN {
            command = ENVIRON["command"]
            many = gsub(/\n/, "\n  > ", command)
        }
        {
            gsub(ENVIRON["folder"], "FOLDER")
            gsub(ENVIRON["build"], "BUILD")
            gsub(/[0-9][0-9.]* ms/, "T ms")
            gsub(/\(pack [0-9a-f]+/, "(pack ID")
            gsub(/#[0-9a-f]+$/, "#ID")
            gsub(/build-id [0-9a-f]+/, "build-id ID")
            gsub(/0x7[0-9a-f]+/, "0xID")
            gsub(/[0-9a-f]+\.entry/, "ID.entry")
            sub(/ +$/, "")
            errors += FILENAME ~ /err$/
            line[++lines] = (FILENAME ~ /err$/ ? "[" status "] " : "") ($0 == "" ? "." : $0)
        }
        END {
            if (status != 0 && !errors)
                line[++lines] = "[" status "]"
            if (lines == 1 && !many && length(command line[1]) <= 150) {
                print "  $ " command "  # " line[1]
                exit
            }
            print "  $ " command
            for (i = 1; i <= lines; i++)
                print "  " line[i]
        }' "$work/out" "$work/err"
}

# Read a transcript; print it with what its commands print now.
renew() {
    command=
    while IFS= read -r line; do
        case $line in
        '  > '*)
            command="$command
${line#  > }"
            continue
            ;;
        '  $ '* | [!\ ]* | '') [ -z "$command" ] || perform ;;
        *) continue ;; # what was printed before
        esac
        command=
        case $line in
        '  $ '*)
            command=${line#  \$ }
            command=${command%%  \# *}
            ;;
        *) printf '%s\n' "$line" ;;
        esac
    done
    [ -z "$command" ] || perform
}

for transcript; do
    folder=$work/$(basename "$transcript" .txt)
    mkdir "$folder" && cp tests/golden/files/* "$folder" || exit 1
    renew <"$transcript" >"$work/renewed"
    if [ -n "$update" ]; then
        cp "$work/renewed" "$transcript"
    else
        diff -u "$transcript" "$work/renewed" || failed=$((failed + 1))
    fi
done
echo "$ran commands, $failed transcripts differ"
[ $failed -eq 0 ] && [ $ran -gt 0 ]
