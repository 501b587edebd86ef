#!/bin/sh
# embed.sh FOLDER FILE... - print a C file whose object carries each FOLDER/FILE under the name FILE, as the gzip file
# FOLDER/FILE.gz beside it.
folder=$1
shift
cat <<'C'
/* made by tools/install/embed.sh */
#include "loader/pack/pack.h"
#define FILE_TEXT(i, path, bytes)                                                          \
    __asm__(".section .rodata\n.hidden packed_" #i ", end_" #i "\n.global packed_" #i ", end_" #i \
            "\npacked_" #i ": .incbin \"" path ".gz\"\nend_" #i ":\n.previous");            \
    extern const unsigned char packed_##i[], end_##i[];                                    \
    static char text_##i[bytes + 1];
C
i=0
for file; do
    echo "FILE_TEXT($i, \"$folder/$file\", $(($(wc -c <"$folder/$file"))))"
    i=$((i + 1))
done
echo 'struct ptxpack_pack_file ptxpack_pack_files[] = {'
i=0
for file; do
    echo "    {\"$file\", packed_$i, end_$i, text_$i, sizeof text_$i - 1, 0},"
    i=$((i + 1))
done
echo '    {0, 0, 0, 0, 0, 0}};'
