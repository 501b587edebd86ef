#!/bin/sh
# embed.sh FOLDER FILE... - print a C file whose object carries each FOLDER/FILE under the name FILE.
folder=$1
shift
cat <<'C'
/* made by tools/install/embed.sh */
#include "loader/pack.h"
#define FILE_TEXT(i, path)                                                             \
    __asm__(".section .rodata\n.hidden text_" #i ", end_" #i "\n.global text_" #i ", end_" #i \
            "\ntext_" #i ": .incbin \"" path "\"\nend_" #i ": .byte 0\n.previous");          \
    extern const char text_##i[], end_##i[];
C
i=0
for file; do
    echo "FILE_TEXT($i, \"$folder/$file\")"
    i=$((i + 1))
done
echo 'const struct ptxpack_pack_file ptxpack_pack_files[] = {'
i=0
for file; do
    echo "    {\"$file\", text_$i, end_$i},"
    i=$((i + 1))
done
echo '    {0, 0, 0}};'
