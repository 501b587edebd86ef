/* tables.c - what decoding looks up: where symbols were placed, and the rows of constants. */
#include <stdlib.h>
#include "decode.h"
#include "state.h"

/* ---- placed symbols ------------------------------------------------------------------------------- */
static uint32_t symbol_slot(const struct placed *table, uint32_t cap, const struct ptx_symbol *symbol)
{
    uint32_t i = (uint32_t)((uintptr_t)symbol >> 4) * 2654435761u & (cap - 1);
    while (table[i].symbol != NULL && table[i].symbol != symbol)
        i = (i + 1) & (cap - 1);
    return i;
}

static bool grow_placed(struct decode_state *s)
{
    uint32_t       cap = s->placed_cap ? 2 * s->placed_cap : 64;
    struct placed *table = (struct placed *)calloc(cap, sizeof *table);
    if (table == NULL)
        return false;
    for (uint32_t i = 0; i < s->placed_cap; i++)
        if (s->placed[i].symbol != NULL)
            table[symbol_slot(table, cap, s->placed[i].symbol)] = s->placed[i];
    free(s->placed);
    s->placed = table;
    s->placed_cap = cap;
    return true;
}

bool decode_place(struct decode_state *s, const struct ptx_symbol *symbol, enum emu_space space,
                  uint64_t address, bool dynamic)
{
    if (2 * (s->placed_count + 1) > s->placed_cap && !grow_placed(s))
        return false;
    struct placed *p = &s->placed[symbol_slot(s->placed, s->placed_cap, symbol)];
    s->placed_count += p->symbol == NULL;
    p->symbol = symbol;
    p->space = space;
    p->address = address;
    p->dynamic = dynamic;
    return true;
}

const struct placed *decode_find_placed(const struct decode_state *s, const struct ptx_symbol *symbol)
{
    if (!s->placed_cap)
        return NULL;
    const struct placed *p = &s->placed[symbol_slot(s->placed, s->placed_cap, symbol)];
    return p->symbol != NULL ? p : NULL;
}

/* ---- constants ------------------------------------------------------------------------------------ */
static bool grow_constants(struct constants *c)
{
    uint32_t  cap = c->cap ? 2 * c->cap : 128;
    uint64_t *values = (uint64_t *)realloc(c->values, cap * sizeof *values);
    if (values != NULL)
        c->values = values;
    uint32_t *rows = (uint32_t *)realloc(c->rows, cap * sizeof *rows);
    if (rows != NULL)
        c->rows = rows;
    uint8_t *bits = (uint8_t *)realloc(c->bits, cap);
    if (bits != NULL)
        c->bits = bits;
    free(c->buckets);
    c->bucket_count = 4 * cap;
    c->buckets = (uint32_t *)calloc(c->bucket_count, sizeof *c->buckets);
    c->cap = values != NULL && rows != NULL && bits != NULL && c->buckets != NULL ? cap : 0;
    return c->cap > 0;
}

static uint32_t *bucket(const struct constants *c, uint64_t value, unsigned int bits)
{
    uint32_t i = (uint32_t)((value ^ bits) * 0x9e3779b97f4a7c15ull >> 32) & (c->bucket_count - 1);
    while (c->buckets[i]) {
        uint32_t k = c->buckets[i] - 1;
        if (c->values[k] == value && c->bits[k] == bits)
            break;
        i = (i + 1) & (c->bucket_count - 1);
    }
    return &c->buckets[i];
}

emu_reg decode_constant(struct decoder *d, uint64_t value, unsigned int bits)
{
    struct constants *c = &d->state->constants;
    if (bits != 64)
        value &= 0xffffffffu;
    if (c->count == c->cap) {
        if (!grow_constants(c)) {
            decode_no_memory(d);
            return EMU_NO_REG;
        }
        for (uint32_t k = 0; k < c->count; k++)
            *bucket(c, c->values[k], c->bits[k]) = k + 1;
    }
    uint32_t *found = bucket(c, value, bits);
    if (!*found) {
        *found = c->count + 1;
        c->values[c->count] = value;
        c->bits[c->count] = (uint8_t)bits;
        c->rows[c->count++] = c->row_count;
        c->row_count += bits == 64 ? 2 : 1;
    }
    return ((uint32_t)EMU_BANK_CONSTANT << EMU_BANK_SHIFT) | c->rows[*found - 1];
}

unsigned char *decode_build_constants(const struct decode_state *s)
{
    const struct constants *c = &s->constants;
    unsigned char          *bank = (unsigned char *)calloc(c->row_count + 1u, EMU_ROW);
    for (uint32_t k = 0; bank != NULL && k < c->count; k++)
        for (uint32_t l = 0; l < EMU_LANES; l++) {
            unsigned char *row = bank + (size_t)c->rows[k] * EMU_ROW;
            uint32_t       low = (uint32_t)c->values[k];
            if (c->bits[k] == 64)
                memcpy(row + 8 * l, &c->values[k], 8);
            else
                memcpy(row + 4 * l, &low, 4);
        }
    return bank;
}

void decode_free_state(struct decode_state *s)
{
    free(s->placed);
    free(s->constants.values);
    free(s->constants.rows);
    free(s->constants.bits);
    free(s->constants.buckets);
    free(s->row_of);
    free(s->bits_of);
    free(s->ops);
    free(s->op_of);
    free(s);
}
