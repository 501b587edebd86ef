/* upload.c - how weights get to the device: threads copy slices of them from the mapped files into pinned memory, which the device
 * reads while they copy the next ones.  One thread alone would read files at a tenth of the speed of the bus. */
#include "llama.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 8 /* threads */, SLOTS = 2 /* of a lane */, SLICE = 4 << 20 /* bytes of a slot */ };

typedef struct lane {
    struct upload     *upload;
    char              *slot[SLOTS];
    struct CUevent_st *read[SLOTS]; /* the device has read it */
    int                next;
} lane;

struct upload {
    const gpu         *device;
    char              *pinned; /* all slots */
    lane               lanes[LANES];
    uint64_t           to; /* what is written now */
    const void *const *parts;
    size_t             count, piece, bytes;
};

static struct upload *upload_open(const gpu *d)
{
    struct upload *u = (struct upload *)allocate(1, sizeof *u);
    void          *pinned;
    try_cuda(d, d->cuda->cuMemHostAlloc(&pinned, (size_t)LANES * SLOTS * SLICE, 0), "cuMemHostAlloc");
    u->device = d;
    u->pinned = (char *)pinned;
    for (lane *l = u->lanes; l < u->lanes + LANES; l++) {
        l->upload = u;
        for (int i = 0; i < SLOTS; i++) {
            l->slot[i] = u->pinned + ((l - u->lanes) * SLOTS + i) * SLICE;
            try_cuda(d, d->cuda->cuEventCreate(&l->read[i], PTXPACK_CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        }
    }
    return u;
}

void upload_close(struct upload *u)
{
    for (int i = 0; u != NULL && i < LANES * SLOTS; i++)
        u->device->cuda->cuEventDestroy(u->lanes[i / SLOTS].read[i % SLOTS]);
    if (u != NULL)
        u->device->cuda->cuMemFreeHost(u->pinned);
    free(u);
}

/* `bytes` of what is written, from the at-th on: its pieces are those of the parts in turn. */
static void gather_pieces(const struct upload *u, char *to, size_t at, size_t bytes)
{
    for (size_t end = at + bytes, some; at < end; at += some, to += some) {
        const size_t piece = at / u->piece, within = at % u->piece;
        some = u->piece - within < end - at ? u->piece - within : end - at;
        memcpy(to, (const char *)u->parts[piece % u->count] + piece / u->count * u->piece + within, some);
    }
}

static void *run_lane(void *argument)
{
    lane                *l = (lane *)argument;
    const struct upload *u = l->upload;
    const gpu           *d = u->device;
    gpu_enter(d);
    for (size_t at = (size_t)(l - u->lanes) * SLICE; at < u->bytes; at += (size_t)LANES * SLICE) {
        const size_t bytes = u->bytes - at < SLICE ? u->bytes - at : SLICE;
        const int    slot = l->next++ % SLOTS;
        try_cuda(d, d->cuda->cuEventSynchronize(l->read[slot]), "cuEventSynchronize"); /* at once, if it was never recorded */
        gather_pieces(u, l->slot[slot], at, bytes);
        try_cuda(d, d->cuda->cuMemcpyHtoDAsync(u->to + at, l->slot[slot], bytes, d->stream), "cuMemcpyHtoDAsync");
        try_cuda(d, d->cuda->cuEventRecord(l->read[slot], d->stream), "cuEventRecord");
    }
    return NULL;
}

void gpu_write_mixed(gpu *d, uint64_t to, const void *const parts[], size_t count, size_t piece, size_t bytes)
{
    pthread_t threads[LANES];
    int       started = 1; /* this thread is the first one */
    if (d->upload == NULL)
        d->upload = upload_open(d);
    struct upload *u = d->upload;
    u->to = to, u->parts = parts, u->count = count, u->piece = piece, u->bytes = bytes;
    for (size_t at = SLICE; at < bytes && started < LANES; at += SLICE, started++)
        NEED(pthread_create(&threads[started], NULL, run_lane, &u->lanes[started]) == 0, "a thread cannot be started");
    run_lane(&u->lanes[0]);
    while (--started > 0)
        pthread_join(threads[started], NULL);
}

void gpu_write(gpu *d, uint64_t to, const void *from, size_t bytes) { gpu_write_mixed(d, to, &from, 1, bytes, bytes); }
