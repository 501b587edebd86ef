/* fuzz.c - hostile kernels on the emulated GPU: every load and every run ends, with a status and a line.
 *
 *   fuzz [FILE...]     run these files unchanged; without files, run texts made from tests/bad/ by exchanging lines,
 *                      words and numbers, as many as PTXPACK_FUZZ_RUNS says, from PTXPACK_TEST_SEED
 *
 * The program is meant for the sanitizers: without them it fails only if it crashes or never ends. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/emu/run/grid.h"
#include "tools/emu/machine/arena.h"
#include "tools/emu/machine/settings.h"

enum { MOST_FILES = 256, MAX_TEXT = 1 << 16, MOST_WORDS = 1 << 15, BUFFER = 1 << 16, BUDGET = 20000 };

static char               *files[MOST_FILES], *words[MOST_WORDS];
static int                 file_count, word_count;
static struct emu_settings settings;
static uint64_t            buffer, random_bits = 1;
static long                loaded, ran, clean, found;

static uint32_t draw(uint32_t below)
{
    random_bits ^= random_bits << 13;
    random_bits ^= random_bits >> 7;
    random_bits ^= random_bits << 17;
    return (uint32_t)(random_bits >> 33) % below;
}

/* ---- running -------------------------------------------------------------------------------------- */
static void run_entry(struct emu_function *f)
{
    static unsigned char parameters[32768];
    struct emu_launch    launch = {.entry = f,
                                   .grid = {1 + draw(3), 1, 1},
                                   .block = {32 * (1 + draw(4)), 1, 1},
                                   .dynamic_shared = 4096,
                                   .parameters = parameters};
    memset(parameters, 0, sizeof parameters);
    for (uint32_t i = 0; i < f->parameter_count; i++)
        if (f->parameters[i].bytes == 8)
            memcpy(parameters + f->parameters[i].offset, &buffer, 8);
    f->max_dynamic_shared = 4096;
    if (emu_launch_check(&settings, &launch) != 0)
        return;
    ran++;
    clean += emu_launch_run(&settings, &launch) == 0;
}

static void run_text(const char *text, size_t bytes)
{
    static char        said[1 << 16];
    struct ptx_errors  errors = {.text = said, .cap = sizeof said, .most = PTX_ERRORS};
    unsigned int       result = 0, lines = 1;
    struct emu_module *m = emu_module_load(&settings, text, bytes, true, NULL, &result, &errors);
    if (m == NULL) {
        for (const char *at = said; (at = strchr(at, '\n')) != NULL; at++)
            lines++;
        found += errors.count;
        if (result == 0 || *said == '\0' || errors.kept == 0 || errors.kept > errors.count ||
            lines != errors.kept) {
            fprintf(stderr, "fuzz_emu: refused with status %u and '%s'\n%.*s\n", result, said, (int)bytes,
                    text);
            abort();
        }
        return;
    }
    loaded++;
    for (uint32_t i = 0; i < m->function_count; i++)
        if (m->functions[i].text->is_entry && m->functions[i].text->has_body)
            run_entry(&m->functions[i]);
    emu_module_unload(m);
}

/* ---- texts ---------------------------------------------------------------------------------------- */
static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = (char *)calloc(1, MAX_TEXT);
    if (f == NULL || text == NULL || fread(text, 1, MAX_TEXT - 1, f) == 0) {
        fprintf(stderr, "fuzz_emu: cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    return text;
}

static bool in_word(char c)
{
    return c == '_' || c == '%' || c == '$' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
}

static void collect_words(const char *text)
{
    while (*text != '\0' && word_count < MOST_WORDS) {
        size_t length = 0;
        while (in_word(text[length]))
            length++;
        if (length > 0)
            words[word_count++] = strndup(text, length);
        text += length > 0 ? length : 1;
    }
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void read_folder(const char *folder)
{
    DIR           *d = opendir(folder);
    struct dirent *entry;
    char          *names[MOST_FILES];
    while (d != NULL && (entry = readdir(d)) != NULL && file_count < MOST_FILES)
        if (strstr(entry->d_name, ".ptx") != NULL)
            names[file_count++] = strdup(entry->d_name);
    if (file_count == 0) {
        fprintf(stderr, "fuzz_emu: %s has no .ptx files (run it in the project's folder)\n", folder);
        exit(1);
    }
    closedir(d);
    qsort(names, (size_t)file_count, sizeof names[0], by_name); /* the same from run to run */
    for (int i = 0; i < file_count; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        free(names[i]);
        files[i] = read_file(path);
        collect_words(files[i]);
    }
}

static size_t replace(char *text, size_t at, size_t gone, const char *piece, size_t length)
{
    size_t size = strlen(text);
    if (size - gone + length >= MAX_TEXT)
        return size;
    memmove(text + at + length, text + at + gone, size - at - gone + 1);
    memcpy(text + at, piece, length);
    return size - gone + length;
}

static void exchange_word(char *text)
{
    static const char *const numbers[] = {"0",    "1",    "2",     "3",          "4",          "7",   "8",
                                          "16",   "31",   "32",    "33",         "64",         "128", "255",
                                          "1024", "4095", "65536", "0x7fffffff", "0xffffffff", "-1",  "-8"};
    size_t                   at = draw((uint32_t)strlen(text)), end;
    while (at > 0 && in_word(text[at - 1]))
        at--;
    for (end = at; in_word(text[end]);)
        end++;
    const char *word = words[draw((uint32_t)word_count)];
    if (end > at && text[at] >= '0' && text[at] <= '9' && draw(4))
        word = numbers[draw(sizeof numbers / sizeof numbers[0])];
    if (end > at)
        replace(text, at, end - at, word, strlen(word));
}

/* Removes a line, doubles it, or exchanges it with the next one. */
static void shuffle_line(char *text)
{
    size_t at = draw((uint32_t)strlen(text)), end, next;
    while (at > 0 && text[at - 1] != '\n')
        at--;
    end = at + strcspn(text + at, "\n") + 1;
    if (end >= strlen(text))
        return;
    next = end + strcspn(text + end, "\n") + 1;
    char *line = strndup(text + at, end - at);
    switch (draw(3)) {
    case 0:
        replace(text, at, end - at, "", 0);
        break;
    case 1:
        replace(text, at, 0, line, end - at);
        break;
    default:
        if (next < strlen(text) && next - end + end - at < MAX_TEXT) {
            replace(text, next, 0, line, end - at);
            replace(text, at, end - at, "", 0);
        }
    }
    free(line);
}

int main(int argc, char **argv)
{
    static char text[MAX_TEXT];
    const char *seed = getenv("PTXPACK_TEST_SEED"), *runs = getenv("PTXPACK_FUZZ_RUNS");
    long        count = runs != NULL ? atol(runs) : 4000;
    char        line[256];
    setenv("PTXPACK_EMU_LOG", "/dev/null", 1);
    setenv("PTXPACK_EMU_MEMORY", "256M", 1);
    setenv("PTXPACK_EMU_SM", "90", 1);
    if (!emu_settings_read(&settings, line, sizeof line) || !emu_arena_open(settings.memory_bytes))
        return fprintf(stderr, "fuzz_emu: %s\n", line), 1;
    settings.budget = BUDGET;
    buffer = emu_arena_alloc(BUFFER, EMU_MEMORY_DEVICE, NULL, NULL);
    emu_arena_define(buffer, BUFFER, true);
    for (int i = 1; i < argc; i++) {
        char *given = read_file(argv[i]);
        run_text(given, strlen(given));
        free(given);
    }
    if (argc > 1)
        return 0;
    read_folder("tests/bad");
    random_bits = seed != NULL && strtoull(seed, NULL, 0) ? strtoull(seed, NULL, 0) : 20261120;
    printf("fuzz_emu: %ld texts of %d files, seed %llu\n", count, file_count, (unsigned long long)random_bits);
    fflush(stdout);
    for (long i = 0; i < count; i++) {
        strcpy(text, files[draw((uint32_t)file_count)]);
        for (uint32_t n = 1 + draw(4); n > 0; n--)
            draw(3) ? exchange_word(text) : shuffle_line(text);
        settings.async_policy = (enum emu_async_policy)draw(3);
        settings.seed = draw(1000);
        run_text(text, strlen(text));
    }
    printf("fuzz_emu: %ld loaded, %ld launched, %ld judged clean; %ld errors in the others\n", loaded, ran,
           clean, found);
    return loaded < count / 50 || clean == 0; /* the test is useless if almost nothing runs */
}
