#!/bin/sh
# headers.sh - every public header compiles alone and twice, as C11, C++11 and C++17, with no feature macro.  It
# includes no CUDA header, defines no macro outside PTXPACK_, and ptxpack.h compiles together with the real cuda.h.
cd "$(dirname "$0")/../.." || exit 1
headers=$(ls build/include/ptxpack/*.h)
cuda=${CUDA_HOME:-/usr/local/cuda}/include
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
count=0 failed=0 cc=${CC:-cc}
flags="-Wall -Wextra -Wpedantic -Werror -fsyntax-only -Ibuild/include/ptxpack"

fail() {
    echo "FAIL: $1"
    failed=$((failed + 1))
}

# compile LANGUAGE FILE [FLAG...]: compiles it as C11, or as C++11 and C++17 with each installed compiler
compile() {
    as=$1 file=$2
    shift 2
    if [ "$as" = c ]; then
        "$cc" -std=c11 -Wc++-compat $flags "$@" -x c "$file"
        return
    fi
    for cxx in $compilers; do
        for standard in c++11 c++17; do
            "$cxx" -std=$standard $flags "$@" -x c++ "$file" || return 1
        done
    done
}

compilers=
for cxx in g++ clang++; do
    command -v $cxx >/dev/null && compilers="$compilers $cxx"
done
languages=c
if [ -n "$compilers" ]; then
    languages="c c++"
else
    echo "SKIP: headers: neither g++ nor clang++ is installed: nothing was compiled as C++"
fi

# write NAME INCLUDE...: writes a source of these includes and almost nothing else
write() {
    file=$work/$1
    shift
    for include; do echo "#include $include"; done >"$file"
    echo "typedef int not_empty;" >>"$file"
}

for header in $headers; do
    count=$((count + 1))
    name=$(basename "$header")
    write alone.c "\"$name\"" "\"$name\""
    for language in $languages; do
        compile "$language" "$work/alone.c" || fail "$header alone as $language"
    done
    "$cc" -std=c11 -Ibuild/include/ptxpack -M "$work/alone.c" | tr ' ' '\n' | grep -iE '(^|/)(cu|nv)[a-z_]*\.h$' &&
        fail "$header includes a CUDA header"
    sed -n 's/^ *# *define  *\([A-Za-z0-9_]*\).*/\1/p' "$header" | grep -v '^PTXPACK_' &&
        fail "$header defines a macro without our prefix"
done
[ $count -ge 10 ] || fail "only $count headers were found"

if [ -r "$cuda/cuda.h" ]; then
    # "before" and "after" say where cuda.h is
    write before.c '<cuda.h>' '"ptxpack.h"'
    write after.c '"ptxpack.h"' '<cuda.h>'
    for place in before after; do # a CUDA stream must be accepted without a cast
        echo "ptxpack_status headers_launch(const ptxpack_attention_plan *plan, CUstream stream);
ptxpack_status headers_launch(const ptxpack_attention_plan *plan, CUstream stream)
{
    ptxpack_attention_buffers buffers = {sizeof buffers, 0, 0, 0, 0, 0, 0};
    return ptxpack_attention_launch(plan, &buffers, stream);
}" >>"$work/$place.c"
        for language in $languages; do
            compile "$language" "$work/$place.c" -Wno-missing-field-initializers -isystem "$cuda" ||
                fail "cuda.h $place ptxpack.h, as $language"
        done
    done
else
    echo "SKIP: headers: there is no $cuda/cuda.h to compile with"
fi
echo "$count headers, $failed failures"
[ $failed -eq 0 ]
