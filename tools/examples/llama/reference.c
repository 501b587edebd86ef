/* reference.c - the same model on the CPU, in double precision and without a rounding in between: token by token, with
 * every key and value kept.  It is for small models. */
#include "llama.h"

#include <math.h>
#include <stdlib.h>

typedef struct pass {
    const config  *c;
    const weights *w;
    double        *keys, *values; /* [layers][count][heads_kv * head_dim] */
    double        *x, *h, *q, *o, *gate, *up, *down, *routes, *scores;
    int            count;
    const int32_t *experts;
    choices       *found;
    void          *codes; /* of a row */
} pass;

static double element(const pass *p, const void *array, size_t i) { return (double)ptxpack_element(p->w->dtype, array, i); }

/* y[rows] = w [rows][columns] x + bias, with each row of w rounded to e4m3 or not */
static void multiply_as(const pass *p, bool rounded, double *y, const double *x, const void *w, const void *bias, int rows, int columns)
{
    ptxpack_quantise_desc desc = {.size = sizeof desc, .dtype = p->w->dtype, .rows = 1, .columns = columns, .options = PTXPACK_QUANTISE_POWERS};
    for (int i = 0; i < rows; i++) {
        const uint16_t *row = (const uint16_t *)w + (size_t)i * (size_t)columns;
        double          sum = 0;
        float           scale = 1;
        NEED(!rounded || ptxpack_quantise_reference(&desc, row, p->codes, &scale) == PTXPACK_OK, "%s", ptxpack_detail(NULL));
        for (int j = 0; j < columns; j++)
            sum += (rounded ? (double)ptxpack_element(PTXPACK_E4M3, p->codes, (size_t)j) : element(p, row, (size_t)j)) * x[j];
        y[i] = sum * (double)scale + (bias != NULL ? element(p, bias, (size_t)i) : 0);
    }
}

/* The same as the model has its matrices. */
static void multiply(const pass *p, double *y, const double *x, const void *w, const void *bias, int rows, int columns)
{
    multiply_as(p, p->w->matrices != 0, y, x, w, bias, rows, columns);
}

static void norm(const pass *p, double *y, const double *x, const void *w, int width)
{
    double squares = 0;
    for (int i = 0; i < width; i++)
        squares += x[i] * x[i];
    double scale = 1 / sqrt(squares / width + p->c->eps);
    for (int i = 0; i < width; i++)
        y[i] = x[i] * scale * element(p, w, (size_t)i);
}

/* Each head: its norm if the model has one, then the rotation of pairs (j, j + head_dim / 2). */
static void turn(const pass *p, double *heads, int count, const void *w, int position)
{
    int dim = p->c->head_dim, half = dim / 2;
    for (double *x = heads; x < heads + (size_t)count * (size_t)dim; x += dim) {
        if (w != NULL)
            norm(p, x, x, w, dim);
        for (int j = 0; j < half; j++) {
            double angle = position * config_frequency(p->c, j), a = x[j], b = x[j + half];
            x[j] = a * cos(angle) - b * sin(angle);
            x[j + half] = b * cos(angle) + a * sin(angle);
        }
    }
}

static void attend(const pass *p, const double *keys, const double *values, int position)
{
    const config *c = p->c;
    int           dim = c->head_dim, row = c->heads_kv * dim;
    int           first = c->window != 0 && position >= c->window ? position - c->window + 1 : 0;
    for (int head = 0; head < c->heads; head++) {
        const double *q = p->q + (size_t)head * (size_t)dim;
        double       *o = p->o + (size_t)head * (size_t)dim, most = -INFINITY, sum = 0;
        size_t        at = (size_t)(head / (c->heads / c->heads_kv)) * (size_t)dim;
        for (int i = 0; i < dim; i++)
            o[i] = 0;
        for (int j = first; j <= position; j++) {
            double score = 0;
            for (int i = 0; i < dim; i++)
                score += q[i] * keys[(size_t)j * (size_t)row + at + (size_t)i];
            most = fmax(most, p->scores[j] = score / sqrt(dim));
        }
        for (int j = first; j <= position; j++)
            sum += p->scores[j] = exp(p->scores[j] - most);
        for (int j = first; j <= position; j++)
            for (int i = 0; i < dim; i++)
                o[i] += p->scores[j] / sum * values[(size_t)j * (size_t)row + at + (size_t)i];
    }
}

static void add(double *x, const double *y, double weight, int count)
{
    for (int i = 0; i < count; i++)
        x[i] += weight * y[i];
}

/* x += weight W2 (silu(W1 h) W3 h), with w and bias in the order gate, up, down */
static void feed_forward(const pass *p, const void *const *w, const void *const *bias, double weight)
{
    int inner = p->c->inner, hidden = p->c->hidden;
    multiply(p, p->gate, p->h, w[0], bias[0], inner, hidden);
    multiply(p, p->up, p->h, w[1], bias[1], inner, hidden);
    for (int i = 0; i < inner; i++)
        p->gate[i] *= p->up[i] / (1 + exp(-p->gate[i]));
    multiply(p, p->down, p->gate, w[2], bias[2], hidden, inner);
    add(p->x, p->down, weight, hidden);
}

/* The experts are those that the row took, which rounding may have made other ones than the largest logits say. */
static void run_experts(const pass *p, const void *const *w, int layer, int position)
{
    const config  *c = p->c;
    const int32_t *taken = p->experts + ((size_t)position * (size_t)c->layers + (size_t)layer) * (size_t)c->top_k;
    double        *z = p->routes, most = -INFINITY, largest = 0, sum = 0;
    int            count = 0, least = -1, other = -1;
    multiply_as(p, false, z, p->h, w[ROUTER], NULL, c->experts, c->hidden);
    for (int i = 0; i < c->experts; i++) {
        most = fmax(most, z[i]);
        largest = fmax(largest, fabs(z[i]));
    }
    for (int i = 0; i < c->experts; i++) {
        bool is_taken = false;
        for (int j = 0; j < c->top_k; j++)
            is_taken |= taken[j] == i;
        count += is_taken;
        sum += is_taken || !c->normalise ? exp(z[i] - most) : 0;
        if (is_taken)
            least = least < 0 || z[i] < z[least] ? i : least;
        else
            other = other < 0 || z[i] > z[other] ? i : other;
    }
    double gap = other >= 0 && least >= 0 ? (z[other] - z[least]) / largest : 0;
    bool   malformed = count != c->top_k;
    p->found->others += gap > 0;
    if (malformed || (gap > p->found->gap && !p->found->malformed))
        *p->found = (choices){p->found->others, malformed, gap, position, layer, other, least};
    for (int j = 0; j < c->top_k && !malformed; j++)
        feed_forward(p, weights_mlp(c, p->w, layer, taken[j]), &w[GATE_BIAS], exp(z[taken[j]] - most) / sum);
}

static void run_layer(const pass *p, int index, int position)
{
    const config      *c = p->c;
    const void *const *w = p->w->layers[index];
    int                q = c->heads * c->head_dim, k = c->heads_kv * c->head_dim;
    double            *keys = p->keys + (size_t)index * (size_t)p->count * (size_t)k;
    double            *values = p->values + (size_t)index * (size_t)p->count * (size_t)k, *key = keys + (size_t)position * (size_t)k;
    norm(p, p->h, p->x, w[NORM_1], c->hidden);
    multiply(p, p->q, p->h, w[Q], w[Q_BIAS], q, c->hidden);
    multiply(p, key, p->h, w[K], w[K_BIAS], k, c->hidden);
    multiply(p, values + (size_t)position * (size_t)k, p->h, w[V], w[V_BIAS], k, c->hidden);
    turn(p, p->q, c->heads, w[Q_NORM], position);
    turn(p, key, c->heads_kv, w[K_NORM], position);
    attend(p, keys, values, position);
    multiply(p, p->h, p->o, w[O], w[O_BIAS], c->hidden, q);
    add(p->x, p->h, 1, c->hidden);
    norm(p, p->h, p->x, w[NORM_2], c->hidden);
    if (c->experts != 0)
        run_experts(p, w, index, position);
    else
        feed_forward(p, &w[GATE], &w[GATE_BIAS], 1);
}

void reference_logits(const config *c, const weights *w, const int32_t *tokens, int count, int from, const int32_t *experts,
                      double *logits, choices *found)
{
    size_t cache = (size_t)c->layers * (size_t)count * (size_t)c->heads_kv * (size_t)c->head_dim;
    size_t hidden = (size_t)c->hidden, inner = (size_t)c->inner, q = (size_t)c->heads * (size_t)c->head_dim;
    pass   p = {.c = c, .w = w, .count = count, .experts = experts, .found = found, .codes = allocate(hidden + inner + q, 1)};
    *found = (choices){0};
    double **const arrays[] = {&p.keys, &p.values, &p.x, &p.h, &p.down, &p.q, &p.o, &p.gate, &p.up, &p.routes, &p.scores};
    const size_t   sizes[] = {cache, cache, hidden, hidden, hidden, q, q, inner, inner, (size_t)c->experts, (size_t)count};
    enum { ARRAYS = sizeof sizes / sizeof *sizes };
    for (int i = 0; i < ARRAYS; i++)
        *arrays[i] = (double *)allocate(sizes[i], sizeof **arrays[i]);
    for (int i = 0; i < count; i++) {
        for (size_t j = 0; j < hidden; j++)
            p.x[j] = element(&p, w->embedding, (size_t)tokens[i] * hidden + j);
        for (int j = 0; j < c->layers; j++)
            run_layer(&p, j, i);
        if (i < from)
            continue;
        norm(&p, p.h, p.x, w->norm, c->hidden);
        multiply_as(&p, false, logits + (size_t)(i - from) * (size_t)c->vocab, p.h, w->head, NULL, c->vocab, c->hidden);
    }
    for (int i = 0; i < ARRAYS; i++)
        free(*arrays[i]);
    free(p.codes);
}
