/* texts.c - runs small kernels, written as text, on the emulated GPU: checks what they compute, and what is
 * reported.
 *
 *   texts [FILE...]           run all cases of the files (the default: tests/emu/<room>/<name>.txt)
 *   texts --update FILE...    record the present digests of the buffers
 *
 * A FILE has sections, which begin with a line [title option...]; the options are those of read_option.
 *
 *   [+ option...]     a section that keeps the lines, names and options of the section before
 *   < text            lines in front of every case of the section
 *   > text            lines behind every case
 *   NAME = text       $NAME means this text
 *   @ option...       options of the next case only
 *   body => 0 0f3a12  a case: the CUresult and, for 0, a digest of all buffers; nothing may be reported
 *   body => 719 race  for others, what the report or the refusal must contain; " & " separates several parts
 *
 * The body may have several lines before the one with the arrow.  With `policies` a case runs with asynchronous
 * operations as early and as late as they may be, and in random order; with `seeds=N` for each of N seeds. */
#include <ctype.h>
#include <glob.h>
#include <stdbool.h>
#include "tests/support/emu_test.h"
#include "tools/emu/async/tensor_map.h"

enum { MOST_BUFFERS = 8, MOST_MACROS = 16, TEXT = 1 << 16 };

struct options {
    int                sm, policies, seeds, host_threads;
    char               version[8], target[8]; /* of the PTX */
    uint32_t           grid[2], block[3], cluster[2], shared;
    unsigned long long budget;
    int                policy; /* the only one; -1: every one, or random order */
    bool               conflicts, unjudged;
    char               buffers[64];
};
static struct options section, here; /* of the section; of the next case */
static char           before[TEXT], after[TEXT], body[TEXT], kernel[2 * TEXT];
static struct {
    char name[16], text[512];
} macros[MOST_MACROS];
static int          macro_count;
static unsigned int case_count, wrong_count;
static FILE        *updated; /* the new file */

/* ---- one case ------------------------------------------------------------------------------------------ */
struct buffer {
    uint64_t address, bytes;
    bool     is_compared;
};

static uint64_t digest_of(const struct buffer *buffers, int count)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    for (int i = 0; i < count; i++) {
        const unsigned char *bytes = (const unsigned char *)(uintptr_t)buffers[i].address;
        for (uint64_t k = 0; buffers[i].is_compared && k < buffers[i].bytes; k++)
            hash = (hash ^ bytes[k]) * 0x100000001b3ull;
    }
    return hash >> 32 ^ (hash & 0xffffffffu);
}

/* The map of a tensor of 64 rows of 256 bytes, in boxes of 8 rows of 64 bytes. */
static void write_map(uint64_t to, uint64_t tensor)
{
    unsigned char  map[EMU_TENSOR_MAP_BYTES];
    const uint64_t dims[] = {256, 64}, strides[] = {256};
    const uint32_t box[] = {64, 8}, steps[] = {1, 1};
    if (emu_tensor_map_encode(map, 0, 2, tensor, dims, strides, box, steps, 0, 0, 0, 0) != 0)
        abort();
    emu_write(to, map, sizeof map);
}

/* "in" and a size: words that differ; "out": 0xee; "zero": zeros; "none": undefined; "same": the buffer before.
 * "zero62of64": the rest is undefined.  "map128": a map of the buffer before.  A number: a parameter's value. */
static int make_buffers(const char *list, struct buffer buffers[MOST_BUFFERS])
{
    int  count = 0;
    char copy[64];
    snprintf(copy, sizeof copy, "%s", list);
    for (char *word = strtok(copy, ","); word != NULL && count < MOST_BUFFERS;
         word = strtok(NULL, ","), count++) {
        struct buffer *b = &buffers[count];
        if (strcmp(word, "same") == 0) {
            *b = (struct buffer){buffers[count - 1].address, 0, false};
            continue;
        }
        const size_t letters = strcspn(word, "0123456789");
        if (letters == 0) {
            *b = (struct buffer){strtoull(word, NULL, 10), 0, false};
            continue;
        }
        const char *of = strstr(word, "of");
        b->bytes = strtoull(word + letters, NULL, 10);
        b->address = emu_buffer(of != NULL ? strtoull(of + 2, NULL, 10) : b->bytes);
        b->is_compared = *word != 'n' && *word != 'm';
        if (*word == 'm')
            write_map(b->address, buffers[count - 1].address);
        if (!b->is_compared)
            continue;
        unsigned char *bytes = (unsigned char *)(uintptr_t)b->address;
        memset(bytes, *word == 'o' ? 0xee : 0, b->bytes);
        for (uint32_t i = 0; *word == 'i' && i < b->bytes / 4; i++)
            memcpy(bytes + 4 * i, &(uint32_t){i * 2654435761u + 12345}, 4);
        emu_arena_define(b->address, b->bytes, true);
    }
    return count;
}

static unsigned int run_once(enum emu_async_policy policy, unsigned int seed, uint64_t *digest)
{
    struct buffer     buffers[MOST_BUFFERS];
    uint64_t          words[MOST_BUFFERS] = {0};
    struct emu_launch launch = {.grid = {here.grid[0], here.grid[1], 1},
                                .block = {here.block[0], here.block[1], here.block[2]},
                                .cluster = {here.cluster[0], here.cluster[1], 1},
                                .dynamic_shared = here.shared,
                                .parameters = words};
    emu_machine(here.sm != 0 ? here.sm : atoi(here.target));
    emu_test_settings.async_policy = policy;
    emu_test_settings.seed = seed;
    emu_test_settings.host_threads = here.host_threads;
    emu_test_settings.budget = here.budget;
    emu_test_settings.judge |= here.conflicts ? (unsigned int)EMU_JUDGE_CONFLICT : 0;
    if (here.unjudged)
        emu_test_settings.judge = 0;
    const int count = make_buffers(here.buffers, buffers);
    for (int i = 0; i < count; i++)
        words[i] = buffers[i].address;
    const unsigned int result = emu_run_shape(kernel, &launch, "k");
    *digest = digest_of(buffers, count);
    return result;
}

/* Whether the case ended as "0 0f3a12" or "719 race & thread (3,0,0)" says. */
static bool ended_well(unsigned int result, uint64_t digest, const char *wanted)
{
    char       *rest, copy[512];
    const char *log = emu_log();
    if (result != strtoul(wanted, &rest, 10))
        return false;
    if (result == 0)
        return *log == '\0' && digest == strtoull(rest, NULL, 16);
    snprintf(copy, sizeof copy, "%s", rest + strspn(rest, " "));
    for (char *part = copy, *next; part != NULL; part = next) {
        next = strstr(part, " & ");
        if (next != NULL) {
            *next = '\0';
            next += 3;
        }
        if (strstr(log, part) == NULL)
            return false;
    }
    return true;
}

static void build_kernel(void)
{
    char  *to = kernel;
    size_t room = sizeof kernel;
    int    n = snprintf(to, room, ".version %s\n.target sm_%s\n.address_size 64\n%s", here.version, here.target,
                        before);
    for (const char *from = body; *from != '\0'; from++) {
        int found = 0;
        if (*from == '$')
            while (found < macro_count &&
                   strncmp(from + 1, macros[found].name, strlen(macros[found].name)) != 0)
                found++;
        if (*from == '$' && found < macro_count) {
            n += snprintf(to + n, room - (size_t)n, "%s", macros[found].text);
            from += strlen(macros[found].name);
        } else
            to[n++] = *from;
    }
    snprintf(to + n, room - (size_t)n, "%s", after);
}

static void run_case(const char *path, const char *wanted)
{
    uint64_t     digest = 0;
    unsigned int result = 0;
    bool         well = true;
    build_kernel();
    const int first = here.policy >= 0 ? here.policy : here.policies ? 0 : EMU_POLICIES - 1;
    const int last = here.policy >= 0 ? here.policy : EMU_POLICIES - 1;
    for (int policy = first; policy <= last && well; policy++)
        for (int seed = 1; seed <= here.seeds && well; seed++) {
            result = run_once(emu_policies[policy], (unsigned int)seed, &digest);
            well = updated != NULL || ended_well(result, digest, wanted);
        }
    if (!well && wrong_count++ < 20)
        fprintf(stderr, "%s: wanted %s, got %u %08llx%s%s\nof %s\n", path, wanted, result,
                (unsigned long long)digest, *emu_log() ? "\n" : "", emu_log(), body);
    if (updated != NULL && result == 0)
        fprintf(updated, "=> 0 %08llx\n", (unsigned long long)digest);
    else if (updated != NULL)
        fprintf(updated, "=> %s\n", wanted);
    case_count++;
    *body = '\0';
    here = section;
}

/* ---- files --------------------------------------------------------------------------------------------- */
static bool read_option(struct options *o, const char *word)
{
    const char *value = strchr(word, '=');
    const int   letters = value != NULL ? (int)(value - word) : (int)strlen(word);
    const long  number = value != NULL ? strtol(value + 1, NULL, 10) : 0;
#define IS(name) (letters == (int)sizeof name - 1 && strncmp(word, name, sizeof name - 1) == 0)
    if (IS("sm"))
        o->sm = (int)number; /* the GPU's; without it the target's */
    else if (IS("target"))
        snprintf(o->target, sizeof o->target, "%s", value + 1);
    else if (IS("version"))
        snprintf(o->version, sizeof o->version, "%s", value + 1);
    else if (IS("grid"))
        sscanf(value, "=%ux%u", &o->grid[0], &o->grid[1]);
    else if (IS("cluster"))
        sscanf(value, "=%ux%u", &o->cluster[0], &o->cluster[1]);
    else if (IS("block")) { /* "64", or "5x3x4" */
        o->block[1] = o->block[2] = 1;
        sscanf(value, "=%ux%ux%u", &o->block[0], &o->block[1], &o->block[2]);
    } else if (IS("shared"))
        o->shared = (uint32_t)number; /* dynamic, in bytes */
    else if (IS("seeds"))
        o->seeds = (int)number;
    else if (IS("budget"))
        o->budget = (unsigned long long)number;
    else if (IS("buffers"))
        snprintf(o->buffers, sizeof o->buffers, "%s", value + 1); /* the parameters, see make_buffers */
    else if (IS("policies"))
        o->policies = 1;
    else if (IS("policy"))
        o->policy = (int)number; /* an index of emu_policies */
    else if (IS("unjudged"))
        o->unjudged = true;
    else if (IS("conflicts"))
        o->conflicts = true; /* bank conflicts are reported, too */
    else
        return false;
    return true;
#undef IS
}

static void read_options(struct options *o, const char *line)
{
    char copy[512];
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, "[] "); word != NULL; word = strtok(NULL, "[] "))
        if (!read_option(o, word)) {
            fprintf(stderr, "'%s' is not an option: %s\n", word, line);
            exit(1);
        }
}

static void begin_section(const char *line)
{
    section = (struct options){.version = "8.0",
                               .target = "75",
                               .seeds = 1,
                               .host_threads = 2,
                               .policy = -1,
                               .grid = {1, 1},
                               .block = {32, 1, 1},
                               .budget = 1ull << 33};
    read_options(&section, line + strcspn(line, " ]"));
    here = section;
    *before = *after = *body = '\0';
    macro_count = 0;
}

static bool read_macro(const char *line)
{
    const size_t letters = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    if (letters < 2 || letters >= sizeof macros[0].name || strncmp(line + letters, " = ", 3) != 0 ||
        macro_count == MOST_MACROS)
        return false;
    snprintf(macros[macro_count].name, sizeof macros[0].name, "%.*s", (int)letters, line);
    snprintf(macros[macro_count++].text, sizeof macros[0].text, "%s", line + letters + 3);
    return true;
}

static void append_line(char *to, const char *line, int length)
{
    const size_t n = strlen(to);
    snprintf(to + n, TEXT - n, "%.*s\n", length, line);
}

/* Whether the line belongs to the file's frame, which an update copies. */
static bool read_frame(const char *line)
{
    if (strncmp(line, "[+ ", 3) == 0) {
        read_options(&section, line + 3);
        here = section;
    } else if (*line == '[' && islower((unsigned char)line[1]))
        begin_section(line);
    else if (strncmp(line, "< ", 2) == 0)
        append_line(before, line + 2, (int)strlen(line + 2));
    else if (strncmp(line, "> ", 2) == 0)
        append_line(after, line + 2, (int)strlen(line + 2));
    else if (strncmp(line, "@ ", 2) == 0)
        read_options(&here, line + 2);
    else
        return *line == '#' || *line == '\0' || read_macro(line);
    return true;
}

static void run_file(const char *path, bool update)
{
    char *text = NULL;
    FILE *file = fopen(path, "r");
    if (file == NULL || getdelim(&text, &(size_t){0}, '\0', file) < 0) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    updated = update ? fopen(path, "w") : NULL;
    for (char *line = text, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        *end = '\0';
        char      *arrow = strstr(line, "=> ");
        const bool is_frame = read_frame(line);
        const int  length = arrow != NULL ? (int)(arrow - line) : (int)strlen(line);
        if (updated != NULL)
            fprintf(updated, "%.*s%s", is_frame ? (int)strlen(line) : length, line,
                    is_frame || arrow == NULL ? "\n" : "");
        if (is_frame)
            continue;
        if (length > 0)
            append_line(body, line, length);
        if (arrow != NULL)
            run_case(path, arrow + 3);
    }
    if (updated != NULL)
        fclose(updated);
    free(text);
}

int main(int argc, char **argv)
{
    const bool update = argc > 2 && strcmp(argv[1], "--update") == 0;
    glob_t     found = {0};
    for (int i = update ? 2 : 1; i < argc; i++)
        run_file(argv[i], update);
    if (argc == 1 && glob("tests/emu/*/*.txt", 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            run_file(found.gl_pathv[i], false);
    globfree(&found);
    printf("%u cases, %u wrong\n", case_count, wrong_count);
    return wrong_count != 0 || case_count == 0;
}
