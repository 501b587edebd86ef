/* vector.c - plan and launch z = a x + b y + c. */
#include "vector.h"

#include <stdlib.h>
#include <string.h>

#include "host/plan/thread_symbols.h"
#include "args.h"
#include "plan.h"

enum { ELEMENT_BITS = 16 };

struct ptxpack_vector_plan {
    const ptxpack  *handle;
    ptxpack_kernel *kernel;
    ptxpack_dtype   dtype;
    uint64_t        per_block; /* elements */
};

/* ---- layout ------------------------------------------------------------------------------------- */
/* Neighbouring threads take neighbouring 16-byte pieces, a block one tile. */
ptxpack_tiled_copy ptxpack_vector_layout(const ptxpack_variant *row)
{
    ptxpack_copy_atom  atom;
    ptxpack_tiled_copy copy = {.status = ptxpack_copy_atom_find("UniversalCopy<uint128_t>", &atom)};
    ptxpack_tuple      threads = ptxpack_int(row->threads);
    ptxpack_tuple      values = ptxpack_int(ptxpack_variant_parameter(row, "ELEMENTS", 0));
    if (copy.status != PTXPACK_OK)
        return copy;
    ptxpack_layout by_thread = ptxpack_make_layout_left(&threads), by_value = ptxpack_make_layout_left(&values);
    return ptxpack_make_tiled_copy(&atom, ELEMENT_BITS, &by_thread, &by_value);
}

size_t ptxpack_vector_symbols(const ptxpack_tiled_copy *copy, ptxpack_dtype dtype,
                              ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS])
{
    static const function_names first = FUNCTION("FIRST");
    symbol_list                 list = {.out = symbols, .cap = PTXPACK_INSTANCE_SYMBOLS};
    symbol_add(&list, "ARG_BYTES", VECTOR_ARGUMENT_BYTES);
#define VECTOR_SYMBOL(type, name, symbol) symbol_add(&list, symbol, offsetof(vector_arguments, name));
    VECTOR_ARGUMENTS(VECTOR_SYMBOL)
#undef VECTOR_SYMBOL
    symbol_add(&list, "BF16", dtype == PTXPACK_BF16);
    if (copy->status != PTXPACK_OK)
        return 0;
    symbol_add(&list, "TILE", ptxpack_size(&copy->layout_tv));
    symbol_add_function(&list, &first, &copy->layout_tv, -1, 1);
    return list.failed ? 0 : list.count;
}

static bool row_suits(const ptxpack_variant *row, const void *context)
{
    ptxpack_dtype dtype = *(const ptxpack_dtype *)context;
    return dtype != PTXPACK_BF16 || !(row->flags & PTXPACK_VARIANT_NO_BF16);
}

/* Choose a row, or check the one given. */
static ptxpack_status settle_row(ptxpack *handle, ptxpack_dtype dtype, const ptxpack_variant **row)
{
    const ptxpack_device_caps *caps = &ptxpack_device(handle)->caps;
    char                       why[256] = "the row has no such element type";
    if (*row == NULL)
        *row = ptxpack_variant_choose("vector_add", caps, row_suits, &dtype, why, sizeof why);
    else if (strcmp((*row)->op, "vector_add") != 0 || !row_suits(*row, &dtype) ||
             ptxpack_variant_refusal(*row, caps, why, sizeof why) != NULL)
        *row = NULL;
    if (*row == NULL)
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "no vector_add kernel for dtype %s: %s",
                            ptxpack_dtype_name(dtype), why);
    return PTXPACK_OK;
}

ptxpack_status ptxpack_vector_resolve(ptxpack *handle, ptxpack_dtype dtype, const ptxpack_variant **row,
                                      ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS], size_t *count)
{
    if (dtype != PTXPACK_F16 && dtype != PTXPACK_BF16)
        return ptxpack_fail(handle, PTXPACK_E_ARG, "dtype %d is neither PTXPACK_F16 nor PTXPACK_BF16",
                            (int)dtype);
    if (handle == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "handle is NULL");
    ptxpack_status status = settle_row(handle, dtype, row);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_tiled_copy copy = ptxpack_vector_layout(*row);
    *count = ptxpack_vector_symbols(&copy, dtype, symbols);
    return *count > 0 ? PTXPACK_OK
                      : ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", (*row)->id,
                                     ptxpack_detail(NULL));
}

ptxpack_status ptxpack_vector_plan_row(ptxpack *handle, ptxpack_dtype dtype, const ptxpack_variant *row,
                                       ptxpack_vector_plan **plan)
{
    ptxpack_kernel *kernel;
    if (plan == NULL)
        return ptxpack_fail(handle, PTXPACK_E_ARG, "plan is NULL");
    *plan = NULL;
    ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS];
    size_t         count = 0;
    ptxpack_status status = ptxpack_vector_resolve(handle, dtype, &row, symbols, &count);
    if (status == PTXPACK_OK)
        status = ptxpack_kernel_load(handle, row, symbols, count, &kernel);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_tiled_copy   copy = ptxpack_vector_layout(row);
    ptxpack_vector_plan *made = (ptxpack_vector_plan *)malloc(sizeof *made);
    if (made == NULL)
        return ptxpack_fail(handle, PTXPACK_E_MEMORY, "no memory for a plan");
    *made = (ptxpack_vector_plan){handle, kernel, dtype, (uint64_t)ptxpack_size(&copy.layout_tv)};
    *plan = made;
    return PTXPACK_OK;
}

ptxpack_status ptxpack_vector_plan_create(ptxpack *handle, ptxpack_dtype dtype, ptxpack_vector_plan **plan)
{
    return ptxpack_vector_plan_row(handle, dtype, NULL, plan);
}

void ptxpack_vector_plan_free(ptxpack_vector_plan *plan) { free(plan); }

const ptxpack_kernel *ptxpack_vector_kernel(const ptxpack_vector_plan *plan)
{
    return plan != NULL ? plan->kernel : NULL;
}

/* ---- launch ------------------------------------------------------------------------------------- */
static uint32_t both_halves(ptxpack_dtype dtype, float value)
{
    uint32_t bits = ptxpack_from_float(dtype, value);
    return bits << 16 | bits;
}

static ptxpack_status check_vectors(const ptxpack *handle, uint64_t z, uint64_t x, uint64_t y, uint64_t bytes)
{
    const struct {
        const char *name;
        uint64_t    address;
    } vectors[] = {{"z", z}, {"x", x}, {"y", y}};
    for (int i = 0; i < 3; i++) {
        uint64_t address = vectors[i].address;
        if (address == 0)
            return ptxpack_fail(handle, PTXPACK_E_ARG, "%s is null", vectors[i].name);
        if (address % 16 != 0)
            return ptxpack_fail(handle, PTXPACK_E_ARG, "%s: address 0x%llx is not a multiple of 16 bytes",
                                vectors[i].name, (unsigned long long)address);
        if (address + bytes < address)
            return ptxpack_fail(handle, PTXPACK_E_ARG, "%s: address 0x%llx plus its %llu bytes wraps around",
                                vectors[i].name, (unsigned long long)address, (unsigned long long)bytes);
        if (i > 0 && address != z && z < address + bytes && address < z + bytes)
            return ptxpack_fail(handle, PTXPACK_E_ARG, "z overlaps %s in part: 0x%llx and 0x%llx",
                                vectors[i].name, (unsigned long long)z, (unsigned long long)address);
    }
    return PTXPACK_OK;
}

ptxpack_status ptxpack_vector_add(const ptxpack_vector_plan *plan, uint64_t z, uint64_t x, uint64_t y, float a,
                                  float b, float c, uint64_t n, struct CUstream_st *stream)
{
    if (plan == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "plan is NULL");
    if (n == 0)
        return PTXPACK_OK;
    uint64_t most = plan->per_block * INT32_MAX; /* the limit of grid.x */
    if (n > most)
        return ptxpack_fail(plan->handle, PTXPACK_E_UNSUPPORTED, "n %llu exceeds %llu", (unsigned long long)n,
                            (unsigned long long)most);
    ptxpack_status status = check_vectors(plan->handle, z, x, y, 2 * n);
    if (status != PTXPACK_OK)
        return status;
    const vector_arguments arguments = {
        z, x, y, n, both_halves(plan->dtype, a), both_halves(plan->dtype, b), both_halves(plan->dtype, c),
    };
    const uint32_t grid[3] = {(uint32_t)((n + plan->per_block - 1) / plan->per_block), 1, 1};
    return ptxpack_kernel_launch(plan->kernel, grid, &arguments, stream);
}
