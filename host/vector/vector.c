/* vector.c - plan and launch z = a x + b y + c. */
#include "vector.h"

#include <stdio.h>
#include <stdlib.h>

#include "args.h"
#include "host/atom/tiled.h"
#include "op.h"

enum { ELEMENT_BITS = 16 };

struct ptxpack_vector_plan {
    plan_head        head;
    ptxpack_dtype    dtype;     /* all that a problem has, so the geometry, too */
    uint64_t         per_block; /* elements */
    vector_arguments arguments; /* none of them is known before a launch */
};

/* What a launch brings. */
typedef struct vector_buffers {
    uint64_t z, x, y, n;
    float    a, b, c;
} vector_buffers;

/* ---- the row ------------------------------------------------------------------------------------ */
/* Neighbouring threads take neighbouring 16-byte pieces; a block takes one tile.  The layout_tv of the copy is
 * (thread, value) -> element of the tile. */
static ptxpack_status derive(const ptxpack_variant *row, void *out)
{
    ptxpack_tiled_copy *copy = (ptxpack_tiled_copy *)out;
    ptxpack_copy_atom   atom;
    ptxpack_tuple       threads = ptxpack_int(row->threads);
    ptxpack_tuple       values = ptxpack_int(ptxpack_variant_parameter(row, "ELEMENTS", 0));
    ptxpack_status      status = ptxpack_copy_atom_find("UniversalCopy<uint128_t>", &atom);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_layout by_thread = ptxpack_make_layout_left(&threads), by_value = ptxpack_make_layout_left(&values);
    *copy = ptxpack_make_tiled_copy(&atom, ELEMENT_BITS, &by_thread, &by_value);
    return copy->status;
}

static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    static const function_names first = FUNCTION("FIRST");
    const ptxpack_tiled_copy   *copy = (const ptxpack_tiled_copy *)layout;
    symbol_add(list, "BF16", *(const ptxpack_dtype *)problem->desc == PTXPACK_BF16);
    symbol_add(list, "TILE", ptxpack_size(&copy->layout_tv));
    symbol_add_function(list, &first, &copy->layout_tv, SYMBOL_OFFSET, 1);
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *plan)
{
    (void)problem, (void)row;
    ((ptxpack_vector_plan *)plan)->per_block = (uint64_t)ptxpack_size(
        &((const ptxpack_tiled_copy *)layout)->layout_tv);
    return PTXPACK_OK;
}

static uint32_t both_halves(ptxpack_dtype dtype, float value)
{
    uint32_t bits = ptxpack_from_float(dtype, value);
    return bits << 16 | bits;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_vector_plan *plan = (const ptxpack_vector_plan *)head;
    const vector_buffers      *b = (const vector_buffers *)buffers;
    *(vector_arguments *)arguments = (vector_arguments){
        .z = b->z,
        .x = b->x,
        .y = b->y,
        .n = b->n,
        .a2 = both_halves(plan->dtype, b->a),
        .b2 = both_halves(plan->dtype, b->b),
        .c2 = both_halves(plan->dtype, b->c),
    };
    grid[0] = (uint32_t)((b->n + plan->per_block - 1) / plan->per_block);
    return PTXPACK_OK;
}

static const argument_field fields[] = ARGUMENT_FIELDS(VECTOR_ARGUMENTS, vector_arguments);
static const uint16_t       corners[] = {0};
static const plan_method    vector_add = {
       .file = "vector/add.ptx",
       .ordered = true,
       PLAN_ARGUMENTS(fields, vector_arguments),
       .layout_bytes = sizeof(ptxpack_tiled_copy),
       .derive = derive,
       .symbols = symbols,
       .fill = fill,
       .address = address,
       PLAN_CORNERS(corners),
};

/* ---- the operation ------------------------------------------------------------------------------ */
static ptxpack_status resolve(const void *desc, void *geometry, char line[PLAN_LINE])
{
    ptxpack_dtype dtype = *(const ptxpack_dtype *)desc;
    *(ptxpack_dtype *)geometry = dtype;
    return dtype == PTXPACK_F16 || dtype == PTXPACK_BF16
               ? PTXPACK_OK
               : plan_refuse(line, PTXPACK_E_ARG, "dtype %d is neither PTXPACK_F16 nor PTXPACK_BF16",
                             (int)dtype);
}

static bool covers(const ptxpack_variant *row, const void *desc)
{
    return plan_row_takes(row, *(const ptxpack_dtype *)desc);
}

static void describe(const void *desc, char *text, size_t size)
{
    snprintf(text, size, "dtype %s", ptxpack_dtype_name(*(const ptxpack_dtype *)desc));
}

static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *desc,
                  char *name, size_t size)
{
    (void)row, (void)index, (void)corner, (void)name, (void)size;
    *(ptxpack_dtype *)desc = dtype;
}

static ptxpack_status check(const plan_head *head, const void *buffers, char line[PLAN_LINE])
{
    const vector_buffers *b = (const vector_buffers *)buffers;
    const uint64_t        bytes = 2 * b->n, z = b->z;
    const uint64_t        most = ((const ptxpack_vector_plan *)head)->per_block * INT32_MAX; /* of grid.x */
    const struct {
        const char *name;
        uint64_t    address;
    } vectors[] = {{"z", z}, {"x", b->x}, {"y", b->y}};
    if (b->n > most)
        return plan_refuse(line, PTXPACK_E_UNSUPPORTED, "n %llu exceeds %llu", (unsigned long long)b->n,
                           (unsigned long long)most);
    for (int i = 0; i < 3; i++) {
        uint64_t    address = vectors[i].address;
        const char *name = vectors[i].name;
        if (address == 0)
            return plan_refuse(line, PTXPACK_E_ARG, "%s is null", name);
        if (address % 16 != 0)
            return plan_refuse(line, PTXPACK_E_ARG, "%s: address 0x%llx is not a multiple of 16 bytes", name,
                               (unsigned long long)address);
        if (address + bytes < address)
            return plan_refuse(line, PTXPACK_E_ARG, "%s: address 0x%llx plus its %llu bytes wraps around", name,
                               (unsigned long long)address, (unsigned long long)bytes);
        if (i > 0 && address != z && z < address + bytes && address < z + bytes)
            return plan_refuse(line, PTXPACK_E_ARG, "z overlaps %s in part: 0x%llx and 0x%llx", name,
                               (unsigned long long)z, (unsigned long long)address);
    }
    return PTXPACK_OK;
}

static const plan_method *const methods[] = {&vector_add};
const plan_op                   vector_op = {
                      .name = "vector_add",
                      .methods = methods,
                      .method_count = sizeof methods / sizeof methods[0],
                      .margin = 1,
                      .desc_bytes = sizeof(ptxpack_dtype),
                      .plan_bytes = sizeof(ptxpack_vector_plan),
                      .geometry_at = offsetof(ptxpack_vector_plan, dtype),
                      .arguments_at = offsetof(ptxpack_vector_plan, arguments),
                      .resolve = resolve,
                      .covers = covers,
                      .describe = describe,
                      .check = check,
                      .builds = 1,
                      .build = build,
};

/* ---- the public calls --------------------------------------------------------------------------- */
ptxpack_status ptxpack_vector_plan_row(ptxpack *handle, ptxpack_dtype dtype, const ptxpack_variant *row,
                                       ptxpack_vector_plan **plan)
{
    plan_head *made;
    if (plan == NULL)
        return ptxpack_fail(handle, PTXPACK_E_ARG, "plan is NULL");
    ptxpack_status status = plan_create(&vector_op, handle, &dtype, row, &made);
    *plan = (ptxpack_vector_plan *)made;
    return status;
}

ptxpack_status ptxpack_vector_plan_create(ptxpack *handle, ptxpack_dtype dtype, ptxpack_vector_plan **plan)
{
    return ptxpack_vector_plan_row(handle, dtype, NULL, plan);
}

void ptxpack_vector_plan_free(ptxpack_vector_plan *plan) { free(plan); }

const ptxpack_kernel *ptxpack_vector_kernel(const ptxpack_vector_plan *plan)
{
    return plan != NULL ? plan->head.kernel : NULL;
}

ptxpack_status ptxpack_vector_add(const ptxpack_vector_plan *plan, uint64_t z, uint64_t x, uint64_t y, float a,
                                  float b, float c, uint64_t n, struct CUstream_st *stream)
{
    const vector_buffers buffers = {.z = z, .x = x, .y = y, .n = n, .a = a, .b = b, .c = c};
    return plan != NULL && n == 0 ? PTXPACK_OK : plan_launch((const plan_head *)plan, &buffers, stream);
}
