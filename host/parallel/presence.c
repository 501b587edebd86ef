/* presence.c - which ranks have come to a call: sockets of Linux's abstract names. */
#include "presence.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { LOOK_EVERY_MS = 5, NAMED = 8 /* of the missing ranks */ };

void presence_init(presence *p, const void *id, size_t bytes, int32_t ranks, int32_t rank)
{
    *p = (presence){.group = id != NULL ? XXH64(id, bytes, 0) : 0, .ranks = ranks, .rank = rank, .socket = -1};
}

/* The name begins with a zero: no file has it. */
static socklen_t name_of(const presence *p, int32_t rank, uint32_t call, struct sockaddr_un *name)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "ptxpack-group-%016llx-%u-%d",
                                (unsigned long long)p->group, (unsigned)call, (int)rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int open_socket(void) { return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); }

void presence_free(presence *p)
{
    if (p->socket >= 0)
        close(p->socket);
    p->socket = -1;
}

void presence_begin(presence *p)
{
    struct sockaddr_un name;
    presence_free(p);
    p->call++;
    p->look_ms = 0;
    memset(p->seen, 0, sizeof p->seen);
    p->seen[p->rank] = true;
    p->socket = p->group != 0 ? open_socket() : -1;
    const socklen_t bytes = name_of(p, p->rank, p->call, &name);
    if (p->socket >= 0 && bind(p->socket, (const struct sockaddr *)&name, bytes) != 0)
        presence_free(p);
    p->waits = p->socket >= 0;
}

/* Another rank may be in the next call already, but in none after that. */
static bool is_there(const presence *p, int probe, int32_t rank)
{
    struct sockaddr_un name;
    socklen_t          bytes = name_of(p, rank, p->call, &name);
    if (connect(probe, (const struct sockaddr *)&name, bytes) == 0)
        return true;
    bytes = name_of(p, rank, p->call + 1, &name);
    return connect(probe, (const struct sockaddr *)&name, bytes) == 0;
}

static void look(presence *p)
{
    const int probe = open_socket();
    for (int32_t rank = 0; rank < p->ranks && probe >= 0; rank++)
        p->seen[rank] = p->seen[rank] || is_there(p, probe, rank);
    if (probe >= 0)
        close(probe);
}

void presence_look(presence *p, int64_t now_ms)
{
    if (!p->waits || now_ms < p->look_ms)
        return;
    p->look_ms = now_ms + LOOK_EVERY_MS;
    look(p);
}

/* All who have come are there until their next call. */
void presence_end(presence *p)
{
    if (p->waits)
        look(p);
    for (int32_t rank = 0; rank < p->ranks && p->waits; rank++)
        p->near[rank] = p->near[rank] || p->seen[rank];
    p->waits = false;
}

static bool is_missing(const presence *p, int32_t rank)
{
    return p->waits && !p->seen[rank] && (p->call == 1 || p->near[rank]);
}

bool presence_missing(const presence *p, char text[PRESENCE_TEXT])
{
    int32_t missing = 0, named = 0;
    size_t  at;
    for (int32_t rank = 0; rank < p->ranks; rank++)
        missing += is_missing(p, rank);
    if (missing == 0)
        return false;
    at = (size_t)snprintf(text, PRESENCE_TEXT, "rank%s", missing > 1 ? "s" : "");
    for (int32_t rank = 0; rank < p->ranks && named < NAMED; rank++)
        if (is_missing(p, rank)) {
            const char *before = named == 0 ? " " : named + 1 == missing ? " and " : ", ";
            at += (size_t)snprintf(text + at, PRESENCE_TEXT - at, "%s%d", before, (int)rank);
            named++;
        }
    if (missing > named)
        at += (size_t)snprintf(text + at, PRESENCE_TEXT - at, " and %d more", (int)(missing - named));
    snprintf(text + at, PRESENCE_TEXT - at, missing > 1 ? " were" : " was");
    return true;
}
