/* element.c - the element types of arguments. */
#include "element.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "host/dtype.h"
#include "tools/problem/random.h"
#include "host/scalars.h"
#include "tools/problem/verify.h"

static const struct {
    const char *name;
    size_t      bytes;
    char        kind;
    npy_type    npy;
} types[] = {
#define ELEMENT_ROW(id, name, bytes, kind, npy) [ELEMENT_##id] = {name, bytes, kind, NPY_##npy},
    ELEMENT_MAP(ELEMENT_ROW)
#undef ELEMENT_ROW
};

element_type element_find(const char *name, size_t bytes)
{
    for (int i = 0; i < ELEMENT_COUNT; i++)
        if (strlen(types[i].name) == bytes && memcmp(types[i].name, name, bytes) == 0)
            return (element_type)i;
    return ELEMENT_COUNT;
}

const char *element_name(element_type type) { return types[type].name; }
size_t      element_bytes(element_type type) { return types[type].bytes; }
char        element_kind(element_type type) { return types[type].kind; }
npy_type    element_npy(element_type type) { return types[type].npy; }

/* The first row with this type of file is the plain integer; e4m3 and bf16 come after it. */
element_type element_of_npy(npy_type type)
{
    for (int i = 0; i < ELEMENT_COUNT; i++)
        if (types[i].npy == type)
            return (element_type)i;
    return ELEMENT_COUNT;
}

/* 0 for types that are not narrow floats. */
static ptxpack_dtype dtype_of(element_type type)
{
    return type == ELEMENT_F16    ? PTXPACK_F16
           : type == ELEMENT_BF16 ? PTXPACK_BF16
           : type == ELEMENT_E4M3 ? PTXPACK_E4M3
                                  : (ptxpack_dtype)0;
}

/* ---- values --------------------------------------------------------------------------------------- */
static void set_float(element_type type, void *array, size_t index, double value)
{
    if (type == ELEMENT_F64)
        ((double *)array)[index] = value;
    else if (type == ELEMENT_F32)
        ((float *)array)[index] = (float)value;
    else if (type == ELEMENT_E4M3)
        ptxpack_set_element(PTXPACK_E4M3, array, index, (float)value);
    else
        ((uint16_t *)array)[index] = reference_round(dtype_of(type), value);
}

static double get_float(element_type type, const void *array, size_t index)
{
    if (type == ELEMENT_F64)
        return ((const double *)array)[index];
    if (type == ELEMENT_F32)
        return (double)((const float *)array)[index];
    return (double)ptxpack_element(dtype_of(type), array, index);
}

static bool parse_float(element_type type, const char *text, void *value, char *line)
{
    char  *end;
    double number = strtod(text, &end), kept;
    bool   blank = *text == ' ' || *text == '\t' || *text == '\n';
    if (end == text || *end != '\0' || blank) {
        snprintf(line, PROGRAM_LINE, "\"%.200s\" is not a number", text);
        return false;
    }
    set_float(type, value, 0, number);
    kept = get_float(type, value, 0);
    bool saturated = type == ELEMENT_E4M3 && isfinite(number) && fabs(number) >= 464; /* 448 and half a step */
    if ((isfinite(number) && isfinite(kept) && !saturated) || (!isfinite(number) && type != ELEMENT_E4M3) ||
        (isnan(number) && isnan(kept)))
        return true;
    snprintf(line, PROGRAM_LINE, "%.200s is beyond the range of %s", text, element_name(type));
    return false;
}

bool element_parse(element_type type, const program_symbols *symbols, const char *text, void *value,
                   char line[PROGRAM_LINE])
{
    program_wide number;
    if (element_kind(type) == 'f')
        return parse_float(type, text, value, line);
    if (!program_number(symbols, text, strlen(text), &number, line))
        return false;
    int          bits = (int)(8 * element_bytes(type)) - (element_kind(type) == 's');
    program_wide most = ((program_wide)1 << bits) - 1, least = element_kind(type) == 's' ? -most - 1 : 0;
    if (number < least || number > most) {
        snprintf(line, PROGRAM_LINE, "%.200s is beyond the range of %s", text, element_name(type));
        return false;
    }
    uint64_t low = (uint64_t)number;
    memcpy(value, &low, element_bytes(type)); /* little-endian */
    return true;
}

/* The bits of an integer, sign-extended to 64 if the type is signed. */
static uint64_t get_bits(element_type type, const void *array, size_t index)
{
    size_t       bytes = element_bytes(type);
    unsigned int unused = 64 - 8 * (unsigned int)bytes;
    uint64_t     bits = 0;
    memcpy(&bits, (const unsigned char *)array + index * bytes, bytes);
    return element_kind(type) == 's' ? (uint64_t)((int64_t)(bits << unused) >> unused) : bits;
}

const char *element_text(element_type type, const void *array, size_t index, char *buf, size_t cap)
{
    if (element_kind(type) == 'f' && isnan(get_float(type, array, index)))
        snprintf(buf, cap, "nan"); /* printf would show the sign of a NaN */
    else if (element_kind(type) == 'f')
        snprintf(buf, cap, type == ELEMENT_F64 ? "%.10g" : "%.6g", get_float(type, array, index));
    else if (element_kind(type) == 's')
        snprintf(buf, cap, "%lld", (long long)get_bits(type, array, index));
    else
        snprintf(buf, cap, "%llu", (unsigned long long)get_bits(type, array, index));
    return buf;
}

double element_value(element_type type, const void *array, size_t index)
{
    if (element_kind(type) == 'f')
        return get_float(type, array, index);
    uint64_t bits = get_bits(type, array, index);
    return element_kind(type) == 's' ? (double)(int64_t)bits : (double)bits;
}

/* ---- whole arrays --------------------------------------------------------------------------------- */
/* The low bytes of an integer. */
static void set_bits(element_type type, void *array, size_t index, uint64_t bits)
{
    size_t bytes = element_bytes(type);
    memcpy((unsigned char *)array + index * bytes, &bits, bytes);
}

/* The Box-Muller transform: precise enough for f64, while random_normal is made for 16-bit types. */
static double wide_normal(random_state *random)
{
    double radius = ((double)(random_bits(random) >> 11) + 1) * 0x1p-53; /* never 0 */
    double turn = (double)(random_bits(random) >> 11) * 0x1p-53;
    return sqrt(-2 * log(radius)) * cos(6.283185307179586 * turn);
}

/* Pieces of an array.  Each has its own random sequence, so that the threads may share them in any way. */
enum { PIECE = 1 << 18, MAX_THREADS = 16 };

typedef struct random_job {
    element_type   type;
    uint64_t       seed;
    unsigned char *array;
    size_t         count;
    atomic_size_t  next; /* piece */
} random_job;

static void fill_piece(const random_job *job, size_t piece)
{
    random_state   random = random_start(job->seed ^ (uint64_t)piece << 40); /* seeds are small */
    size_t         first = piece * PIECE, count = job->count - first < PIECE ? job->count - first : PIECE;
    unsigned char *to = job->array + first * element_bytes(job->type);
    if (piece > 0)
        random = random_start(random_bits(&random));
    if (dtype_of(job->type) != 0) {
        random_normal(&random, dtype_of(job->type), to, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (element_kind(job->type) == 'f')
            set_float(job->type, to, i, wide_normal(&random));
        else
            set_bits(job->type, to, i, random_below(&random, 100));
}

static void *fill_pieces(void *context)
{
    random_job *job = (random_job *)context;
    size_t      piece;
    while ((piece = atomic_fetch_add(&job->next, 1)) * PIECE < job->count)
        fill_piece(job, piece);
    return NULL;
}

void element_random(element_type type, uint64_t seed, void *array, size_t count)
{
    random_job job = {.type = type, .seed = seed, .array = (unsigned char *)array, .count = count};
    pthread_t  helpers[MAX_THREADS];
    int        started = 0;
    while (started + 1 < verify_threads() && started < MAX_THREADS && (size_t)(started + 1) * PIECE < count &&
           pthread_create(&helpers[started], NULL, fill_pieces, &job) == 0)
        started++;
    fill_pieces(&job);
    for (int i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
}

void element_iota(element_type type, void *array, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (element_kind(type) == 'f')
            set_float(type, array, i, (double)i);
        else
            set_bits(type, array, i, i);
}
