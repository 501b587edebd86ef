/* jit_fixture.h - what the tests of compiling share: handles without a device on a fake nvPTXCompiler. */
#ifndef JIT_FIXTURE_H
#define JIT_FIXTURE_H
#include <stdatomic.h>
#include "loader_fixture.h"
#include "loader/internal.h"

static const char *compiler; /* this case's copy of the fake nvPTXCompiler */

static int reset_compiler(void **state)
{
    compiler = NULL;
    return reset(state);
}

static inline unsigned compilations(void)
{
    return atomic_load((atomic_uint *)library_symbol(compiler, "fake_compilations"));
}

static inline ptxpack *open_offline(const char *arch, bool no_cache)
{
    ptxpack_options options = {.size = sizeof options, .offline = true, .no_cache = no_cache};
    options.arch = arch;
    if (compiler == NULL)
        compiler = fresh_copy("fake_ptxjit.so");
    options.ptxjit = compiler;
    ptxpack *handle = open_with(&options);
    return handle;
}

/* Compiles `row`; returns whether it came from the cache. */
static inline bool compile(ptxpack *handle, const ptxpack_symbol *symbols, char *cubin, size_t cap)
{
    ptxpack_kernel_info info;
    void               *made = NULL;
    size_t              bytes = 0;
    if (ptxpack_kernel_compile(handle, &row, symbols, 1, &info, &made, &bytes) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    assert_int_equal(info.cubin_bytes, bytes);
    assert_ptr_equal(info.variant, &row);
    assert_int_equal(info.resources.registers, 33);
    assert_int_equal(info.resources.shared_bytes, 64);
    assert_int_equal(info.resources.stack_bytes, 24);
    assert_int_equal(info.resources.spill_store_bytes, 12);
    assert_int_equal(info.resources.spill_load_bytes, 16);
    assert_string_equal(info.resources.remarks, "(C7510) Potential Performance Loss: this is a fake");
    snprintf(cubin, cap, "%.*s", (int)bytes, (char *)made);
    free(made);
    return info.from_cache;
}

/* The key of `row` for sm_90, as the loader makes it. */
static inline ptxpack_cache_key *key_of_row(ptxpack *handle)
{
    ptxpack_cache_key *key = ptxpack_cache_key_create();
    ptxpack_expansion *expansion;
    struct ptxpack_jit jit;
    size_t             bytes;
    assert_int_equal(ptxpack_kernel_expand(handle, &row, which, 1, &expansion), PTXPACK_OK);
    assert_true(ptxpack_jit_open(&jit, NULL, compiler));
    const char *text = ptxpack_expansion_text(expansion, &bytes);
    ptxpack_cache_key_add_u64(key, "schema", 1);
    ptxpack_cache_key_add(key, "ptx", text, bytes);
    ptxpack_cache_key_add_text(key, "entry", "test");
    ptxpack_cache_key_add_text(key, "target", "sm_90");
    ptxpack_cache_key_add_text(key, "option", "--gpu-name=sm_90");
    ptxpack_cache_key_add_text(key, "option", "--verbose");
    assert_null(ptxpack_jit_identify(&jit, PTXPACK_ROUTE_PTXCOMPILER, key));
    ptxpack_expansion_free(expansion);
    return key;
}
#endif
