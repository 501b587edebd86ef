/* presence.h - private: which ranks of a group have come to a call that waits for all, for the line about one that has not.
 *
 * NCCL does not say who is missing.  So a rank that has come holds an abstract socket, whose name has the group's id, the number
 * of the call and the rank, and which ends with its process; the others look for it.  Nothing is sent, and ranks of other
 * machines are not seen. */
#ifndef PTXPACK_PARALLEL_PRESENCE_H
#define PTXPACK_PARALLEL_PRESENCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PRESENCE_RANKS = 1024 };

typedef struct presence {
    uint64_t group; /* a digest of its id; 0: there is none, and nobody is seen */
    int32_t  ranks, rank;
    uint32_t call;   /* counts those that wait for all */
    bool     waits;  /* in such a call now */
    int      socket; /* of the last call; -1: none */
    int64_t  look_ms;
    bool     seen[PRESENCE_RANKS]; /* in this call, also if they have gone since */
    bool     near[PRESENCE_RANKS]; /* seen in a call before: of this machine */
} presence;

/* Of a rank of a group, with the bytes of its id; NULL: there is none. */
void presence_init(presence *p, const void *id, size_t bytes, int32_t ranks, int32_t rank);
/* The rank has come to its next call; it has left it; nobody need see it any more. */
void presence_begin(presence *p);
void presence_end(presence *p);
void presence_free(presence *p);
/* Looks for the others, at most every few milliseconds. */
void presence_look(presence *p, int64_t now_ms);
/* "rank 1 was", "ranks 1, 2 and 5 were": who was not seen in this call, after the first one of those of this machine; false: everyone was,
 * or that is not known. */
enum { PRESENCE_TEXT = 128 };
bool presence_missing(const presence *p, char text[PRESENCE_TEXT]);
#endif
