/* fault.c - errors on request, so that callers can test what they do then.
 *
 * PTXPACK_EMU_NCCL_FAULT=word[,word...]:
 *
 *   late@R=MS    rank R begins each operation MS milliseconds late
 *   die@R=N      the process of rank R is killed when the rank begins its Nth operation
 *   error@R=N    the Nth operation of rank R fails */
#include "internal.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum fault { LATE, DIE, ERROR, FAULTS };
static const char *const words[FAULTS] = {"late@", "die@", "error@"};

/* The word at `at`, up to the next comma; FAULTS: it is malformed. */
static enum fault read_word(const char *at, size_t bytes, long *rank, long *value)
{
    char *end;
    for (int i = 0; i < FAULTS; i++) {
        const size_t length = strlen(words[i]);
        if (strncmp(at, words[i], length) != 0)
            continue;
        *rank = strtol(at + length, &end, 10);
        if (end == at + length || *end != '=' || *rank < 0)
            return FAULTS;
        const char *number = end + 1;
        *value = strtol(number, &end, 10);
        return end != number && end == at + bytes && *value >= 0 ? (enum fault)i : FAULTS;
    }
    return FAULTS;
}

nccl_result nccl_fault_check(void)
{
    long rank, value;
    for (const char *at = getenv("PTXPACK_EMU_NCCL_FAULT"); at != NULL && *at;) {
        const size_t bytes = strcspn(at, ",");
        if (read_word(at, bytes, &rank, &value) == FAULTS)
            return nccl_error(NCCL_InvalidUsage, "PTXPACK_EMU_NCCL_FAULT has '%.*s', which is not a fault",
                              (int)(bytes < 60 ? bytes : 60), at);
        at += bytes + (at[bytes] == ',');
    }
    return NCCL_Success;
}

uint64_t nccl_fault_begin(int mine, uint64_t n, bool *fails)
{
    uint64_t late = 0;
    long     rank = -1, value = 0;
    for (const char *at = getenv("PTXPACK_EMU_NCCL_FAULT"); at != NULL && *at;) {
        const size_t     bytes = strcspn(at, ",");
        const enum fault fault = read_word(at, bytes, &rank, &value);
        at += bytes + (at[bytes] == ',');
        if (rank != mine)
            continue;
        if (fault == LATE)
            late = (uint64_t)value * 1000;
        else if (fault == DIE && n == (uint64_t)value)
            kill(getpid(), SIGKILL);
        else if (fault == ERROR && n == (uint64_t)value)
            *fails = true;
    }
    return late;
}
