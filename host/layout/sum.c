/* sum.c - sums of integers and basis values. */
#include "sum.h"

void sum_add(tuple_sum *s, int64_t a, int64_t b, uint64_t kind)
{
    int64_t product;
    if (s->status != PTXPACK_OK)
        return;
    if (kind == PTXPACK_UNDERSCORE)
        s->status = tuple_error("%s: _ is not an integer", s->who).status;
    else if (!mul_into(a, b, &product) || (kind == 0 && !add_into(s->total, product, &s->total)))
        s->status = tuple_error("%s: adding %lld times %lld overflows 64 bits", s->who, (long long)a,
                                (long long)b)
                        .status;
    else if (kind != 0) {
        s->value[s->terms] = product;
        s->kind[s->terms++] = kind;
    }
}

/* 1 + the mode that a path names at its step-th place; 0 beyond its end. */
static int path_step(uint64_t path, int step) { return step < 8 ? (int)(path >> 8 * step & 255) : 0; }

/* The sum of the terms whose bit is set in `mask`: they agree in the first `step` places of their paths. */
static bool build_sum(tuple_builder *b, const tuple_sum *s, uint32_t mask, int step)
{
    int64_t total = 0;
    int     rank = 0;
    for (int i = 0; i < s->terms; i++) {
        int mode = mask >> i & 1 ? path_step(s->kind[i], step) : -1;
        rank = mode > rank ? mode : rank;
        if (mode == 0 && !add_into(total, s->value[i], &total)) {
            tuple_error("%s: adding %lld overflows 64 bits", s->who, (long long)s->value[i]);
            return false;
        }
    }
    if (rank == 0) {
        build_leaf(b, total, 0);
        return true;
    }
    if (total != 0) {
        tuple_error("%s: %lld and a tuple have no sum", s->who, (long long)total);
        return false;
    }
    build_open(b);
    for (int mode = 1; mode <= rank; mode++) {
        uint32_t there = 0;
        for (int i = 0; i < s->terms; i++)
            if (mask >> i & 1 && path_step(s->kind[i], step) == mode)
                there |= UINT32_C(1) << i;
        if (there == 0)
            build_leaf(b, 0, 0);
        else if (!build_sum(b, s, there, step + 1))
            return false;
    }
    build_close(b);
    return true;
}

ptxpack_tuple sum_end(const tuple_sum *s)
{
    if (s->status != PTXPACK_OK)
        return tuple_failed(s->status);
    if (s->terms == 0)
        return ptxpack_int(s->total);
    if (s->total != 0)
        return tuple_error("%s: %lld and a basis value have no sum", s->who, (long long)s->total);
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    if (s->terms == 1)
        build_leaf(&b, s->value[0], s->kind[0]);
    else if (!build_sum(&b, s, UINT32_MAX, 0))
        return tuple_failed(PTXPACK_E_ARG);
    return out;
}

/* Leaves as they are, basis values as the tuples that they stand for. */
static bool expand_in(tuple_builder *b, tuple_node n)
{
    if (node_is_leaf(n)) {
        uint64_t  kind = n.t->kind[n.begin];
        tuple_sum s = {.who = "as_arithmetic_tuple"};
        sum_add(&s, 1, n.t->value[n.begin], kind);
        if (s.status == PTXPACK_OK && kind != 0)
            return build_sum(b, &s, 1, 0);
        build_node(b, n);
        return s.status == PTXPACK_OK;
    }
    build_open(b);
    for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m))
        if (!expand_in(b, m))
            return false;
    build_close(b);
    return true;
}

ptxpack_tuple ptxpack_as_arithmetic_tuple(const ptxpack_tuple *t)
{
    GIVEN_TUPLE(t);
    if (t->status != PTXPACK_OK)
        return tuple_failed(t->status);
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    return expand_in(&b, tuple_root(t)) ? out : tuple_failed(PTXPACK_E_ARG);
}
