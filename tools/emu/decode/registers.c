/* registers.c - how many registers a thread would need: an estimate, since nothing is allocated here.
 *
 * A register is assumed to be live from its first to its last mention in the text, and through each loop that
 * it enters alive.  The largest sum of live registers is the estimate.  ptxas moves instructions, so it may
 * need more or fewer. */
#include <stdlib.h>
#include "state.h"
#include "module.h"

struct span {
    uint32_t first, last;
    uint8_t  units;
};

static void mention(struct span *spans, uint32_t rows, emu_reg reg, uint32_t at)
{
    if (EMU_BANK(reg) != EMU_BANK_FRAME || reg >= rows)
        return;
    if (spans[reg].first == UINT32_MAX)
        spans[reg].first = at;
    spans[reg].last = at;
}

static void mention_all(struct span *spans, const struct emu_function *f, uint32_t rows)
{
    for (uint32_t i = 0; i < f->code_count; i++) {
        const struct emu_op *op = &f->code[i];
        if (op->guard != EMU_NO_REG)
            mention(spans, rows, op->guard, i);
        for (uint32_t k = 0; k < op->source_count; k++)
            mention(spans, rows, op->source[k], i);
        for (uint32_t k = 0; k < op->result_count; k++)
            mention(spans, rows, op->result[k], i);
    }
}

static void extend_through_loops(struct span *spans, const struct emu_function *f, uint32_t rows)
{
    for (uint32_t i = 0; i < f->code_count; i++) {
        const struct emu_op *op = &f->code[i];
        if (op->class_ != EMU_CLASS_control || !op->u8[7] || op->target > i)
            continue;
        for (uint32_t r = 0; r < rows; r++)
            if (spans[r].first < op->target && spans[r].last >= op->target && spans[r].last < i)
                spans[r].last = i;
    }
}

static uint32_t widest(const struct span *spans, uint32_t rows, uint32_t code_count)
{
    int64_t  live = 0, most = 0;
    int64_t *change = (int64_t *)calloc((size_t)code_count + 2, sizeof *change);
    if (change == NULL)
        return 0;
    for (uint32_t r = 0; r < rows; r++)
        if (spans[r].first != UINT32_MAX) {
            change[spans[r].first] += spans[r].units;
            change[spans[r].last + 1] -= spans[r].units;
        }
    for (uint32_t i = 0; i <= code_count; i++) {
        live += change[i];
        most = live > most ? live : most;
    }
    free(change);
    return (uint32_t)most;
}

void emu_estimate_registers(struct emu_function *f, const struct decode_state *s)
{
    const uint32_t rows = f->rows, most = 255;
    struct span   *spans = (struct span *)calloc((size_t)rows + 1, sizeof *spans);
    f->registers = 16;
    if (spans == NULL)
        return;
    for (uint32_t r = 0; r < rows; r++) {
        spans[r].first = UINT32_MAX;
        spans[r].units = 1;
    }
    for (unsigned int k = 0; k < f->text->register_count; k++)
        spans[s->row_of[k]].units = s->bits_of[k] == 1 ? 0 : (uint8_t)((s->bits_of[k] + 31) / 32);
    mention_all(spans, f, rows);
    extend_through_loops(spans, f, rows);
    f->registers = widest(spans, rows, f->code_count) + 8;
    if (f->registers > most)
        f->registers = most;
    if (f->text->max_registers && f->registers > f->text->max_registers)
        f->registers = f->text->max_registers;
    free(spans);
}

int emu_function_registers(const struct emu_function *f) { return (int)f->registers; }
