/* module.c - code on the emulated driver: images, modules, libraries, linking, and nvPTXCompiler.
 * The answers in unusual cases were recorded from an H200 (driver 580). */
#include <sys/resource.h>
#include "api_fixture.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

/* ---- modules ------------------------------------------------------------------------------------------- */
static const char bad_line[] =
    ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n    frob;\n    ret;\n}\n";

static unsigned int load_logged(struct emu_api *cu, const char *ptx, char *info, char *error, size_t cap)
{
    unsigned int     options[] = {3, 4, 5, 6, 12, 13};
    void            *values[] = {info, emu_number(cap), error, emu_number(cap), emu_number(1), emu_number(1)};
    struct CUmod_st *module = NULL;
    memset(info, 0x55, cap);
    memset(error, 0x55, cap);
    unsigned int result = cu->cuModuleLoadDataEx(&module, ptx, 6, options, values);
    assert_int_equal((size_t)values[1], strlen(info));
    assert_int_equal((size_t)values[3], strlen(error));
    if (result == 0)
        ok(cu->cuModuleUnload(module));
    return result;
}

TEST(test_images)
{
    struct emu_api  *cu = emu_api_context("", NULL);
    char             info[2048], error[2048], text[512];
    struct CUmod_st *module = NULL;
    static const struct {
        const char  *version, *target;
        unsigned int result;
        const char  *says;
    } heads[] = {
        {"7.8", "sm_75", 0, ""},
        {"8.0", "sm_90a", 0, ""},
        {"9.0", "sm_90", 0, ""},
        {"99.9", "sm_75", 222, "Unsupported .version 99.9; current version is '9.0'"},
        {"9.1", "sm_75", 222, "Unsupported .version 9.1"},
        {"7.8", "sm_90a", 218, "does not support .target sm_90a"},
        {"8.6", "sm_100a", 218, "sm_100a"},
        {"9.0", "sm_120", 218, "sm_120"},
        {"9.0", "sm_80a", 218, "line 2"},
    };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        snprintf(text, sizeof text,
                 ".version %s\n.target %s\n.address_size 64\n.visible .entry k()\n{\n    ret;\n}\n",
                 heads[i].version, heads[i].target);
        answers(load_logged(cu, text, info, error, sizeof info), heads[i].result);
        if (strstr(error, heads[i].says) == NULL)
            fail_msg("%s %s: %s", heads[i].version, heads[i].target, error);
    }
    answers(load_logged(cu, bad_line, info, error, sizeof info), 218);
    assert_non_null(strstr(error, "ptxas application ptx input, line 6; error   : "));
    answers(load_logged(cu, bad_line, info, error, 30), 218); /* cut to the buffer's size */
    assert_int_equal(strlen(error), 29);
    answers(load_logged(cu, "", info, error, sizeof info), 200);
    answers(load_logged(cu, "garbage text\n", info, error, sizeof info), 200);
    answers(load_logged(cu, "\x50\xed\x55\xba\1\2\3", info, error, sizeof info), 200);
    answers(
        load_logged(cu,
                    "\x7f"
                    "ELF\2\1\1\x33\7\0\0\0\0\0\0\0\2\0\xbe\0zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
                    info, error, sizeof info),
        209);
    answers(cu->cuModuleLoadData(&module, NULL), 1);
    answers(cu->cuModuleLoad(&module, "/nonexistent/file"), 301);
    free(cu);
}

/* A driver takes the PTX ISA of its CUDA version and older ones: 9.4 came with CUDA 13.4. */
TEST(test_isa_of_driver)
{
    static const struct {
        const char *driver, *version, *newest; /* of a refused one: what the message names */
    } drivers[] = {
        {"13040", "9.4", NULL},  {"13050", "9.4", NULL},  {"13039", "9.4", "9.3"}, {"13030", "9.4", "9.3"},
        {"13040", "9.5", "9.4"}, {"13030", "9.3", NULL},  {"13029", "9.3", "9.2"}, {"12080", "8.7", NULL},
        {"12079", "8.7", "8.6"}, {"12069", "8.6", "8.5"},
    };
    char info[2048], error[2048], text[256], wanted[128];
    for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        snprintf(text, sizeof text, "PTXPACK_EMU_DRIVER=%s", drivers[i].driver);
        struct emu_api *cu = emu_api_context(text, NULL);
        snprintf(text, sizeof text,
                 ".version %s\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }\n",
                 drivers[i].version);
        answers(load_logged(cu, text, info, error, sizeof info), drivers[i].newest != NULL ? 222 : 0);
        snprintf(wanted, sizeof wanted, "line 1; fatal   : Unsupported .version %s; current version is '%s'",
                 drivers[i].version, drivers[i].newest != NULL ? drivers[i].newest : "");
        if (drivers[i].newest != NULL && strstr(error, wanted) == NULL)
            fail_msg("driver %s, .version %s: %s", drivers[i].driver, drivers[i].version, error);
        free(cu);
    }
}

TEST(test_modules)
{
    struct emu_api   *cu = emu_api_context("", NULL);
    struct CUmod_st  *module = NULL, *of = NULL;
    struct CUfunc_st *function = NULL, *again = NULL, *all[4] = {NULL, NULL, NULL, NULL};
    api_address       address = 0;
    size_t            bytes = 0, offset = 9;
    unsigned int      count = 0, seven = 0;
    const char       *name = NULL;
    int               value = 0;
    ok(cu->cuModuleLoadData(&module, emu_ptx));
    ok(cu->cuModuleGetFunction(&function, module, "store"));
    ok(cu->cuModuleGetFunction(&again, module, "store"));
    assert_ptr_equal(function, again);
    answers(cu->cuModuleGetFunction(&again, module, "stor"), 500);
    answers(cu->cuModuleGetFunction(&again, (struct CUmod_st *)function, "store"), 400);
    ok(cu->cuModuleGetGlobal_v2(&address, &bytes, module, "seven"));
    assert_int_equal(bytes, 4);
    ok(cu->cuMemcpyDtoH_v2(&seven, address, 4));
    assert_int_equal(seven, 7);
    answers(cu->cuModuleGetGlobal_v2(&address, &bytes, module, "eight"), 500);
    answers(cu->cuMemFree_v2(address), 1);
    ok(cu->cuModuleGetFunctionCount(&count, module));
    assert_int_equal(count, 3);
    ok(cu->cuModuleEnumerateFunctions(all, 4, module));
    assert_ptr_equal(all[0], function);
    assert_null(all[3]);
    ok(cu->cuFuncGetName(&name, all[2]));
    assert_string_equal(name, "add");
    ok(cu->cuFuncGetModule(&of, all[2]));
    assert_ptr_equal(of, module);
    ok(cu->cuFuncGetParamInfo(function, 1, &offset, &bytes));
    assert_true(offset == 8 && bytes == 4);
    answers(cu->cuFuncGetParamInfo(function, 2, &offset, &bytes), 1);
    ok(cu->cuFuncGetAttribute(&value, 1, all[2]));
    assert_int_equal(value, 256);
    ok(cu->cuFuncGetAttribute(&value, 8, all[2]));
    assert_int_equal(value, (48 << 10) - 256);
    answers(cu->cuFuncSetAttribute(all[2], 8, (227 << 10) - 255), 1);
    ok(cu->cuFuncSetAttribute(all[2], 8, (227 << 10) - 256));
    answers(cu->cuFuncSetAttribute(all[2], 8, -1), 1);
    answers(cu->cuFuncSetAttribute(all[2], 99, 0), 1);
    answers(cu->cuFuncSetAttribute(all[2], 0, 5), 1);
    ok(cu->cuModuleUnload(module));
    answers(cu->cuModuleUnload(module), 400);
    answers(cu->cuFuncGetAttribute(&value, 0, function), 400);
    free(cu);
}

TEST(test_libraries)
{
    struct CUctx_st  *context = NULL;
    struct emu_api   *cu = emu_api_context("", &context);
    struct CUlib_st  *library = NULL, *of = NULL;
    struct CUkern_st *kernel = NULL, *all[3] = {NULL, NULL, NULL};
    struct CUfunc_st *function = NULL, *other = NULL;
    struct CUmod_st  *module = NULL;
    unsigned int      count = 0;
    int               value = 0;
    /* a real driver is lazy, too */
    ok(cu->cuLibraryLoadData(&library, bad_line, NULL, NULL, 0, NULL, NULL, 0));
    answers(cu->cuLibraryGetKernel(&kernel, library, "k"), 218);
    ok(cu->cuLibraryUnload(library));
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    answers(cu->cuLibraryLoadData(&library, bad_line, NULL, NULL, 0, NULL, NULL, 0), 218);
    unsetenv("CUDA_MODULE_LOADING");
    ok(cu->cuLibraryLoadData(&library, emu_ptx, NULL, NULL, 0, NULL, NULL, 0));
    answers(cu->cuLibraryGetKernel(&kernel, library, "nothing"), 500);
    ok(cu->cuLibraryGetKernel(&kernel, library, "empty"));
    ok(cu->cuLibraryGetKernelCount(&count, library));
    assert_int_equal(count, 3);
    ok(cu->cuLibraryEnumerateKernels(all, 3, library));
    assert_ptr_equal(all[1], kernel);
    ok(cu->cuKernelGetLibrary(&of, kernel));
    assert_ptr_equal(of, library);
    ok(cu->cuKernelGetFunction(&function, kernel));
    ok(cu->cuKernelGetFunction(&other, kernel));
    assert_ptr_equal(function, other);
    ok(cu->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ok(cu->cuLaunchKernel((struct CUfunc_st *)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ok(cu->cuLibraryGetModule(&module, library));
    answers(cu->cuModuleUnload(module), 800);
    ok(cu->cuKernelGetAttribute(&value, 0, kernel, 0));
    assert_int_equal(value, 1024);
    ok(cu->cuCtxCreate_v2(&context, 0, 0)); /* another context has another function */
    ok(cu->cuKernelGetFunction(&other, kernel));
    assert_ptr_not_equal(function, other);
    answers(cu->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 400);
    ok(cu->cuLibraryUnload(library));
    answers(cu->cuKernelGetFunction(&other, kernel), 400);
    answers(cu->cuLaunchKernel(other, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 400);
    free(cu);
}

/* Links PTX and loads the result; then loads it with each of its bytes changed. */
TEST(test_link)
{
    struct emu_api *cu = emu_api_context("PTXPACK_EMU_LOG=/dev/null", NULL);
    char            info[2048] = "", error[2048] = "";
    unsigned int    options[] = {3, 4, 5, 6};
    void           *values[] = {info, emu_number(sizeof info), error, emu_number(sizeof error)}, *cubin = NULL;
    struct CUlinkState_st *link = NULL;
    struct CUmod_st       *module = NULL;
    size_t                 bytes = 0;
    ok(cu->cuLinkCreate_v2(4, options, values, &link));
    answers(cu->cuLinkAddData_v2(link, 1, (void *)(uintptr_t)bad_line, sizeof bad_line, "bad", 0, NULL, NULL),
            218);
    assert_non_null(strstr(error, "line 6; error"));
    answers(cu->cuLinkComplete(link, &cubin, &bytes), 1);
    ok(cu->cuLinkDestroy(link));
    answers(cu->cuLinkDestroy(link), 400);
    values[1] = values[3] = emu_number(sizeof info); /* lengths were written there */
    ok(cu->cuLinkCreate_v2(4, options, values, &link));
    answers(cu->cuLinkAddData_v2(link, 3, (void *)(uintptr_t)emu_ptx, sizeof emu_ptx, "good", 0, NULL, NULL),
            801);
    ok(cu->cuLinkAddData_v2(link, 1, (void *)(uintptr_t)emu_ptx, sizeof emu_ptx, "good", 0, NULL, NULL));
    answers(cu->cuLinkAddData_v2(link, 1, (void *)(uintptr_t)emu_ptx, sizeof emu_ptx, "again", 0, NULL, NULL),
            801);
    assert_non_null(strstr(info, "entry function 'store' for 'sm_90'"));
    assert_non_null(strstr(info, "registers"));
    assert_non_null(strstr(info, "256 bytes smem"));
    ok(cu->cuLinkComplete(link, &cubin, &bytes));
    assert_memory_equal(cubin,
                        "\x7f"
                        "ELF",
                        4);
    unsigned char *copy = (unsigned char *)malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, cubin, bytes);
    ok(cu->cuLinkDestroy(link));
    ok(cu->cuModuleLoadData(&module, copy));
    ok(cu->cuModuleUnload(module));
    for (size_t i = 0; i < bytes; i++) {
        copy[i] ^= (unsigned char)(1u << (i % 8));
        unsigned int result = cu->cuModuleLoadData(&module, copy);
        if (result != 200 && result != 209)
            fail_msg("byte %zu of %zu: %u", i, bytes, result);
        copy[i] ^= (unsigned char)(1u << (i % 8));
    }
    ok(cu->cuModuleLoadData(&module, copy));
    free(copy);
    free(cu);
}

/* ---- the compiler -------------------------------------------------------------------------------------- */
static int compile(struct emu_api *cu, const char *ptx, const char *const *options, int count, char *error,
                   size_t cap, void **program)
{
    struct nvPTXCompiler *compiler = NULL;
    size_t                bytes = 0;
    ok(cu->Create(&compiler, strlen(ptx), ptx));
    int result = cu->Compile(compiler, count, options);
    ok(cu->GetErrorLogSize(compiler, &bytes));
    assert_true(bytes < cap);
    ok(cu->GetErrorLog(compiler, error));
    error[bytes] = '\0';
    *program = NULL;
    if (result == 0) {
        ok(cu->GetCompiledProgramSize(compiler, &bytes));
        *program = malloc(bytes);
        assert_non_null(*program);
        ok(cu->GetCompiledProgram(compiler, *program));
    } else {
        answers(cu->GetCompiledProgramSize(compiler, &bytes), 6);
    }
    ok(cu->Destroy(&compiler));
    assert_null(compiler);
    return result;
}

TEST(test_compiler)
{
    struct emu_api *cu = emu_api_load("");
    static const struct {
        const char *option, *target;
        int         result;
        const char *says;
    } cases[] = {
        {"--gpu-name=sm_90", "sm_75", 0, ""},
        {"-arch=sm_90a", "sm_90a", 0, ""},
        {"--gpu-name=sm_90", "sm_90a", 3, "sm_90a"},
        {"--gpu-name=sm_80", "sm_90", 3, "sm_90"},
        {"--gpu-name=sm_91", "sm_75", 3, "sm_91"},
        {"--frobnicate", "sm_75", 3, "'--frobnicate'"},
        {"-O2", "sm_75", 0, ""},
        {"--maxrregcount=64", "sm_75", 0, ""},
        {"--gpu-name", "sm_75", 3, "gpu-name"},
        {"-v", "sm_75", 0, ""},
    };
    unsigned int major = 0, minor = 9;
    char         error[1024], text[256];
    void        *program = NULL;
    ok(cu->GetVersion(&major, &minor));
    assert_true(major == 13 && minor == 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text,
                 ".version 8.0\n.target %s\n.address_size 64\n.visible .entry k()\n{\n    ret;\n}\n",
                 cases[i].target);
        answers(compile(cu, text, &cases[i].option, 1, error, sizeof error, &program), cases[i].result);
        if (strstr(error, cases[i].says) == NULL)
            fail_msg("%s: %s", cases[i].option, error);
        free(program);
    }
    answers(compile(cu, ".version 99.9\n.target sm_50\n", NULL, 0, error, sizeof error, &program), 7);
    assert_non_null(strstr(error, "current version is '9.0'"));
    answers(cu->Compile((struct nvPTXCompiler *)text, 0, NULL), 1);
    /* Only the GPU that code was compiled for loads it. */
    const char *option = "--gpu-name=sm_80";
    ok(compile(cu, emu_ptx, &option, 1, error, sizeof error, &program));
    struct CUmod_st *module = NULL;
    struct emu_api  *sm_90 = emu_api_context("", NULL);
    answers(sm_90->cuModuleLoadData(&module, program), 209);
    struct emu_api *sm_86 = emu_api_context("PTXPACK_EMU_SM=86", NULL);
    ok(sm_86->cuModuleLoadData(&module, program));
    free(program);
    free(cu);
    free(sm_90);
    free(sm_86);
}

/* ---- memory of the host -------------------------------------------------------------------------------- */
/* A kernel of so many instructions, each with a register of its own. */
static char *long_text(int count)
{
    char  *text = NULL;
    size_t bytes = 0;
    FILE  *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    fprintf(out,
            ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n    .reg .b32 %%r<%d>;\n",
            count);
    for (int i = 0; i < count; i++)
        fprintf(out, "    mov.u32 %%r%d, %d;\n", i, i);
    fprintf(out, "    ret;\n}\n");
    assert_int_equal(fclose(out), 0);
    return text;
}

static size_t address_space(void)
{
    unsigned long pages = 0;
    FILE         *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    assert_int_equal(fscanf(statm, "%lu", &pages), 1);
    fclose(statm);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Whatever allocation fails while a module is loaded, the driver says that memory is out, and not that the text is
 * wrong. */
TEST(test_host_memory)
{
    struct emu_api  *cu = emu_api_context("", NULL);
    char            *text = long_text(20000);
    struct CUmod_st *module = NULL;
    const char      *name = NULL, *sentence = NULL;
    int              out = 0, loaded = 0;
    for (size_t room = 1 << 18; loaded == 0 && room < (size_t)1 << 30; room += room / 4) {
        struct rlimit limit, less;
        assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
        less = limit;
        less.rlim_cur = address_space() + room;
        assert_int_equal(setrlimit(RLIMIT_AS, &less), 0);
        unsigned int result = cu->cuModuleLoadData(&module, text);
        assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
        if (result != 0 && result != 2)
            fail_msg("with %zu bytes of memory: error %u", room, result);
        out += result == 2;
        loaded += result == 0;
    }
    assert_true(out >= 3);
    assert_int_equal(loaded, 1);
    ok(cu->cuGetErrorName(2, &name));
    ok(cu->cuGetErrorString(2, &sentence));
    assert_string_equal(name, "CUDA_ERROR_OUT_OF_MEMORY");
    assert_string_equal(sentence, "out of memory");
    ok(cu->cuModuleUnload(module));
    free(text);
    free(cu);
}

RUN_TESTS(emu_folder_make, emu_folder_remove)
