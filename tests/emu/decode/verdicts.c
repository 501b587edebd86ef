/* verdicts.c - what the emulated driver's assembler accepts and refuses, against what ptxas did.
 *
 *   verdicts [FILE...]           compare with the recorded verdicts (the default: tests/data/emu_verdicts*.txt)
 *   verdicts --print [FILE...]   print the assembler's own verdict and message for each instruction
 *
 * A FILE has a frame, sections and instructions:
 *
 *   < text           in front of every instruction; with "<8.3 text" only from that .version on
 *   > text           behind every instruction
 *   [90a 8.7]        the .target and .version of what follows
 *   + add ...;       ptxas accepts it
 *   - add ...;       ptxas refuses it
 *   +! or -!         the same, but the emulated driver is known to disagree (tools/emu/README.md)
 *
 * Of what ptxas accepts, and of what it refuses, the emulator must treat 99 % alike; the instructions on which they
 * differ must be those with a mark. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The PTX compiler that the emulated driver exports. */
struct nvPTXCompiler;
int nvPTXCompilerCreate(struct nvPTXCompiler **compiler, size_t bytes, const char *ptx);
int nvPTXCompilerCompile(struct nvPTXCompiler *compiler, int count, const char *const *options);
int nvPTXCompilerGetErrorLogSize(struct nvPTXCompiler *compiler, size_t *bytes);
int nvPTXCompilerGetErrorLog(struct nvPTXCompiler *compiler, char *log);
int nvPTXCompilerDestroy(struct nvPTXCompiler **compiler);

enum { TEXT = 1 << 15, FRAMES = 32, SHOWN = 4000 };

static struct {
    double      since;
    const char *text;
} before[FRAMES];
static const char  *after[FRAMES];
static int          before_count, after_count;
static char         target[16], version[8];
static unsigned int asked[2], alike[2], wrong; /* by the verdict of ptxas: refused, accepted */

static bool compiles(const char *text, size_t bytes, char *log, size_t cap)
{
    struct nvPTXCompiler *compiler = NULL;
    size_t                said = 0;
    char                  option[32];
    const char *const     options[] = {option};
    snprintf(option, sizeof option, "--gpu-name=sm_%s", target);
    if (nvPTXCompilerCreate(&compiler, bytes, text) != 0)
        exit(1);
    const bool compiled = nvPTXCompilerCompile(compiler, 1, options) == 0;
    nvPTXCompilerGetErrorLogSize(compiler, &said);
    if (said < cap)
        nvPTXCompilerGetErrorLog(compiler, log);
    log[said < cap ? said : 0] = '\0';
    nvPTXCompilerDestroy(&compiler);
    log[strcspn(log, "\n")] = '\0';
    return compiled;
}

static bool accepts(const char *instruction, char *log, size_t cap)
{
    static char text[TEXT];
    int n = snprintf(text, sizeof text, ".version %s\n.target sm_%s\n.address_size 64\n", version, target);
    for (int i = 0; i < before_count; i++)
        if (strtod(version, NULL) >= before[i].since)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s\n", before[i].text);
    n += snprintf(text + n, sizeof text - (size_t)n, "%s\n", instruction);
    for (int i = 0; i < after_count; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s\n", after[i]);
    return compiles(text, (size_t)n, log, cap);
}

static void compare(const char *line, bool print)
{
    char        log[1024] = "";
    const bool  wanted = line[0] == '+', marked = line[1] == '!';
    const char *instruction = line + (marked ? 3 : 2);
    const bool  accepted = accepts(instruction, log, sizeof log);
    asked[wanted]++;
    alike[wanted] += accepted == wanted;
    if (print)
        printf("%c %s\t%s\n", accepted ? '+' : '-', instruction, log);
    else if ((accepted == wanted) == marked && wrong++ < SHOWN)
        fprintf(stderr, "sm_%s, %s: %s\n    %s%s\n", target, version, instruction,
                accepted == wanted ? "the mark says that verdicts differ, but they agree"
                : wanted           ? "ptxas accepts it: "
                                   : "ptxas refuses it",
                accepted == wanted ? "" : log);
}

static void read_line(char *line, bool print)
{
    char *rest = line + 1;
    if (*line == '<' && before_count < FRAMES) {
        before[before_count].since = *rest == ' ' ? 0 : strtod(rest, &rest);
        before[before_count++].text = rest;
    } else if (*line == '>' && after_count < FRAMES)
        after[after_count++] = rest;
    else if (*line == '[')
        sscanf(line, "[%15s %7[^]]", target, version);
    else if (*line == '+' || *line == '-')
        compare(line, print);
}

/* The text stays in memory: the frames point to it. */
static bool read_file(const char *path, bool print)
{
    char *text = NULL;
    FILE *file = fopen(path, "r");
    if (file == NULL || getdelim(&text, &(size_t){0}, '\0', file) < 0) {
        fprintf(stderr, "%s cannot be read\n", path);
        return false;
    }
    fclose(file);
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        read_line(line, print);
    }
    return true;
}

int main(int argc, char **argv)
{
    static const char *const recorded[] = {"tests/data/emu_verdicts.txt", "tests/data/emu_verdicts_kinds.txt",
                                           "tests/data/emu_verdicts_fragments.txt"};
    const bool               print = argc > 1 && strcmp(argv[1], "--print") == 0;
    const int                given = argc - 1 - print;
    for (int i = 0; i < (given ? given : 3); i++)
        if (!read_file(given ? argv[1 + print + i] : recorded[i], print))
            return 1;
    if (!print)
        printf("of %u accepted by ptxas, %u are accepted; of %u refused, %u are refused; %u surprises\n",
               asked[1], alike[1], asked[0], alike[0], wrong);
    bool well = wrong == 0 && asked[0] > 0 && asked[1] > 0;
    for (int i = 0; i < 2; i++)
        well = well && alike[i] * 100ull >= asked[i] * 99ull;
    return print || well ? 0 : 1;
}
