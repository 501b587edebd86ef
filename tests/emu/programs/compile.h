/* compile.h - makes PTX of a CUDA C++ file with NVRTC, which is looked for in the usual places, or with
 * nvcc. */
#ifndef EMU_PROGRAMS_COMPILE_H
#define EMU_PROGRAMS_COMPILE_H
#include <sys/stat.h>
#include "run.h"

typedef struct nvrtc_handle *nvrtc_program;
static struct {
    int (*CreateProgram)(nvrtc_program *, const char *, const char *, int, const char *const *,
                         const char *const *);
    int (*CompileProgram)(nvrtc_program, int, const char *const *);
    int (*GetPTXSize)(nvrtc_program, size_t *);
    int (*GetPTX)(nvrtc_program, char *);
    int (*GetProgramLogSize)(nvrtc_program, size_t *);
    int (*GetProgramLog)(nvrtc_program, char *);
    int (*DestroyProgram)(nvrtc_program *);
    int (*Version)(int *, int *);
} nvrtc;

static char toolkit[256]; /* folder of the toolkit; empty if there is none */
static bool has_nvrtc, has_nvcc;

static inline void find_toolkit(void)
{
    const char *folders[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda", "/opt/cuda",
                             "/usr/lib/cuda"};
    char path[300];
    struct stat s;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && !toolkit[0]; i++) {
        if (!folders[i])
            continue;
        snprintf(path, sizeof path, "%.250s/include/cuda_fp16.h", folders[i]);
        if (stat(path, &s) == 0)
            snprintf(toolkit, sizeof toolkit, "%.250s", folders[i]);
    }
    snprintf(path, sizeof path, "%.250s/bin/nvcc", toolkit);
    has_nvcc = toolkit[0] && access(path, X_OK) == 0;
}

static inline void *open_nvrtc(void)
{
    static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"};
    char path[400];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/lib64/%s", toolkit, names[i]);
        void *library = toolkit[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (!library)
            library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return NULL;
}

static inline bool nvrtc_symbol(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Returns false when `reason` says why. */
static inline bool find_compilers(const char **reason)
{
    find_toolkit();
    *reason = "no CUDA toolkit's headers";
    if (!toolkit[0])
        return false;
    *reason = "no libnvrtc";
    void *library = open_nvrtc();
    if (!library)
        return false;
#define FIND(name) nvrtc_symbol(library, "nvrtc" #name, &nvrtc.name)
    *reason = "this libnvrtc lacks functions";
    has_nvrtc = FIND(CreateProgram) && FIND(CompileProgram) && FIND(GetPTXSize) && FIND(GetPTX) &&
                FIND(GetProgramLogSize) && FIND(GetProgramLog) && FIND(DestroyProgram) && FIND(Version);
#undef FIND
    return has_nvrtc;
}

static inline char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot read %s", path);
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    char *text = (char *)host((size_t)bytes + 1, 1);
    assert_int_equal(fread(text, 1, (size_t)bytes, file), bytes);
    fclose(file);
    return text;
}

/* Returns PTX, which the caller frees.  `extra`: more options, NULL-terminated. */
static inline char *compile_nvrtc(const char *path, const char *architecture, const char *const *extra)
{
    char options[4][320];
    const char *list[MOST_OPTIONS] = {options[0], options[1], options[2], "--std=c++17", "-default-device",
                                      "--device-int128"};
    int count = 6;
    size_t bytes;
    nvrtc_program program;
    char *source = read_text(path), *text;
    snprintf(options[0], sizeof options[0], "--gpu-architecture=compute_%s", architecture);
    snprintf(options[1], sizeof options[1], "-I%s/include", toolkit);
    snprintf(options[2], sizeof options[2], "-I%s/include/cccl", toolkit);
    while (*extra && count < MOST_OPTIONS)
        list[count++] = *extra++;
    assert_int_equal(nvrtc.CreateProgram(&program, source, path, 0, NULL, NULL), 0);
    if (nvrtc.CompileProgram(program, count, list)) {
        nvrtc.GetProgramLogSize(program, &bytes);
        text = (char *)host(bytes + 1, 1);
        nvrtc.GetProgramLog(program, text);
        fail_msg("%s, compute_%s: NVRTC: %.800s", path, architecture, text);
    }
    assert_int_equal(nvrtc.GetPTXSize(program, &bytes), 0);
    text = (char *)host(bytes + 1, 1);
    assert_int_equal(nvrtc.GetPTX(program, text), 0);
    nvrtc.DestroyProgram(&program);
    free(source);
    return text;
}

static inline char *compile_nvcc(const char *path, const char *architecture, const char *const *extra)
{
    char command[1600], output[128];
    size_t used;
    snprintf(output, sizeof output, "%s/program.ptx", emu_folder);
    used = (size_t)snprintf(command, sizeof command, "'%s/bin/nvcc' -ptx -std=c++17 -arch=compute_%s",
                            toolkit, architecture);
    for (; *extra; extra++)
        used += (size_t)snprintf(command + used, sizeof command - used, " %s", *extra);
    snprintf(command + used, sizeof command - used, " '%s' -o '%s' >'%s/nvcc.log' 2>&1", path, output,
             emu_folder);
    if (system(command) != 0) {
        snprintf(output, sizeof output, "%s/nvcc.log", emu_folder);
        fail_msg("%s: %.800s", command, read_text(output));
    }
    return read_text(output);
}
#endif
