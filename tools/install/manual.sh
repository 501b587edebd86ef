#!/bin/sh
# manual.sh NAME VERSION DESCRIPTION FILE [HEADING]... - a manual page of section 7 on stdout, made from a Markdown file of
# the house, or of its parts under these headings.  NAME "-": more of the page before.  Understood is what the files use: headings, paragraphs, lists, tables, blocks of code, `code`, **bold**, [text](link).
name=$1 version=$2 description=$3 file=$4
shift 4
headings=$(printf '%s\n' "$@")
headings=$headings awk -v name="$name" -v version="$version" -v description="$description" '
    # Backslashes and hyphens are literal, and a line may begin with a dot.
    function text(s) {
        gsub(/\\/, "\\e", s)
        gsub(/-/, "\\-", s)
        gsub(/→/, "\\(->", s)
        return s ~ /^[.\x27]/ ? "\\&" s : s
    }
    # Links keep their text; code may hold brackets.
    function line(s,   parts, n, i, out) {
        n = split(s, parts, "`")
        out = ""
        for (i = 1; i <= n; i++)
            if (i % 2 == 0)
                out = out "\\fB" text(parts[i]) "\\fR"
            else {
                gsub(/\]\([^)]*\)/, "", parts[i])
                gsub(/\[/, "", parts[i])
                gsub(/\*\*/, "", parts[i])
                out = out text(parts[i])
            }
        return out ~ /^[.\x27]/ ? "\\&" out : out
    }
    function close_code() { if (code) print ".fi\n.RE"; code = 0 }
    function open_code() { if (!code) print ".RS 4\n.nf"; code = 1 }
    BEGIN {
        n = split(ENVIRON["headings"], wanted_headings, "\n")
        for (i = 1; i <= n; i++)
            if (wanted_headings[i] != "") { chosen[wanted_headings[i]] = 1; some = 1 }
        if (name != "-")
            print ".TH " toupper(name) " 7 \"\" \"ptxpack " version "\"\n.SH NAME\n" text(name) " \\- " text(description)
        shown = !some
    }
    /^```/ { if (shown) { if (code) close_code(); else open_code() } fenced = !fenced; next }
    fenced { if (shown) print text($0) ; next }
    /^#+ / {
        close_code()
        heading = $0
        level = index(heading, " ") - 1
        sub(/^#+ /, "", heading)
        if (some && level <= 2) shown = heading in chosen
        if (shown) print (level <= 2 ? ".SH " : ".SS ") (level == 1 ? "DESCRIPTION" : line(level == 2 ? toupper(heading) : heading))
        next
    }
    !shown { next }
    /^    / { open_code(); print text(substr($0, 5)); next }
    /^$/ { if (code) { close_code() } print ".PP"; next }
    /^\|[-| ]*\|$/ { table = 1; next }
    /^\|/ {
        row = $0
        gsub(/^\| *| *\|$/, "", row)
        n = split(row, piece, "`") # a bar within code divides nothing
        row = piece[1]
        for (i = 2; i <= n; i++) {
            if (i % 2 == 0) gsub(/\|/, "\001", piece[i])
            row = row "`" piece[i]
        }
        n = split(row, cell, / *\| */)
        for (i = 1; i <= n; i++) gsub("\001", "|", cell[i])
        if (!table++) next
        print ".TP\n" line(cell[1])
        for (i = 2; i <= n; i++) if (cell[i] != "") print line(cell[i]) (i < n ? ":" : "")
        next
    }
    { table = 0; close_code() }
    /^- / { print ".IP \\(bu 2\n" line(substr($0, 3)); next }
    /^[0-9]+\. / { print ".IP " $1 " 4\n" line(substr($0, length($1) + 2)); next }
    { sub(/^ +/, ""); print line($0) }
    END { close_code() }' "$file"
