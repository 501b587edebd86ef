/* nccl_fixture.h - what the tests of the emulated NCCL share: ranks of one process, each on a device of its own, and
 * processes that each have some of the ranks. */
#ifndef NCCL_FIXTURE_H
#define NCCL_FIXTURE_H
#include "tests/emu/driver/api_fixture.h"
#include "tools/emu/nccl/abi.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct nccl_api {
#define NCCL(type, name, parameters) type(*name) parameters;
#include "tools/emu/nccl/nccl.def"
#undef NCCL
};

enum { MOST_RANKS = 8 };
struct rank {
    struct CUctx_st    *context;
    struct CUstream_st *stream;
    struct ncclComm    *comm;
    api_address         from, to; /* BUFFER bytes each */
};
enum { BUFFER = 4 << 20 };
struct world {
    struct emu_api *cu;
    struct nccl_api nccl;
    int             ranks, first, count; /* those of this process: [first, first + count) */
    struct rank     rank[MOST_RANKS];
};

/* ok(call), for results of NCCL: the message has its last error. */
#define fine(w, call)                                                                         \
    do {                                                                                      \
        const nccl_result result_ = (call);                                                   \
        if (result_ != NCCL_Success)                                                          \
            fail_msg("line %d: %u: %s", __LINE__, result_, (w)->nccl.ncclGetLastError(NULL)); \
    } while (0)

/* The library beside this program's folder; it stays loaded. */
static inline struct nccl_api nccl_load(void)
{
    struct nccl_api nccl;
    char            path[512];
    ssize_t         n = readlink("/proc/self/exe", path, 400);
    assert_true(n > 0);
    path[n] = '\0';
    *strrchr(path, '/') = '\0';
    strcpy(strrchr(path, '/'), "/emulated/libnccl.so.2");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol;
    if (library == NULL)
        fail_msg("%s", dlerror());
#define NCCL(type, name, parameters) \
    symbol = dlsym(library, #name);  \
    assert_non_null(symbol);         \
    memcpy(&nccl.name, &symbol, sizeof symbol);
#include "tools/emu/nccl/nccl.def"
#undef NCCL
    return nccl;
}

static inline void use(struct world *w, int rank) { ok(w->cu->cuCtxSetCurrent(w->rank[rank].context)); }

/* The devices of the ranks of this process, without communicators. */
static inline void world_open(struct world *w, const char *more, int ranks, int first, int count)
{
    char words[256];
    snprintf(words, sizeof words, "PTXPACK_EMU_DEVICES=%d PTXPACK_EMU_MEMORY=256M PTXPACK_EMU_THREADS=1 %s",
             count, more);
    memset(w, 0, sizeof *w);
    w->cu = emu_api(words);
    w->nccl = nccl_load();
    w->ranks = ranks;
    w->first = first;
    w->count = count;
    for (int i = first; i < first + count; i++) {
        struct rank *r = &w->rank[i];
        ok(w->cu->cuDevicePrimaryCtxRetain(&r->context, i - first));
        use(w, i);
        ok(w->cu->cuStreamCreate(&r->stream, 1));
        ok(w->cu->cuMemAlloc_v2(&r->from, BUFFER));
        ok(w->cu->cuMemAlloc_v2(&r->to, BUFFER));
    }
}

/* All ranks of this process join under the id. */
static inline void world_join(struct world *w, nccl_id id)
{
    fine(w, w->nccl.ncclGroupStart());
    for (int i = w->first; i < w->first + w->count; i++) {
        use(w, i);
        fine(w, w->nccl.ncclCommInitRank(&w->rank[i].comm, w->ranks, id, i));
    }
    fine(w, w->nccl.ncclGroupEnd());
}

static inline void world_make(struct world *w, const char *more, int ranks)
{
    nccl_id id;
    world_open(w, more, ranks, 0, ranks);
    fine(w, w->nccl.ncclGetUniqueId(&id));
    world_join(w, id);
}

static inline void world_synchronize(struct world *w)
{
    for (int i = w->first; i < w->first + w->count; i++) {
        use(w, i);
        ok(w->cu->cuStreamSynchronize(w->rank[i].stream));
    }
}

/* The last rank's context stays current. */
static inline void world_close(struct world *w)
{
    for (int i = w->first; i < w->first + w->count; i++)
        if (w->rank[i].comm != NULL)
            ok(w->nccl.ncclCommDestroy(w->rank[i].comm));
    for (int i = w->first; i < w->first + w->count; i++) {
        use(w, i);
        ok(w->cu->cuCtxSetCurrent(NULL));
        ok(w->cu->cuDevicePrimaryCtxReset_v2(i - w->first));
    }
    free(w->cu);
}

static inline void *pointer_of(api_address address) { return (void *)(uintptr_t)address; }

/* ---- processes ----------------------------------------------------------------------------------------- */
/* Run `body` in a process of its own for each number; nothing of the driver may have been loaded before that the
 * process uses.  The id is made by the caller. */
static inline pid_t process_start(void (*body)(int number, nccl_id id), int number, nccl_id id)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        body(number, id);
        _exit(0);
    }
    return child;
}

/* The exit status, or the signal plus 1000. */
static inline int process_end(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static inline nccl_id an_id(void)
{
    nccl_id         id;
    struct nccl_api nccl = nccl_load();
    ok(nccl.ncclGetUniqueId(&id));
    return id;
}
#endif
