/* layout.c - measures the CPU time of each operation on layouts of four modes, and of all layouts and symbols
 * of an attention kernel.  It needs no device. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/attention/inspect.h"
#include "bench.h"
#include "tools/command.h"
#include "tools/device.h"
#include "host/layout/layout.h"
#include "loader/loader.h"

enum { CALLS = 2000, KERNEL_CALLS = 100 }; /* in a round */

typedef struct operands {
    ptxpack_layout any, compact, small, swizzled;
    ptxpack_layout tiler, layout_tiler;
    ptxpack_tuple  shape, order, coord, slice;
} operands;

#define ANY "(4,8,2,16):(1,64,4,512)"

static operands read_operands(void)
{
    return (operands){
        .any = ptxpack_layout_parse(ANY),
        .compact = ptxpack_layout_parse("(16,16,16,16):(1,16,256,4096)"),
        .small = ptxpack_layout_parse("(2,4,2,4):(1,2,8,16)"),
        .swizzled = ptxpack_layout_parse("Sw<3,4,3> o 0 o (16,16,16,16):(1,16,256,4096)"),
        .tiler = ptxpack_layout_parse("<2,4,2,4>"),
        .layout_tiler = ptxpack_layout_parse("<2:1,(2,2):(1,4),2:1,4:4>"),
        .shape = ptxpack_tuple_parse("(16,16,16,16)"),
        .order = ptxpack_tuple_parse("(2,1,4,3)"),
        .coord = ptxpack_tuple_parse("(1,2,1,3)"),
        .slice = ptxpack_tuple_parse("(_,1,_,2)"),
    };
}

/* X(name, type of the result, its status, call) */
#define OPERATION_MAP(X)                                                                                \
    X(composition, layout, shape.status, ptxpack_composition(&o->compact, &o->small))                   \
    X(composition_by_tiler, layout, shape.status, ptxpack_composition(&o->compact, &o->layout_tiler))   \
    X(with_shape, layout, shape.status, ptxpack_with_shape(&o->compact, &o->shape))                     \
    X(coalesce, layout, shape.status, ptxpack_coalesce(&o->any, NULL))                                  \
    X(filter, layout, shape.status, ptxpack_filter(&o->any, NULL))                                      \
    X(complement, layout, shape.status, ptxpack_complement(&o->any, NULL))                              \
    X(right_inverse, layout, shape.status, ptxpack_right_inverse(&o->any))                              \
    X(left_inverse, layout, shape.status, ptxpack_left_inverse(&o->any))                                \
    X(nullspace, layout, shape.status, ptxpack_nullspace(&o->any))                                      \
    X(max_common_layout, layout, shape.status, ptxpack_max_common_layout(&o->compact, &o->compact))     \
    X(logical_divide, layout, shape.status, ptxpack_logical_divide(&o->compact, &o->layout_tiler))      \
    X(logical_divide_by_layout, layout, shape.status, ptxpack_logical_divide(&o->compact, &o->small))   \
    X(zipped_divide, layout, shape.status, ptxpack_zipped_divide(&o->compact, &o->layout_tiler))        \
    X(tiled_divide, layout, shape.status, ptxpack_tiled_divide(&o->compact, &o->layout_tiler))          \
    X(flat_divide, layout, shape.status, ptxpack_flat_divide(&o->compact, &o->layout_tiler))            \
    X(logical_product, layout, shape.status, ptxpack_logical_product(&o->any, &o->tiler))               \
    X(logical_product_by_layout, layout, shape.status, ptxpack_logical_product(&o->small, &o->small))   \
    X(zipped_product, layout, shape.status, ptxpack_zipped_product(&o->any, &o->tiler))                 \
    X(tiled_product, layout, shape.status, ptxpack_tiled_product(&o->any, &o->tiler))                   \
    X(flat_product, layout, shape.status, ptxpack_flat_product(&o->any, &o->tiler))                     \
    X(blocked_product, layout, shape.status, ptxpack_blocked_product(&o->small, &o->small))             \
    X(raked_product, layout, shape.status, ptxpack_raked_product(&o->small, &o->small))                 \
    X(tile_to_shape, layout, shape.status, ptxpack_tile_to_shape(&o->small, &o->shape, &o->order))      \
    X(slice, layout, shape.status, ptxpack_layout_slice(&o->slice, &o->any))                            \
    X(slice_and_offset, slice, layout.shape.status, ptxpack_slice_and_offset(&o->slice, &o->any))       \
    X(slice_of_swizzled, slice, layout.shape.status, ptxpack_slice_and_offset(&o->slice, &o->swizzled)) \
    X(dice, layout, shape.status, ptxpack_layout_dice(&o->slice, &o->any))                              \
    X(domain_offset, slice, layout.shape.status, ptxpack_domain_offset(&o->coord, &o->any))             \
    X(upcast, layout, shape.status, ptxpack_upcast(&o->any, 4))                                         \
    X(downcast, layout, shape.status, ptxpack_downcast(&o->any, 4))                                     \
    X(recast_swizzled, layout, shape.status, ptxpack_recast_layout(&o->swizzled, 16, 32))               \
    X(make_layout_left, layout, shape.status, ptxpack_make_layout_left(&o->shape))                      \
    X(make_ordered_layout, layout, shape.status, ptxpack_make_ordered_layout(&o->shape, &o->order))     \
    X(make_identity_layout, layout, shape.status, ptxpack_make_identity_layout(&o->shape))              \
    X(make_layout_like, layout, shape.status, ptxpack_make_layout_like(&o->any))                        \
    X(make_fragment_like, layout, shape.status, ptxpack_make_fragment_like(&o->any))                    \
    X(flatten, layout, shape.status, ptxpack_layout_flatten(&o->any))                                   \
    X(group, layout, shape.status, ptxpack_layout_group(&o->any, 0, 2))                                 \
    X(select, layout, shape.status, ptxpack_layout_select(&o->any, 4, (const int[]){3, 1, 0, 2}))       \
    X(append_to, layout, shape.status, ptxpack_layout_append_to(&o->any, 6, NULL))                      \
    X(zip, layout, shape.status, ptxpack_layout_zip(&o->any, &o->small))                                \
    X(crd2idx, tuple, status, ptxpack_layout_crd2idx(&o->any, &o->coord))                               \
    X(get_flat_coord, tuple, status, ptxpack_get_flat_coord(&o->compact, 777))                          \
    X(parse, layout, shape.status, ptxpack_layout_parse(ANY))

#define OPERATION_RUN(name, type, member, call)         \
    static ptxpack_status run_##name(const operands *o) \
    {                                                   \
        (void)o;                                        \
        ptxpack_##type result = call;                   \
        return result.member;                           \
    }
OPERATION_MAP(OPERATION_RUN)

static const struct {
    const char *name;
    ptxpack_status (*run)(const operands *o);
} operations[] = {
#define OPERATION_ROW(name, type, member, call) {#name, run_##name},
    OPERATION_MAP(OPERATION_ROW)
#undef OPERATION_ROW
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

/* Returns the CPU time of this thread. */
static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static bool time_operation(const operands *o, int i, double *rounds, size_t count, double *ns)
{
    for (size_t r = 0; r < count; r++) {
        double started = now_ns();
        for (int k = 0; k < CALLS; k++)
            if (operations[i].run(o) != PTXPACK_OK)
                return false;
        rounds[r] = (now_ns() - started) / CALLS;
    }
    *ns = median(rounds, count);
    return true;
}

/* Uses a copy of the row, which is not in the table: everything is derived anew each time. */
static bool time_kernel(const ptxpack_variant *row, ptxpack_dtype dtype, double *rounds, size_t count,
                        double *ns)
{
    const ptxpack_variant fresh = *row;
    size_t                index = dtype == PTXPACK_BF16 ? ptxpack_instance_count(row) - 1 : 0;
    for (size_t r = 0; r < count; r++) {
        double started = now_ns();
        for (int k = 0; k < KERNEL_CALLS; k++)
            if (ptxpack_instance_get(&fresh, index).symbol_count == 0)
                return false;
        rounds[r] = (now_ns() - started) / KERNEL_CALLS;
    }
    *ns = median(rounds, count);
    return true;
}

static void print_line(const bench_settings *s, const char *name, double ns)
{
    if (s->json)
        json_real(name, ns);
    else
        printf("  %-37s %9.0f\n", name, ns);
}

static bool print_operations(const bench_settings *s, double *rounds)
{
    const operands o = read_operands();
    for (int i = 0; i < OPERATIONS; i++) {
        double ns;
        if (!time_operation(&o, i, rounds, (size_t)s->rounds, &ns))
            return false;
        print_line(s, operations[i].name, ns);
    }
    return true;
}

static bool print_kernels(const bench_settings *s, double *rounds)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++) {
        double ns;
        if (strcmp(rows[i].op, "attention") != 0)
            continue;
        if (!time_kernel(&rows[i], s->dtype, rounds, (size_t)s->rounds, &ns))
            return false;
        print_line(s, rows[i].id, ns);
    }
    return true;
}

int bench_layout(const bench_settings *s)
{
    double *rounds = (double *)calloc((size_t)s->rounds, sizeof *rounds);
    if (rounds == NULL)
        return command_fail("bench", "no memory");
    if (s->json) {
        json_open(NULL, '{');
        json_int("rounds", s->rounds);
        json_open("operation_ns", '{');
    } else {
        printf("CPU time of a call in ns, median of %lld rounds; layouts of 4 modes\n", (long long)s->rounds);
    }
    bool ok = print_operations(s, rounds);
    if (s->json) {
        json_close();
        json_open("kernel_ns", '{');
    } else if (ok) {
        printf("all layouts and symbols of an attention kernel\n");
    }
    ok = ok && print_kernels(s, rounds);
    if (s->json) {
        json_close();
        json_close();
    }
    free(rounds);
    return ok ? COMMAND_OK : command_fail("bench", "%s", ptxpack_detail(NULL));
}
