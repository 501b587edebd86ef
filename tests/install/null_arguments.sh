#!/bin/sh
# null_arguments.sh - every exported function with each of its pointers NULL in turn, all else as it should be: a call
# that returns a status refuses it with PTXPACK_E_ARG and a line that names the argument, any other returns nothing,
# and none crashes.  The calls are made from the public headers; a function that is exported and is in none of them,
# or takes a type that has no example here, is an error.
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
build=$PWD/build
export LC_ALL=C

# ---- the functions --------------------------------------------------------------------------------------------
# A line "RETURN|NAME|PARAMETER|PARAMETER..." for each.
mkdir "$work/headers"
for header in "$build"/include/ptxpack/*.h; do
    [ "${header##*/}" = emu_api.h ] ||
        sed 's/^#define PTXPACK_API.*/#define PTXPACK_API EXPORTED/' "$header" >"$work/headers/${header##*/}"
done
for header in "$work"/headers/*.h; do echo "#include \"$header\""; done | ${CC:-cc} -E -P -I"$work/headers" - |
    tr '\n' ' ' | sed 's/__attribute__((format([^)]*)))//g; s/EXPORTED/\n&/g' | sed -n 's/^EXPORTED \([^;]*\);.*/\1/p' |
    awk '{
        gsub(/[ \t]+/, " ")
        open = index($0, "(")
        head = substr($0, 1, open - 1)
        rest = substr($0, open + 1)
        sub(/ *\) *$/, "", rest)
        name = head
        sub(/.*[ *]/, "", name)
        type = substr(head, 1, length(head) - length(name))
        gsub(/ *$/, "", type)
        line = type "|" name
        depth = 0
        parameter = ""
        for (i = 1; i <= length(rest); i++) {
            c = substr(rest, i, 1)
            depth += (c == "(") - (c == ")")
            if (c == "," && depth == 0) {
                line = line "|" parameter
                parameter = ""
            } else if (c != " " || parameter != "") {
                parameter = parameter c
            }
        }
        print line "|" parameter
    }' >"$work/functions"
cut -d'|' -f2 "$work/functions" | sort >"$work/declared"
nm -D --defined-only "$build/libptxpack.so" | awk '$2 == "T" { print $3 }' | sort >"$work/exported"
diff "$work/declared" "$work/exported" >"$work/diff" ||
    { echo "declared (<) and exported (>) differ:"; cat "$work/diff"; exit 1; }

# ---- what may be NULL -----------------------------------------------------------------------------------------
# FUNCTION PARAMETER: as its header says; for * any function.
cat >"$work/optional" <<'END'
* user
* stream
* context
ptxpack_cache_open options
ptxpack_cache_close cache
ptxpack_cache_key_free key
ptxpack_cache_entry_free entry
ptxpack_cuda_of_isa branch
ptxpack_driver_open path
ptxpack_driver_open detail
ptxpack_variants count
ptxpack_variant_choose filter
ptxpack_variant_choose buf
ptxpack_open options
ptxpack_close handle
ptxpack_detail handle
ptxpack_fail handle
ptxpack_fail format
ptxpack_kernel_compile info
ptxpack_kernel_compile cubin
ptxpack_kernel_compile bytes
ptxpack_expansion_free e
ptxpack_expansion_text bytes
ptxpack_program_compile info
ptxpack_program_compile log_text
ptxpack_program_compile cubin
ptxpack_program_compile bytes
ptxpack_program_ptx bytes
ptxpack_program_free program
ptxpack_program_function name
ptxpack_function_launch arguments
ptxpack_preload options
ptxpack_preload_free preloading
ptxpack_tuple_print text
ptxpack_tuple_print t
ptxpack_layout_print text
ptxpack_layout_print l
ptxpack_tensor_text t
ptxpack_tensor_text engine
ptxpack_tensor_text text
ptxpack_print_tensor_text text
ptxpack_print_tensor_text length
ptxpack_compact_col_major start
ptxpack_compact_row_major start
ptxpack_coalesce profile
ptxpack_filter_zeros profile
ptxpack_filter profile
ptxpack_layout_append x
ptxpack_layout_prepend x
ptxpack_layout_append_to x
ptxpack_layout_prepend_to x
ptxpack_layout_replace x
ptxpack_complement cotarget
ptxpack_tile_to_shape order
ptxpack_local_tile projection
ptxpack_local_partition projection
ptxpack_make_tiled_mma atom_layout
ptxpack_make_tiled_mma permutation
ptxpack_make_tiled_copy values
ptxpack_attention_plan_free plan
ptxpack_attention_reference descales
ptxpack_attention_reference o
ptxpack_attention_reference lse
ptxpack_attention_reference_lengths descales
ptxpack_attention_reference_lengths lengths
ptxpack_attention_reference_lengths o
ptxpack_attention_reference_lengths lse
ptxpack_attention_alibi_slopes slopes
ptxpack_attention_append_plan_free plan
ptxpack_attention_append_reference k
ptxpack_attention_append_reference v
ptxpack_attention_append_reference q_out
ptxpack_attention_reference_append o
ptxpack_attention_reference_append lse
ptxpack_attention_blocks_plan_free plan
ptxpack_attention_blocks_reference hooks
ptxpack_attention_merge_plan_free plan
ptxpack_attention_merge_reference o
ptxpack_attention_merge_reference lse
ptxpack_parallel_free group
ptxpack_attention_parallel_chunk first
ptxpack_attention_parallel_chunk count
ptxpack_attention_parallel_plan_free plan
ptxpack_parallel_decode_plan_free plan
ptxpack_gemm_plan_free plan
ptxpack_sampling_plan_free plan
ptxpack_sampling_reference parameters
ptxpack_experts_route_plan_free plan
ptxpack_experts_combine_plan_free plan
ptxpack_experts_combine_reference residual
ptxpack_quantise_plan_free plan
ptxpack_dequantise_plan_free plan
ptxpack_gather_plan_free plan
ptxpack_norm_plan_free plan
ptxpack_norm_reference r
ptxpack_norm_reference sum
ptxpack_norm_reference y
ptxpack_vector_plan_free plan
ptxpack_cache_each check
ptxpack_cache_trim swept
ptxpack_cache_clear swept
ptxpack_cache_put metadata
ptxpack_cache_put label
ptxpack_cache_unlock cache
ptxpack_cache_key_poison reason
ptxpack_cache_key_poisoned key
ptxpack_cache_detail cache
ptxpack_variant_refusal buf
ptxpack_variant_refusal v
ptxpack_variant_refusal caps
ptxpack_driver_error driver
ptxpack_expansion_where buf
ptxpack_cache_prebuilt_verify line
END

# ---- the calls ------------------------------------------------------------------------------------------------
# An example of each type of a parameter; nearly all numbers are 1.
awk -F'|' -v optional="$work/optional" '
    BEGIN {
        while ((getline line < optional) > 0)
            may[line] = 1
        split("ptxpack_tuple ptxpack_layout ptxpack_tensor ptxpack_engine ptxpack_mma_atom ptxpack_copy_atom ptxpack_tiled_mma " \
              "ptxpack_tiled_copy ptxpack_variant ptxpack_symbol ptxpack_options ptxpack_source ptxpack_device_caps " \
              "ptxpack_cache_options ptxpack_expand_options ptxpack_preload_options ptxpack_bank_access " \
              "ptxpack_wgmma_fields ptxpack_tma_desc ptxpack_attention_desc ptxpack_attention_buffers " \
              "ptxpack_attention_append_desc ptxpack_attention_append_buffers ptxpack_attention_append_inputs " \
              "ptxpack_attention_blocks_buffers ptxpack_attention_hooks ptxpack_attention_merge_desc ptxpack_attention_merge_buffers ptxpack_attention_parallel_desc ptxpack_attention_parallel_buffers ptxpack_parallel_decode_buffers ptxpack_gemm_desc ptxpack_gemm_buffers ptxpack_norm_desc ptxpack_norm_buffers ptxpack_quantise_desc ptxpack_quantise_buffers ptxpack_gather_desc ptxpack_gather_buffers ptxpack_sampling_desc ptxpack_sampling_buffers ptxpack_sampling_row ptxpack_experts_route_desc ptxpack_experts_route_buffers ptxpack_experts_combine_desc ptxpack_experts_combine_buffers ptxpack_descales ptxpack_attention_lengths ptxpack_swizzle ptxpack_kernel_info " \
              "ptxpack_program_info ptxpack_cache_entry ptxpack_cache_info ptxpack_cache_stats ptxpack_cache_swept " \
              "ptxpack_prebuilt_info int64_t uint32_t uint64_t size_t", values, " ")
        for (i in values)
            example[values[i] " *"] = "&the." values[i]
        split("ptxpack ptxpack_kernel ptxpack_program ptxpack_function ptxpack_expansion ptxpack_preloading " \
              "ptxpack_cache ptxpack_cache_key ptxpack_attention_plan ptxpack_attention_append_plan ptxpack_attention_blocks_plan ptxpack_attention_merge_plan ptxpack_parallel_group ptxpack_attention_parallel_plan ptxpack_parallel_decode_plan ptxpack_gemm_plan ptxpack_norm_plan ptxpack_quantise_plan ptxpack_dequantise_plan ptxpack_gather_plan ptxpack_sampling_plan ptxpack_experts_route_plan ptxpack_experts_combine_plan ptxpack_vector_plan", \
              handles, " ")
        for (i in handles) {
            example[handles[i] " *"] = "the." handles[i]
            example[handles[i] " **"] = "&the.out_" handles[i]
        }
        example["struct ptxpack_driver *"] = "the.driver"
        example["struct ptxpack_driver **"] = "&the.out_driver"
        example["struct CUstream_st *"] = "NULL"
        example["ptxpack *const *"] = "&the.ptxpack"
        example["struct ncclComm *"] = "(struct ncclComm *)the.bytes"
        example["struct CUstream_st *const *"] = "the.streams"
        example["uint8_t *"] = "(uint8_t *)the.bytes"
        example["char *"] = "the.text"
        example["char **"] = "&the.out_text"
        example["void *"] = "the.bytes"
        example["void **"] = "&the.out_bytes"
        example["void *const *"] = "the.pointers"
        example["int *"] = "&the.an_int"
        example["int32_t *"] = "the.integers"
        example["_Bool *"] = "the.booleans"
        example["FILE *"] = "the.file"
        example["float *"] = "the.floats"
        example["double *"] = "the.doubles"
    }
    # The declaration without its name, const and the number of its elements.
    function type_of(declaration, name, t) {
        t = declaration
        if (t ~ /\]$/) {
            sub(/ *\[[^]]*\]$/, "", t)
            sub(name "$", "*", t)
        } else {
            sub(name "$", "", t)
        }
        sub(/^const /, "", t)
        gsub(/ *\*/, " *", t)
        gsub(/\* \*/, "**", t)
        sub(/ $/, "", t)
        if (t == "void *const *" || t == "void * const *")
            t = "void *const *"
        return t
    }
    function name_of(declaration, n) {
        n = declaration
        if (match(n, /\(\*[a-z_]+\)/))
            return substr(n, RSTART + 2, RLENGTH - 3)
        sub(/\[[^]]*\]$/, "", n)
        sub(/.*[ *]/, "", n)
        return n
    }
    function is_function(declaration) {
        return declaration ~ /\(\*|^ptxpack_map |^ptxpack_folder |^ptxpack_variant_filter /
    }
    function value_of(declaration, name, t) {
        if (is_function(declaration))
            return "the." (declaration ~ /\(\*/ ? "visit" : declaration ~ /^ptxpack_map / ? "map" : \
                           declaration ~ /^ptxpack_folder / ? "fold" : "filter")
        t = type_of(declaration, name)
        if (t in example)
            return example[t]
        if (t ~ /\*/) {
            print "no example of " t ", which " $2 " takes" >"/dev/stderr"
            failed = 1
        }
        if (t == "ptxpack_swizzle")
            return "the.ptxpack_swizzle"
        return name == "cap" ? "sizeof the.text" : name ~ /^(bits|value_bits|address)$/ ? "16" : name == "lock" ? "-1" : "1"
    }
    {
        count = NF - 2
        if (count == 1 && $3 == "void")
            next
        for (null = 1; null <= count; null++) {
            name = name_of($(2 + null))
            if ($(2 + null) !~ /[*\[]/ && !is_function($(2 + null)))
                continue
            arguments = ""
            for (i = 1; i <= count; i++) {
                declaration = $(2 + i)
                value = declaration == "..." ? "" : i == null ? "NULL" : value_of(declaration, name_of(declaration))
                if (value != "")
                    arguments = arguments (i > 1 ? ", " : "") value
            }
            kind = may[$2 " " name] || may["* " name] ? "MAY" : $1 == "void" ? "VOID" : \
                   $1 == "ptxpack_status" ? "STATUS" : $1 ~ /\*$/ ? "POINTER" : \
                   $1 ~ /^(_Bool|int|int32_t|int64_t|uint64_t|size_t|float|double|ptxpack_dtype|ptxpack_parallel_way|ptxpack_prebuilt_result)$/ ? "NUMBER" : $1
            if (kind == "MAY" && $1 != "void")
                kind = "ANY"
            if ($2 == "ptxpack_variant_parameter" || $2 == "ptxpack_cache_lock")
                kind = "ANY" # the number that stands for none
            printf "CALL(%s, \"%s\", \"%s\", %s(%s))\n", kind, $2, name, $2, arguments
        }
    }
    END { exit failed }' "$work/functions" >"$work/calls" || exit 1
[ "$(wc -l <"$work/calls")" -ge 300 ] || { echo "only $(wc -l <"$work/calls") calls"; exit 1; }

{
    echo '#include "tests/install/null_arguments.h"'
    echo 'static void all_calls(void)'
    echo '{'
    cat "$work/calls"
    echo '}'
} >"$work/calls.c"
# -w: the examples are not const where parameters are, and the other way round.
${CC:-cc} -std=c11 -D_GNU_SOURCE -w -I"$build/include" -I. "$work/calls.c" "$build/libptxpack.a" -ldl -lpthread -lm \
    -o "$work/program" || exit 1
PTXPACK_CACHE_DIR="$work/cache" PTXPACK_DRIVER="$build/libptxpack-emu.so" PTXPACK_PTXJIT="$build/libptxpack-emu.so" \
    "$work/program"
