/* module.c - modules: loading images, finding functions and variables. */
#include <stdio.h>
#include <stdlib.h>
#include "compile.h"
#include "spare.h"
#include "tools/emu/machine/arena.h"

static void release_module(struct api_handle *h)
{
    struct api_module *m = (struct api_module *)h;
    api_work_ended(h->context); /* what the judge keeps of its kernels names its instructions */
    spare_give(m->code);
    free(m->functions);
}

/* ---- loading ------------------------------------------------------------------------------------------- */
static api_result load(struct api_context *context, const struct compile_image *image,
                       const struct api_jit *jit, struct api_module *module)
{
    struct compile_logs logs;
    unsigned int        result = API_OK;
    module->code = compile_ptx(api_settings(), NULL, image->text, image->bytes, true, context, &result, &logs);
    api_jit_write(jit, &logs);
    compile_logs_free(&logs);
    API_WANT(module->code, result);
    for (uint32_t i = 0; i < module->code->global_count; i++)
        emu_arena_place(module->code->globals[i].address, api_device_bit(context->device));
    module->functions = (struct api_function **)calloc(module->code->function_count + 1u, sizeof(void *));
    return module->functions != NULL ? API_OK : API_OUT_OF_MEMORY;
}

api_result api_module_new(struct api_context *context, const void *image, const struct api_jit *jit,
                          struct api_handle *owner, struct api_module **out)
{
    struct compile_image ptx;
    API_TRY(compile_image_open(image, 0, jit, &ptx));
    struct api_module *m = (struct api_module *)api_handle_new(API_KIND_MODULE, sizeof *m, context, owner,
                                                               release_module);
    api_result         result = m != NULL ? load(context, &ptx, jit, m) : API_OUT_OF_MEMORY;
    compile_image_close(&ptx);
    if (result == API_OK)
        *out = m;
    else if (m != NULL)
        api_handle_delete(&m->handle);
    return result;
}

static api_result load_data(struct api_context *context, struct CUmod_st **out, const void *image,
                            unsigned int count, const unsigned int *options, void **values)
{
    struct api_jit     jit;
    struct api_module *module = NULL;
    API_WANT(out && image, API_INVALID_VALUE);
    API_TRY(api_jit_read(count, options, values, &jit));
    API_TRY(api_module_new(context, image, &jit, NULL, &module));
    *out = (struct CUmod_st *)module;
    return API_OK;
}

api_result api_file_read(const char *path, char **text, size_t *bytes)
{
    FILE      *f = path != NULL ? fopen(path, "rb") : NULL;
    long       size = 0;
    api_result result = API_FILE_NOT_FOUND;
    API_WANT(f, path ? API_FILE_NOT_FOUND : API_INVALID_VALUE);
    *text = NULL;
    if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 && size < 1 << 30 && fseek(f, 0, SEEK_SET) == 0) {
        *text = (char *)calloc(1, (size_t)size + 1);
        *bytes = (size_t)size;
        if (*text == NULL)
            result = API_OUT_OF_MEMORY;
        else if (fread(*text, 1, *bytes, f) == *bytes)
            result = API_OK;
    }
    fclose(f);
    if (result != API_OK)
        free(*text);
    return result;
}

static struct api_module *module_of(struct CUmod_st *handle)
{
    return (struct api_module *)api_handle_get(API_KIND_MODULE, handle);
}

api_result cuModuleLoad(struct CUmod_st **module, const char *path)
{
    API_ENTER(API_CONTEXT);
    char  *text = NULL;
    size_t bytes = 0;
    API_TRY(api_file_read(path, &text, &bytes));
    api_result result = bytes ? load_data(call.context, module, text, 0, NULL, NULL) : API_INVALID_IMAGE;
    free(text);
    return result;
}

api_result cuModuleLoadData(struct CUmod_st **module, const void *image)
{
    API_CALL(API_CONTEXT, load_data(call.context, module, image, 0, NULL, NULL));
}
api_result cuModuleLoadDataEx(struct CUmod_st **module, const void *image, unsigned int count,
                              unsigned int *options, void **values)
{
    API_CALL(API_CONTEXT, load_data(call.context, module, image, count, options, values));
}
api_result cuModuleLoadFatBinary(struct CUmod_st **module, const void *image)
{
    API_CALL(API_CONTEXT, load_data(call.context, module, image, 0, NULL, NULL));
}

api_result cuModuleUnload(struct CUmod_st *module)
{
    API_ENTER(API_CONTEXT | API_ANY_STATE | API_UNSAFE);
    struct api_module *m = module_of(module);
    API_WANT(m, API_INVALID_HANDLE);
    API_WANT(!m->handle.owner, API_NOT_PERMITTED); /* the library owns it and frees it */
    api_finish_context(m->handle.context);
    m = module_of(module);
    API_WANT(m, API_INVALID_HANDLE);
    api_result sticky = m->handle.context->sticky; /* reported even for this call */
    api_handle_delete(&m->handle);
    return sticky;
}

/* ---- contents of modules ------------------------------------------------------------------------------- */
static bool is_kernel(const struct emu_function *f) { return f->text->is_entry && f->text->has_body; }

api_result api_module_function(struct api_module *m, struct emu_function *code, struct api_function **out)
{
    struct api_function **slot = &m->functions[code - m->code->functions];
    if (*slot == NULL) {
        struct api_function *f = (struct api_function *)api_handle_new(API_KIND_FUNCTION, sizeof *f,
                                                                       m->handle.context, &m->handle, NULL);
        API_WANT(f, API_OUT_OF_MEMORY);
        f->code = code;
        f->module = m;
        *slot = f;
    }
    *out = *slot;
    return API_OK;
}

api_result api_module_global(struct api_module *m, const char *name, api_address *address, size_t *bytes)
{
    API_WANT(name && (address || bytes), API_INVALID_VALUE);
    API_WANT(m, API_INVALID_HANDLE);
    const struct emu_global *g = emu_module_global(m->code, name);
    API_WANT(g, API_NOT_FOUND);
    if (address != NULL)
        *address = g->address;
    if (bytes != NULL)
        *bytes = (size_t)g->bytes;
    return API_OK;
}

bool api_loads_lazily(void)
{
    const char *mode = getenv("CUDA_MODULE_LOADING");
    return mode == NULL || strcmp(mode, "EAGER") != 0;
}

api_result cuModuleGetFunction(struct CUfunc_st **out, struct CUmod_st *handle, const char *name)
{
    API_ENTER(API_CONTEXT);
    struct api_module   *m = module_of(handle);
    struct api_function *function = NULL;
    API_WANT(out && name, API_INVALID_VALUE);
    API_WANT(m, API_INVALID_HANDLE);
    struct emu_function *code = emu_module_entry(m->code, name);
    API_WANT(code, API_NOT_FOUND);
    API_TRY(api_module_function(m, code, &function));
    *out = (struct CUfunc_st *)function;
    return API_OK;
}

api_result cuModuleGetFunctionCount(unsigned int *count, struct CUmod_st *module)
{
    API_ENTER(API_CONTEXT);
    const struct api_module *m = module_of(module);
    API_WANT(count, API_INVALID_VALUE);
    API_WANT(m, API_INVALID_HANDLE);
    *count = 0;
    for (uint32_t i = 0; i < m->code->function_count; i++)
        *count += is_kernel(&m->code->functions[i]);
    return API_OK;
}

api_result cuModuleEnumerateFunctions(struct CUfunc_st **functions, unsigned int count, struct CUmod_st *module)
{
    API_ENTER(API_CONTEXT);
    struct api_module   *m = module_of(module);
    struct api_function *function = NULL;
    unsigned int         found = 0;
    API_WANT(functions || count == 0, API_INVALID_VALUE);
    API_WANT(m, API_INVALID_HANDLE);
    for (uint32_t i = 0; i < m->code->function_count && found < count; i++)
        if (is_kernel(&m->code->functions[i])) {
            API_TRY(api_module_function(m, &m->code->functions[i], &function));
            functions[found++] = (struct CUfunc_st *)function;
        }
    return API_OK;
}

api_result cuModuleGetGlobal_v2(api_address *address, size_t *bytes, struct CUmod_st *module, const char *name)
{
    API_CALL(API_CONTEXT, api_module_global(module_of(module), name, address, bytes));
}

api_result cuModuleGetLoadingMode(unsigned int *mode)
{
    API_ENTER(API_INIT);
    enum { EAGER = 1, LAZY = 2 };
    API_WANT(mode, API_INVALID_VALUE);
    *mode = api_loads_lazily() ? LAZY : EAGER;
    return API_OK;
}
