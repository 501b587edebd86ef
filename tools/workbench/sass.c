/* sass.c - machine code: counting instructions in an ELF file, and running a disassembler. */
#include "sass.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loader/inspect.h"

/* ---- counting ------------------------------------------------------------------------------------- */
/* From sm_70 on: the size of an instruction, the mask of its opcode, and two opcodes. */
enum { INSTRUCTION = 16, OPCODE = 0xfff, NOP = 0x918, BRA = 0x947 };

/* NULL if there is no such section, or its content is not in the file. */
static const Elf64_Shdr *section_at(const unsigned char *elf, size_t bytes, size_t index)
{
    Elf64_Ehdr header;
    memcpy(&header, elf, sizeof header);
    size_t at = header.e_shoff + index * sizeof(Elf64_Shdr);
    if (index >= header.e_shnum || header.e_shoff > bytes || at > bytes - sizeof(Elf64_Shdr) || at % 8 != 0)
        return NULL;
    const Elf64_Shdr *s = (const Elf64_Shdr *)(const void *)(elf + at);
    bool inside = s->sh_type != SHT_NOBITS && s->sh_offset <= bytes && s->sh_size <= bytes - s->sh_offset;
    return inside ? s : NULL;
}

static int opcode(const unsigned char *code) { return (code[0] | code[1] << 8) & OPCODE; }

/* Leave out the NOPs at the end, and the branch to itself before them. */
static long count_code(const unsigned char *code, size_t bytes)
{
    const unsigned char *end = code + bytes / INSTRUCTION * INSTRUCTION;
    while (end > code && opcode(end - INSTRUCTION) == NOP)
        end -= INSTRUCTION;
    if (end > code && opcode(end - INSTRUCTION) == BRA)
        end -= INSTRUCTION;
    return (long)((end - code) / INSTRUCTION);
}

long sass_count(const void *cubin, size_t bytes, const char *entry)
{
    const unsigned char *elf = (const unsigned char *)cubin;
    const Elf64_Shdr    *s, *names;
    Elf64_Ehdr           header;
    char                 wanted[1024];
    if (bytes < sizeof header || memcmp(elf, ELFMAG, SELFMAG) != 0 || elf[EI_CLASS] != ELFCLASS64)
        return 0;
    memcpy(&header, elf, sizeof header);
    names = section_at(elf, bytes, header.e_shstrndx);
    snprintf(wanted, sizeof wanted, ".text.%s", entry);
    size_t length = strlen(wanted) + 1;
    for (size_t i = 0; names != NULL && i < header.e_shnum; i++) {
        s = section_at(elf, bytes, i);
        if (s == NULL || s->sh_type != SHT_PROGBITS || s->sh_name >= names->sh_size ||
            names->sh_size - s->sh_name < length ||
            memcmp(elf + names->sh_offset + s->sh_name, wanted, length) != 0)
            continue;
        return count_code(elf + s->sh_offset, s->sh_size);
    }
    return 0;
}

enum { SASS_PATH = 4096 };

/* ---- a disassembler ------------------------------------------------------------------------------- */
/* A ptxpack_find_take: buf of SASS_PATH bytes. */
static bool take_program(const char *path, void *buf)
{
    return access(path, X_OK) == 0 && snprintf((char *)buf, SASS_PATH, "%s", path) < SASS_PATH;
}

static const char *choose_program(char buf[SASS_PATH], char line[SASS_LINE])
{
    const char *named = getenv("PTXPACK_NVDISASM");
    if (named != NULL && *named != '\0') {
        if (take_program(named, buf))
            return buf;
        snprintf(line, SASS_LINE, "PTXPACK_NVDISASM: %.300s: %s", named, strerror(errno));
        return NULL;
    }
    if (ptxpack_find_tool("nvdisasm", take_program, buf) || ptxpack_find_tool("cuobjdump", take_program, buf))
        return buf;
    snprintf(line, SASS_LINE,
             "machine code is shown by nvdisasm or cuobjdump: neither is in PATH, /usr/local/cuda or Python's "
             "packages; "
             "PyPI's nvidia-cuda-nvdisasm has the former, PTXPACK_NVDISASM may name one");
    return NULL;
}

static bool is_cuobjdump(const char *program)
{
    const char *slash = strrchr(program, '/');
    return strncmp(slash != NULL ? slash + 1 : program, "cuobjdump", 9) == 0;
}

/* Print the lines of the section .text.ENTRY (NULL: of all sections) from the output of nvdisasm, which begins each
 * section with a line of dashes. */
static void print_section(FILE *from, const char *entry)
{
    char  *text = NULL, wanted[1024];
    size_t cap = 0;
    bool   inside = entry == NULL;
    snprintf(wanted, sizeof wanted, " .text.%s ", entry != NULL ? entry : "");
    while (getline(&text, &cap, from) >= 0) {
        if (entry != NULL && strncmp(text, "//-----", 7) == 0)
            inside = strstr(text, wanted) != NULL;
        if (inside)
            fputs(text, stdout);
    }
    free(text);
}

/* Run `program` with these words and return a pipe with its output; -1 with *line set if it cannot be run. */
static pid_t start_program(char *const words[], int *output, char line[SASS_LINE])
{
    extern char              **environ;
    int                        ends[2];
    pid_t                      child = -1;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        snprintf(line, SASS_LINE, "pipe: %s", strerror(errno));
        return -1;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int error = posix_spawn(&child, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    *output = ends[0];
    if (error == 0)
        return child;
    close(ends[0]);
    snprintf(line, SASS_LINE, "%.300s: %s", words[0], strerror(error));
    return -1;
}

bool sass_print(int fd, const char *entry, char line[SASS_LINE])
{
    char program[SASS_PATH], file[64], name[1024];
    char code[] = "-c", lines[] = "-g", sass[] = "-sass", function[] = "-fun";
    if (choose_program(program, line) == NULL)
        return false;
    snprintf(file, sizeof file, "/proc/%ld/fd/%d", (long)getpid(), fd);
    snprintf(name, sizeof name, "%s", entry != NULL ? entry : "");
    char *nvdisasm[] = {program, code, lines, file, NULL};
    char *cuobjdump[] = {program, sass, file, entry != NULL ? function : NULL, name, NULL};
    bool  other = is_cuobjdump(program);
    int   output, status = 0;
    pid_t child = start_program(other ? cuobjdump : nvdisasm, &output, line);
    if (child < 0)
        return false;
    FILE *from = fdopen(output, "r");
    if (from != NULL) {
        print_section(from, other ? NULL : entry);
        fclose(from);
    } else {
        close(output);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (from != NULL && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    snprintf(line, SASS_LINE, "%.300s failed", program);
    return false;
}
