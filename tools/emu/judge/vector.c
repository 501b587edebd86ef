/* vector.c - vectors of clocks, shared until they are written to; packets of rows of any cluster. */
#include <stdlib.h>
#include "internal.h"

enum { FROM_GREATER = 1, TO_GREATER = 2, EITHER_GREATER = 3 };

static void row_drop(struct judge_row *row)
{
    if (row != NULL && --row->ref == 0)
        free(row);
}

struct judge_packet *judge_packet_keep(struct judge_packet *packet)
{
    if (packet != NULL)
        __atomic_fetch_add(&packet->ref, 1, __ATOMIC_RELAXED);
    return packet;
}

void judge_packet_drop(struct judge_packet *packet)
{
    if (packet != NULL && __atomic_sub_fetch(&packet->ref, 1, __ATOMIC_ACQ_REL) == 0)
        free(packet);
}

struct judge_vector *judge_vector_keep(struct judge_vector *v, uint32_t times)
{
    if (v != NULL)
        v->ref += times;
    return v;
}

void judge_vector_drop(struct judge_vector *v, uint32_t times)
{
    if (v == NULL || (v->ref -= times))
        return;
    for (uint32_t i = 0; i < v->count; i++)
        row_drop(v->row[i]);
    judge_packet_drop(v->foreign);
    free(v);
}

/* Make *to an unshared vector of at least `count` rows. */
static struct judge_vector *vector_unique(struct judge_grid *grid, struct judge_vector **to, uint32_t count)
{
    struct judge_vector *v = *to, *mine;
    if (v != NULL && v->ref == 1 && v->count >= count)
        return v;
    if (v != NULL && v->count > count)
        count = v->count;
    mine = (struct judge_vector *)judge_alloc(grid, 1, sizeof *mine + count * sizeof mine->row[0]);
    if (mine == NULL)
        return NULL;
    mine->ref = 1;
    mine->count = count;
    for (uint32_t i = 0; v != NULL && i < v->count; i++)
        if ((mine->row[i] = v->row[i]) != NULL)
            mine->row[i]->ref++;
    if (v != NULL)
        mine->foreign = judge_packet_keep(v->foreign);
    judge_vector_drop(v, 1);
    return *to = mine;
}

static struct judge_row *row_unique(struct judge_grid *grid, struct judge_vector *v, uint32_t number)
{
    struct judge_row *row = v->row[number], *mine;
    if (row != NULL && row->ref == 1)
        return row;
    mine = (struct judge_row *)judge_alloc(grid, 1, sizeof *mine);
    if (mine == NULL)
        return NULL;
    if (row != NULL)
        memcpy(mine->at, row->at, sizeof mine->at);
    mine->ref = 1;
    row_drop(row);
    return v->row[number] = mine;
}

static unsigned int rows_compare(const uint32_t *to, const uint32_t *from)
{
    uint32_t from_greater = 0, to_greater = 0;
    for (int l = 0; l < EMU_LANES; l++) {
        from_greater |= from[l] > to[l];
        to_greater |= to[l] > from[l];
    }
    return (from_greater ? FROM_GREATER : 0u) | (to_greater ? TO_GREATER : 0u);
}

static void row_raise(uint32_t *to, const uint32_t *from)
{
    for (int l = 0; l < EMU_LANES; l++)
        to[l] = to[l] > from[l] ? to[l] : from[l];
}

/* ---- packets -------------------------------------------------------------------------------------- */
/* The position where (cluster, row) is or would be. */
static uint32_t packet_position(const struct judge_packet *packet, uint32_t cluster, uint32_t row)
{
    uint32_t low = 0, high = packet->count;
    while (low < high) {
        const uint32_t                 middle = low + (high - low) / 2;
        const struct judge_packet_row *at = &packet->rows[middle];
        if (at->cluster < cluster || (at->cluster == cluster && at->row < row))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct judge_packet_row *judge_packet_find(const struct judge_packet *packet, uint32_t cluster,
                                                 uint32_t row)
{
    uint32_t i;
    if (packet == NULL)
        return NULL;
    i = packet_position(packet, cluster, row);
    if (i == packet->count || packet->rows[i].cluster != cluster || packet->rows[i].row != row)
        return NULL;
    return &packet->rows[i];
}

/* Make *to an unshared packet with room for `more` rows. */
static struct judge_packet *packet_unique(struct judge_grid *grid, struct judge_packet **to, uint32_t more)
{
    struct judge_packet *old = *to, *mine;
    const uint32_t       count = old != NULL ? old->count : 0;
    size_t               bytes;
    if (old != NULL && __atomic_load_n(&old->ref, __ATOMIC_ACQUIRE) == 1 && old->room - count >= more)
        return old;
    judge_count_rows(grid, count);
    bytes = sizeof *mine + 2 * (size_t)(count + more) * sizeof mine->rows[0];
    mine = (struct judge_packet *)judge_alloc(grid, 1, bytes);
    if (mine == NULL)
        return NULL;
    mine->ref = 1;
    mine->room = 2 * (count + more);
    mine->count = count;
    if (old != NULL)
        memcpy(mine->rows, old->rows, count * sizeof mine->rows[0]);
    judge_packet_drop(old);
    return *to = mine;
}

/* The caller has made room for it. */
static void packet_add(struct judge_packet *packet, uint32_t cluster, uint32_t row, const uint32_t *at)
{
    const uint32_t           i = packet_position(packet, cluster, row);
    struct judge_packet_row *here = &packet->rows[i];
    if (i < packet->count && here->cluster == cluster && here->row == row) {
        row_raise(here->at, at);
        return;
    }
    memmove(here + 1, here, (packet->count - i) * sizeof *here);
    packet->count++;
    here->cluster = cluster;
    here->row = row;
    memcpy(here->at, at, sizeof here->at);
}

static unsigned int packets_compare(const struct judge_packet *to, const struct judge_packet *from)
{
    unsigned int order = 0;
    if (to == from)
        return 0;
    if (from == NULL)
        return to->count ? TO_GREATER : 0;
    if (to == NULL)
        return from->count ? FROM_GREATER : 0;
    for (uint32_t i = 0; i < from->count && order != EITHER_GREATER; i++) {
        const struct judge_packet_row *row = &from->rows[i];
        const struct judge_packet_row *other = judge_packet_find(to, row->cluster, row->row);
        order |= other != NULL ? rows_compare(other->at, row->at) : FROM_GREATER;
    }
    for (uint32_t i = 0; i < to->count && !(order & TO_GREATER); i++)
        if (judge_packet_find(from, to->rows[i].cluster, to->rows[i].row) == NULL)
            order |= TO_GREATER;
    return order;
}

/* ---- vectors -------------------------------------------------------------------------------------- */
static unsigned int vectors_compare(struct judge_grid *grid, const struct judge_vector *to,
                                    const struct judge_vector *from)
{
    const uint32_t count = to->count > from->count ? to->count : from->count;
    unsigned int   order = 0;
    if (to->foreign != from->foreign && !judge_is_off(grid)) {
        judge_count_rows(grid, to->foreign != NULL ? to->foreign->count : 0);
        judge_count_rows(grid, from->foreign != NULL ? from->foreign->count : 0);
        order = packets_compare(to->foreign, from->foreign);
    }
    for (uint32_t i = 0; i < count && order != EITHER_GREATER; i++) {
        const struct judge_row *a = i < to->count ? to->row[i] : NULL;
        const struct judge_row *b = i < from->count ? from->row[i] : NULL;
        if (a == b)
            continue;
        order |= (a == NULL) ? FROM_GREATER : b == NULL ? TO_GREATER : rows_compare(a->at, b->at);
    }
    return order;
}

static void vectors_merge(struct judge_grid *grid, struct judge_vector **to, const struct judge_vector *from)
{
    struct judge_vector *v = vector_unique(grid, to, from->count);
    if (v == NULL)
        return;
    for (uint32_t i = 0; i < from->count; i++) {
        struct judge_row *const row = from->row[i], *mine;
        if (row == NULL || row == v->row[i])
            continue;
        if (v->row[i] == NULL) {
            v->row[i] = row;
            row->ref++;
        } else if ((rows_compare(v->row[i]->at, row->at) & FROM_GREATER) &&
                   (mine = row_unique(grid, v, i)) != NULL) {
            row_raise(mine->at, row->at);
        }
    }
    if (from->foreign == NULL || from->foreign == v->foreign)
        return;
    if (v->foreign == NULL) {
        v->foreign = judge_packet_keep(from->foreign);
        return;
    }
    if (packet_unique(grid, &v->foreign, from->foreign->count) != NULL)
        for (uint32_t i = 0; i < from->foreign->count; i++) {
            const struct judge_packet_row *row = &from->foreign->rows[i];
            packet_add(v->foreign, row->cluster, row->row, row->at);
        }
}

void judge_vector_join(struct judge_grid *grid, struct judge_vector **to, struct judge_vector *from)
{
    unsigned int order;
    if (from == NULL || *to == from)
        return;
    order = *to != NULL ? vectors_compare(grid, *to, from) : FROM_GREATER;
    if (!(order & FROM_GREATER))
        return;
    if (order & TO_GREATER) {
        vectors_merge(grid, to, from);
        return;
    }
    judge_vector_drop(*to, 1);
    *to = judge_vector_keep(from, 1);
}

void judge_vector_lanes(struct judge_grid *grid, struct judge_vector **to, uint32_t row, uint32_t mask,
                        const uint32_t at[EMU_LANES])
{
    struct judge_vector *v = *to;
    struct judge_row    *mine;
    const uint32_t      *now = v != NULL && row < v->count && v->row[row] != NULL ? v->row[row]->at : NULL;
    uint32_t             higher = 0;
    for (uint32_t l = 0; l < EMU_LANES; l++)
        higher |= (uint32_t)(at[l] > (now != NULL ? now[l] : 0)) << l;
    higher &= mask;
    if (!higher || (v = vector_unique(grid, to, row + 1)) == NULL || (mine = row_unique(grid, v, row)) == NULL)
        return;
    for (; higher; higher &= higher - 1) {
        const int l = __builtin_ctz(higher);
        mine->at[l] = at[l];
    }
}

void judge_vector_point(struct judge_grid *grid, struct judge_vector **to, uint32_t row, uint32_t lane,
                        uint32_t epoch)
{
    uint32_t at[EMU_LANES] = {0};
    at[lane] = epoch;
    judge_vector_lanes(grid, to, row, 1u << lane, at);
}

void judge_vector_import(struct judge_cluster *c, struct judge_vector **to, const struct judge_packet *packet)
{
    struct judge_vector *v;
    judge_count_rows(c->grid, packet != NULL ? packet->count : 0);
    for (uint32_t i = 0; packet != NULL && i < packet->count; i++) {
        const struct judge_packet_row *row = &packet->rows[i];
        const struct judge_packet_row *known;
        if (row->cluster == c->id) {
            judge_vector_lanes(c->grid, to, row->row, EMU_ALL, row->at);
            continue;
        }
        known = *to != NULL ? judge_packet_find((*to)->foreign, row->cluster, row->row) : NULL;
        if (known != NULL && !(rows_compare(known->at, row->at) & FROM_GREATER))
            continue;
        v = vector_unique(c->grid, to, 0);
        if (v == NULL || packet_unique(c->grid, &v->foreign, packet->count - i) == NULL)
            return;
        packet_add(v->foreign, row->cluster, row->row, row->at);
    }
}

struct judge_vector *judge_vector_of(struct judge_grid *grid, struct judge_packet *packet)
{
    struct judge_vector *v = NULL;
    if (vector_unique(grid, &v, 0) != NULL)
        v->foreign = judge_packet_keep(packet);
    return v;
}

void judge_vector_export(struct judge_cluster *c, const struct judge_vector *v, struct judge_packet **to)
{
    uint32_t rows = v->foreign != NULL ? v->foreign->count : 0;
    for (uint32_t i = 0; i < v->count; i++)
        rows += v->row[i] != NULL;
    if (!rows || packet_unique(c->grid, to, rows) == NULL)
        return;
    for (uint32_t i = 0; i < v->count; i++)
        if (v->row[i] != NULL)
            packet_add(*to, c->id, i, v->row[i]->at);
    for (uint32_t i = 0; v->foreign != NULL && i < v->foreign->count; i++)
        packet_add(*to, v->foreign->rows[i].cluster, v->foreign->rows[i].row, v->foreign->rows[i].at);
}
