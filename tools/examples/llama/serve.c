/* serve.c - continuous batching: before each step, sequences join while there is a slot and there are pages for them; one that
 * joins is prefilled in chunks, which gives its first token; then each step gives every sequence a token, and those that are
 * complete leave.  A sequence gets all pages that it may need when it joins, so that none has to wait in the middle. */
#include "llama.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct slot {
    request *request; /* NULL: free */
    int32_t *pages;   /* [table_width] */
    int      page_count;
    int      length; /* rows in the cache */
} slot;

typedef struct server {
    model               *m;
    step                *prefill, *decode;
    slot                *slots;
    int32_t             *free_pages;
    int                  free_count;
    timing              *timing;
    bool                 stop_early;
    ptxpack_sampling_row draw;
} server;

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static ptxpack_sampling_row draw_of(const server *s, const request *r)
{
    ptxpack_sampling_row draw = s->draw;
    draw.seed = r->seed;
    draw.counter = (uint64_t)r->count;
    return draw;
}

/* The experts that `rows` rows of a step from row `row` on took: those of the request's tokens from `position` on. */
static void keep_choices(const step *from, int row, int rows, const request *r, const config *c, int position)
{
    for (int i = 0; i < rows && r->experts != NULL; i++)
        step_choices(from, row + i, r->experts + (size_t)(position + i) * (size_t)(c->layers * c->top_k));
}

/* Takes the token that a step has drawn for row `row` of its sequences; the sequence leaves when it is complete. */
static void take(server *s, slot *at, step *from, int row, int32_t token)
{
    const config *c = &s->m->config;
    request      *r = at->request;
    bool          stops = false;
    if (r->logits != NULL)
        step_logits(from, row, r->logits + (size_t)(r->count - r->prompt) * (size_t)c->vocab);
    r->tokens[r->count++] = token;
    for (int i = 0; i < c->stops && s->stop_early; i++)
        stops |= token == c->stop[i];
    if (!stops && r->count < r->prompt + r->most)
        return;
    while (at->page_count > 0)
        s->free_pages[s->free_count++] = at->pages[--at->page_count];
    at->request = NULL;
}

static void prefill(server *s, slot *at)
{
    struct step_input *in = step_input(s->prefill);
    request           *r = at->request;
    step              *from = s->prefill;
    int32_t            token = 0;
    double             start = milliseconds();
    if (s->m->shards != NULL && shards_want(&s->m->limits, r->prompt)) {
        token = shards_prefill(s->m->shards, r->tokens, r->prompt, at->pages, draw_of(s, r), &from, r->experts);
        s->timing->sharded_tokens += at->length = r->prompt;
    }
    memcpy(in->table, at->pages, (size_t)s->m->table_width * sizeof *in->table);
    in->draw[0] = draw_of(s, r);
    while (at->length < r->prompt) {
        int left = r->prompt - at->length, rows = left < s->m->limits.chunk ? left : s->m->limits.chunk;
        memcpy(in->tokens, r->tokens + at->length, (size_t)rows * sizeof *in->tokens);
        in->fresh[0] = rows;
        in->last[0] = rows - 1;
        in->lengths[0] = at->length += rows;
        token = step_run(s->prefill)[0];
        keep_choices(s->prefill, 0, rows, r, &s->m->config, at->length - rows);
    }
    s->timing->prefill_ms += milliseconds() - start;
    s->timing->prefill_tokens += r->prompt;
    take(s, at, from, 0, token);
}

static bool join(server *s, slot *at, request *r)
{
    int pages = (r->prompt + r->most - 2) / s->m->limits.page_rows + 1; /* the last token gets no row */
    if (pages > s->free_count)
        return false;
    for (at->page_count = 0; at->page_count < pages; at->page_count++)
        at->pages[at->page_count] = s->free_pages[--s->free_count];
    at->length = 0;
    at->request = r;
    prefill(s, at);
    return true;
}

/* A token for every sequence.  Returns how many there were. */
static int decode(server *s)
{
    struct step_input *in = step_input(s->decode);
    int                active = 0, slots = s->m->limits.slots, width = s->m->table_width;
    double             start = milliseconds();
    for (int i = 0; i < slots; i++) {
        slot *at = &s->slots[i];
        bool  takes_part = at->request != NULL;
        active += takes_part;
        in->fresh[i] = takes_part;
        in->tokens[i] = takes_part ? at->request->tokens[at->request->count - 1] : 0;
        in->lengths[i] = takes_part ? ++at->length : 0;
        in->draw[i] = takes_part ? draw_of(s, at->request) : (ptxpack_sampling_row){0};
        memcpy(in->table + (size_t)i * (size_t)width, at->pages, (size_t)width * sizeof *in->table);
    }
    if (active == 0)
        return 0;
    const int32_t *drawn = step_run(s->decode);
    s->timing->decode_ms += milliseconds() - start;
    s->timing->decode_steps++;
    s->timing->decode_tokens += active;
    s->timing->most_at_once = active > s->timing->most_at_once ? active : s->timing->most_at_once;
    for (slot *at = s->slots; at < s->slots + slots; at++)
        if (at->request != NULL) {
            int row = (int)(at - s->slots);
            keep_choices(s->decode, row, 1, at->request, &s->m->config, at->length - 1);
            take(s, at, s->decode, row, drawn[row]);
        }
    return active;
}

void serve(model *m, request *requests, int count, ptxpack_sampling_row draw, bool stop_early, timing *t)
{
    int    slots = m->limits.slots, next = 0;
    server s = {.m = m, .draw = draw, .stop_early = stop_early, .timing = t};
    *t = (timing){0};
    s.prefill = step_open(m, 1, m->limits.chunk);
    s.decode = step_open(m, slots, 1);
    s.slots = (slot *)allocate((size_t)slots, sizeof *s.slots);
    s.free_pages = (int32_t *)allocate((size_t)m->limits.pages, sizeof *s.free_pages);
    for (int page = m->limits.pages - 1; page >= 0; page--) /* page 0 is taken first */
        s.free_pages[s.free_count++] = page;
    for (int i = 0; i < slots; i++)
        s.slots[i].pages = (int32_t *)allocate((size_t)m->table_width, sizeof(int32_t));
    do {
        for (int i = 0; i < slots && next < count; i++)
            while (next < count && s.slots[i].request == NULL && join(&s, &s.slots[i], &requests[next]))
                next++;
    } while (decode(&s) > 0 || next < count);
    for (int i = 0; i < slots; i++)
        free(s.slots[i].pages);
    free(s.slots);
    free(s.free_pages);
    step_close(s.prefill);
    step_close(s.decode);
}
