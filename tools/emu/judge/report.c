/* report.c - findings and faults as lines of text. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "judge.h"
#include "report.h"
#include "tools/emu/machine/line.h"

/* The findings of running launches that have been printed. */
struct said {
    const struct emu_grid *grid;
    const struct emu_op   *op;
    enum judge_kind        kind;
    struct said           *next;
};
enum { SAID_BUCKETS = 256 };
static struct {
    pthread_mutex_t lock;
    struct said    *bucket[SAID_BUCKETS];
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- parts of a line ------------------------------------------------------------------------------ */
const char *report_mnemonic(const struct emu_op *op, unsigned int most, char *buf, size_t cap)
{
    const struct ptx_instruction *in = op != NULL ? op->text : NULL;
    size_t                        used;
    if (in == NULL) {
        snprintf(buf, cap, "(no instruction)");
        return buf;
    }
    used = (size_t)snprintf(buf, cap, "%s", in->opcode);
    for (unsigned int i = 0; i < in->modifier_count && i < most && used < cap; i++)
        used += (size_t)snprintf(buf + used, cap - used, ".%s", in->modifiers[i]);
    return buf;
}

const char *report_place(const struct emu_grid *grid, const struct emu_op *op, char *buf, size_t cap)
{
    if (op != NULL && op->text != NULL && grid->module != NULL && grid->module->text != NULL)
        return ptx_place_text(grid->module->text, &op->text->place, buf, cap);
    snprintf(buf, cap, "an unknown place");
    return buf;
}

const char *report_thread(const struct emu_grid *grid, unsigned int thread, char *buf, size_t cap)
{
    const unsigned int x = grid->block[0] ? grid->block[0] : 1, y = grid->block[1] ? grid->block[1] : 1;
    snprintf(buf, cap, "thread (%u,%u,%u)", thread % x, thread / x % y, thread / x / y);
    return buf;
}

static const char *who(const struct emu_warp *w, int lane, char *buf, size_t cap)
{
    const uint32_t *block = w->cta->index;
    size_t          used;
    if (lane < 0)
        snprintf(buf, cap, "warp %u", w->index);
    else
        report_thread(w->grid, emu_thread(w, lane), buf, cap);
    used = strlen(buf);
    snprintf(buf + used, cap - used, " of block (%u,%u,%u)", block[0], block[1], block[2]);
    return buf;
}

/* ---- lines ---------------------------------------------------------------------------------------- */
static void write_all(int fd, const char *text, size_t bytes)
{
    while (bytes) {
        const ssize_t n = write(fd, text, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* nothing can read it any more */
        text += n;
        bytes -= (size_t)n;
    }
}

void report_line(const struct emu_settings *settings, const char *format, ...)
{
    char    text[REPORT_LINE], line[REPORT_LINE + 1];
    size_t  n = (size_t)snprintf(text, sizeof text, "ptxpack-emu: ");
    int     fd = STDERR_FILENO;
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, sizeof text - n, format, args);
    va_end(args);
    n = emu_line_of(text, line, REPORT_LINE);
    line[n++] = '\n';
    if (settings->log_path != NULL)
        fd = open(settings->log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        fd = STDERR_FILENO;
    write_all(fd, line, n);
    if (fd != STDERR_FILENO)
        close(fd);
}

/* `joint` is the text between the thread and the message. */
static void say(struct emu_warp *w, const struct emu_op *op, int lane, const char *kind, const char *joint,
                const char *format, va_list args)
{
    char text[REPORT_LINE], place[REPORT_NAME * 2], mnemonic[REPORT_NAME], thread[REPORT_NAME];
    vsnprintf(text, sizeof text, format, args);
    report_place(w->grid, op, place, sizeof place);
    report_mnemonic(op, ~0u, mnemonic, sizeof mnemonic);
    who(w, lane, thread, sizeof thread);
    report_line(w->grid->settings, "%s: %s: %s: %s%s%s", kind, place, mnemonic, thread, joint, text);
}

/* ---- faults --------------------------------------------------------------------------------------- */
static const char *fault_name(unsigned int result)
{
    switch (result) {
    case 2:
        return "out of memory";
    case 700:
        return "illegal address";
    case 702:
        return "timeout";
    case 715:
        return "illegal instruction";
    case 716:
        return "misaligned address";
    default:
        return "fault";
    }
}

void emu_fault(struct emu_warp *w, const struct emu_op *op, int lane, unsigned int result, const char *format,
               ...)
{
    va_list args;
    w->event = EMU_EVENT_STOP;
    pthread_mutex_lock(&said.lock);
    if (!w->grid->result) {
        w->grid->result = result;
        va_start(args, format);
        say(w, op, lane, fault_name(result), ": ", format, args);
        va_end(args);
    }
    w->grid->stop = true;
    pthread_mutex_unlock(&said.lock);
}

/* ---- findings ------------------------------------------------------------------------------------- */
static struct said **bucket_of(const struct emu_grid *grid, const struct emu_op *op)
{
    const uintptr_t hash = ((uintptr_t)grid >> 4) * 31 + ((uintptr_t)op >> 4);
    return &said.bucket[(hash ^ hash >> 11) % SAID_BUCKETS];
}

/* True the first time.  If memory is out, also later. */
static bool say_now(const struct emu_grid *grid, const struct emu_op *op, enum judge_kind kind)
{
    struct said **bucket = bucket_of(grid, op), *s;
    for (s = *bucket; s != NULL; s = s->next)
        if (s->grid == grid && s->op == op && s->kind == kind)
            return false;
    s = (struct said *)malloc(sizeof *s);
    if (s != NULL) {
        *s = (struct said){grid, op, kind, *bucket};
        *bucket = s;
    }
    return true;
}

/* For one launch; the last line has the total. */
enum { MOST_LINES = 24 };

void judge_find(struct emu_warp *w, const struct emu_op *op, int lane, enum judge_kind kind, const char *format,
                ...)
{
    static const char *const names[] = {"uninitialised", "race",     "proxy",    "async",
                                        "mbarrier",      "deadlock", "conflict", "overread"};
    va_list                  args;
    if (kind != JUDGE_DEADLOCK && !(w->grid->settings->judge & 1u << kind))
        return;
    __atomic_fetch_add(kind == JUDGE_OVERREAD ? &w->grid->notes : &w->grid->findings, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&said.lock);
    if (say_now(w->grid, op, kind) && w->grid->said++ < MOST_LINES) {
        va_start(args, format);
        say(w, op, lane, names[kind], kind == JUDGE_MBARRIER ? ": " : " ", format, args);
        va_end(args);
    }
    pthread_mutex_unlock(&said.lock);
}

void report_grid_end(const struct emu_grid *grid)
{
    unsigned int places = 0;
    pthread_mutex_lock(&said.lock);
    for (int i = 0; i < SAID_BUCKETS; i++)
        for (struct said **at = &said.bucket[i], *s; (s = *at);) {
            if (s->grid != grid) {
                at = &s->next;
                continue;
            }
            places++;
            *at = s->next;
            free(s);
        }
    if (grid->findings + grid->notes) {
        const unsigned int count = grid->findings ? grid->findings : grid->notes;
        report_line(grid->settings, "%s: %u %s%s at %u place%s",
                    grid->entry != NULL ? grid->entry->name : "a kernel", count,
                    grid->findings ? "finding" : "note", count == 1 ? "" : "s", places, places == 1 ? "" : "s");
    }
    pthread_mutex_unlock(&said.lock);
}
