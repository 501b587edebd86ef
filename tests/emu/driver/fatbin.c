/* fatbin.c - fat binaries: which image is taken, the two compressions, and what is refused with which sentence.
 *
 * The recorded files hold the PTX of one kernel for sm_75, sm_90a and sm_100f, and nothing else.  fatbinary 13.0 made
 * them (2026-11-23):
 *
 *   extern "C" __global__ void add(const float *a, const float *b, float *c, int n)
 *   { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }
 *   nvcc -fatbin -compress-mode none|speed|default -gencode arch=compute_75,code=compute_75
 *        -gencode arch=compute_90a,code=compute_90a -gencode arch=compute_100f,code=compute_100f add.cu */
#include "api_fixture.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

enum { INFO_LOG = 3, INFO_SIZE, ERROR_LOG, ERROR_SIZE, LINK_FATBIN = 2, ROOM = 8192 };
enum { CONTAINER_HEADER = 16, IMAGE_HEADER = 80, PACKED = 16, GPU = 28 }; /* offsets in the recorded files */

static size_t recorded(const char *kind, unsigned char image[ROOM])
{
    char path[64];
    snprintf(path, sizeof path, "tests/data/emu_fatbin_%s.bin", kind);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    memset(image, 0, ROOM);
    size_t bytes = fread(image, 1, ROOM, f);
    assert_true(bytes > 1000 && bytes < ROOM);
    fclose(f);
    return bytes;
}

static bool has_zstd(void)
{
    void *library = dlopen("libzstd.so.1", RTLD_NOW);
    if (library != NULL)
        dlclose(library);
    return library != NULL;
}

/* `log` gets the information of a loaded image, or the error. */
static unsigned int load(struct emu_api *cu, const void *image, struct CUmod_st **module, char log[ROOM])
{
    char         error[ROOM] = "";
    unsigned int options[] = {INFO_LOG, INFO_SIZE, ERROR_LOG, ERROR_SIZE};
    void        *values[] = {log, emu_number(ROOM), error, emu_number(ROOM)};
    unsigned int result = cu->cuModuleLoadDataEx(module, image, 4, options, values);
    if (result != 0)
        memcpy(log, error, ROOM);
    return result;
}

static void expect(struct emu_api *cu, const void *image, unsigned int result, const char *says)
{
    struct CUmod_st *module = NULL;
    char             log[ROOM];
    answers(load(cu, image, &module, log), result);
    if (strstr(log, says) == NULL)
        fail_msg("'%s' does not say '%s'", log, says);
    if (module != NULL)
        ok(cu->cuModuleUnload(module));
}

/* ---- what is executed ---------------------------------------------------------------------------------- */
static void run_add(struct emu_api *cu, struct CUmod_st *module)
{
    enum { N = 100 };
    float             a[N], b[N], c[N];
    api_address       at[3];
    int               n = N;
    void             *arguments[] = {&at[0], &at[1], &at[2], &n};
    struct CUfunc_st *add = NULL;
    for (int i = 0; i < N; i++)
        a[i] = (float)i, b[i] = 0.5f;
    for (int i = 0; i < 3; i++)
        ok(cu->cuMemAlloc_v2(&at[i], sizeof a));
    ok(cu->cuMemcpyHtoD_v2(at[0], a, sizeof a));
    ok(cu->cuMemcpyHtoD_v2(at[1], b, sizeof b));
    ok(cu->cuModuleGetFunction(&add, module, "add"));
    ok(cu->cuLaunchKernel(add, 2, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL));
    ok(cu->cuMemcpyDtoH_v2(c, at[2], sizeof c));
    for (int i = 0; i < N; i++)
        assert_true(c[i] == (float)i + 0.5f);
    for (int i = 0; i < 3; i++)
        ok(cu->cuMemFree_v2(at[i]));
}

TEST(test_forms)
{
    static const char *const kinds[] = {"plain", "lz4", "zstd"};
    struct emu_api          *cu = emu_api_context("", NULL);
    unsigned char            image[ROOM];
    char                     log[ROOM];
    for (size_t i = 0; i < 3; i++) {
        struct CUmod_st *module = NULL;
        struct CUlib_st *library = NULL;
        recorded(kinds[i], image);
        if (i == 2 && !has_zstd()) {
            expect(cu, image, 200,
                   "libzstd.so.1 is not installed; install it, or build with nvcc --no-compress");
            continue;
        }
        ok(load(cu, image, &module, log));
        assert_non_null(strstr(log, "Compiling entry function 'add' for 'sm_90a'"));
        run_add(cu, module);
        ok(cu->cuModuleUnload(module));
        ok(cu->cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
        ok(cu->cuLibraryGetModule(&module, library));
        run_add(cu, module);
        ok(cu->cuLibraryUnload(library));
        ok(cu->cuModuleLoadFatBinary(&module, image));
        run_add(cu, module);
        ok(cu->cuModuleUnload(module));
    }
    free(cu);
}

/* What the host code of nvcc hands around: a small struct with the address of the container. */
TEST(test_wrapper)
{
    struct emu_api  *cu = emu_api_context("", NULL);
    unsigned char    image[ROOM];
    struct CUmod_st *module = NULL;
    struct {
        uint32_t    magic, version;
        const void *container, *unused;
    } wrapper = {0x466243b1, 1, image, NULL};
    recorded("lz4", image);
    ok(cu->cuModuleLoadData(&module, &wrapper));
    run_add(cu, module);
    free(cu);
}

TEST(test_linked)
{
    struct emu_api        *cu = emu_api_context("", NULL);
    unsigned char          image[ROOM];
    struct CUlinkState_st *link = NULL;
    struct CUmod_st       *module = NULL;
    void                  *cubin = NULL;
    size_t                 bytes = recorded("lz4", image), size = 0;
    ok(cu->cuLinkCreate_v2(0, NULL, NULL, &link));
    answers(cu->cuLinkAddData_v2(link, LINK_FATBIN, image, bytes - 1, "cut", 0, NULL, NULL), 200);
    answers(cu->cuLinkAddData_v2(link, LINK_FATBIN, image, CONTAINER_HEADER - 1, "cut", 0, NULL, NULL), 200);
    ok(cu->cuLinkAddData_v2(link, LINK_FATBIN, image, bytes, "whole", 0, NULL, NULL));
    ok(cu->cuLinkComplete(link, &cubin, &size));
    ok(cu->cuModuleLoadData(&module, cubin));
    run_add(cu, module);
    ok(cu->cuLinkDestroy(link));
    free(cu);
}

/* ---- which image is taken ------------------------------------------------------------------------------ */
TEST(test_choice)
{
    static const struct {
        const char  *settings;
        unsigned int result;
        const char  *says;
    } rows[] = {
        {"PTXPACK_EMU_SM=75", 0, "for 'sm_75'"},   {"PTXPACK_EMU_SM=80", 0, "for 'sm_80'"},
        {"PTXPACK_EMU_SM=90", 0, "for 'sm_90a'"},  {"PTXPACK_EMU_SM=100", 0, "for 'sm_100f'"},
        {"PTXPACK_EMU_SM=120", 0, "for 'sm_120'"}, /* PTX of sm_75 */
    };
    unsigned char image[ROOM];
    recorded("plain", image);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct emu_api *cu = emu_api_context(rows[i].settings, NULL);
        expect(cu, image, rows[i].result, rows[i].says);
        free(cu);
    }
}

/* The image at `index` of a recorded file. */
static unsigned char *image_at(unsigned char *container, int index)
{
    unsigned char *at = container + CONTAINER_HEADER;
    while (index-- > 0)
        at += IMAGE_HEADER + (at[8] | at[9] << 8);
    return at;
}

TEST(test_refusals)
{
    struct emu_api *cu = emu_api_context("PTXPACK_EMU_SM=80", NULL);
    unsigned char   image[ROOM];
    recorded("plain", image);
    image_at(image, 0)[0] = 2;
    expect(cu, image, 209,
           "the fat binary holds machine code of sm_75, PTX of sm_90a, PTX of sm_100f, but no PTX "
           "that sm_80 could run; give it PTX: nvcc -gencode arch=compute_75,code=compute_75");
    image_at(image, 0)[0] = 7; /* of an unknown kind */
    expect(cu, image, 209, "holds PTX of sm_90a, PTX of sm_100f, but no PTX");
    image[8] = 0, image[9] = 0; /* no images at all */
    expect(cu, image, 209, "the fat binary holds nothing, but no PTX");
    recorded("plain", image);
    image[4] = 2; /* another version */
    expect(cu, image, 200, "the fat binary is damaged");
    recorded("plain", image);
    image_at(image, 2)[9] ^= 0x7f; /* longer than the container */
    expect(cu, image, 200, "the fat binary is damaged");
    recorded("plain", image);
    memset(image_at(image, 0) + IMAGE_HEADER, ' ', 64); /* no .version */
    expect(cu, image, 200, "neither PTX, nor a fat binary, nor machine code");
    expect(
        cu,
        "\x7f"
        "ELF\2\1\1\x41\7\0\0\0\0\0\0\0\2\0\xbe\0zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
        209,
        "the image is a GPU's machine code (a cubin), which cannot be executed here; give it PTX: nvcc "
        "-gencode "
        "arch=compute_75,code=compute_75, nvrtcGetPTX instead of nvrtcGetCUBIN, numba-cuda without nvJitLink, "
        "CuPy with CUPY_COMPILE_WITH_PTX=1");
    free(cu);
}

static void read_file(const char *path, char text[ROOM])
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, ROOM - 1, f) > 0);
    fclose(f);
}

/* A caller without an error log finds the sentence where reports go. */
TEST(test_report)
{
    char             settings[128], path[80], text[ROOM] = "";
    unsigned char    image[ROOM];
    struct CUmod_st *module = NULL;
    snprintf(path, sizeof path, "%s/report", emu_folder);
    snprintf(settings, sizeof settings, "PTXPACK_EMU_SM=75 PTXPACK_EMU_LOG=%s", path);
    struct emu_api *cu = emu_api_context(settings, NULL);
    recorded("plain", image);
    image_at(image, 0)[0] = 2;
    expect(cu, image, 209, "but no PTX that sm_75 could run"); /* in the log, and only there */
    answers(cu->cuModuleLoadData(&module, image), 209);
    read_file(path, text);
    assert_int_equal(strncmp(text, "ptxpack-emu: the fat binary holds machine code of sm_75", 55), 0);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
    free(cu);
}

/* NVIDIA's runtime asks for this table, and ends without it; one line says why, however often it asks. */
TEST(test_runtime)
{
    static const unsigned char id[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                         0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
    char                       settings[128], path[80], text[ROOM] = "";
    const void                *table = settings;
    snprintf(path, sizeof path, "%s/runtime", emu_folder);
    snprintf(settings, sizeof settings, "PTXPACK_EMU_LOG=%s", path);
    struct emu_api *cu = emu_api_load(settings);
    for (int i = 0; i < 2; i++)
        answers(cu->cuGetExportTable(&table, (const struct CUuuid_st *)(const void *)id), 500);
    assert_null(table);
    read_file(path, text);
    assert_int_equal(strncmp(text, "ptxpack-emu: this program contains NVIDIA's CUDA runtime (cudart)", 65), 0);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    free(cu);
}

/* ---- damage -------------------------------------------------------------------------------------------- */
/* Whatever byte of LZ4 data changes: it is refused, or makes another text, which loads or not. */
TEST(test_damaged_lz4)
{
    struct emu_api *cu = emu_api_context("PTXPACK_EMU_SM=75", NULL);
    unsigned char   image[ROOM];
    char            log[ROOM];
    unsigned int    refused = 0;
    recorded("lz4", image);
    unsigned char *first = image_at(image, 0);
    const size_t   packed = first[PACKED] | (size_t)first[PACKED + 1] << 8;
    for (size_t i = 0; i < packed; i++) {
        struct CUmod_st *module = NULL;
        unsigned char   *at = first + IMAGE_HEADER + i;
        *at ^= 0xff;
        unsigned int result = load(cu, image, &module, log);
        *at ^= 0xff;
        if (result != 0 && result != 200 && result != 218 && result != 222)
            fail_msg("byte %zu: error %u", i, result);
        refused += result == 200;
        if (result == 0)
            ok(cu->cuModuleUnload(module));
    }
    assert_true(refused > 50);
    first[PACKED]--; /* cut */
    expect(cu, image, 200, "the fat binary is damaged");
    free(cu);
}

RUN_TESTS(emu_folder_make, emu_folder_remove)
