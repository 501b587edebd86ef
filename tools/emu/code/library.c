/* library.c - libraries: an image that is loaded once and becomes a module in each context that uses it. */
#include <stdlib.h>
#include "compile.h"
#include "spare.h"

struct api_kernel {
    struct api_handle   handle; /* owner: the library */
    struct api_library *library;
    char               *name;
};
struct api_library {
    struct api_handle   handle;
    char               *text;   /* PTX; NULL: the image holds none */
    api_result          broken; /* the error of its first use, if its code cannot be used */
    struct api_kernel **kernels;
    unsigned int        kernel_count;
};

/* ---- life ---------------------------------------------------------------------------------------------- */
static void release_library(struct api_handle *h)
{
    struct api_library *l = (struct api_library *)h;
    free(l->text);
    free(l->kernels);
}

static void release_kernel(struct api_handle *h) { free(((struct api_kernel *)h)->name); }

static api_result add_kernel(struct api_library *l, const char *name)
{
    struct api_kernel *k = (struct api_kernel *)api_handle_new(API_KIND_KERNEL, sizeof *k, NULL, &l->handle,
                                                               release_kernel);
    API_WANT(k && (k->name = strdup(name)), API_OUT_OF_MEMORY);
    k->library = l;
    l->kernels[l->kernel_count++] = k;
    return API_OK;
}

static api_result add_kernels(struct api_library *l, const struct emu_module *m)
{
    l->kernels = (struct api_kernel **)calloc(m->function_count + 1u, sizeof(void *));
    API_WANT(l->kernels, API_OUT_OF_MEMORY);
    for (uint32_t i = 0; i < m->function_count; i++)
        if (m->functions[i].text->is_entry && m->functions[i].text->has_body)
            API_TRY(add_kernel(l, m->functions[i].name));
    return API_OK;
}

/* Decode it once, without memory for its variables, to find out whether it is valid and what it contains. */
static api_result fill(struct api_library *l, const void *code, const struct api_jit *jit)
{
    struct compile_image image;
    struct compile_logs  logs;
    unsigned int         result = API_OK;
    API_TRY(compile_image_open(code, 0, jit, &image));
    l->text = strndup(image.text, image.bytes);
    compile_image_close(&image);
    API_WANT(l->text, API_OUT_OF_MEMORY);
    struct emu_module *m = compile_ptx(api_settings(), NULL, l->text, strlen(l->text), false, NULL, &result,
                                       &logs);
    api_jit_write(jit, &logs);
    compile_logs_free(&logs);
    API_WANT(m, result);
    result = add_kernels(l, m);
    spare_give(m);
    return result;
}

/* As with lazy loading in a real driver, bad code is an error of its first use. */
static api_result load(struct CUlib_st **out, const void *code, unsigned int jit_count,
                       const unsigned int *jit_options, void **jit_values, unsigned int count,
                       const unsigned int *options)
{
    enum { OPTIONS = 2 };
    struct api_jit jit;
    API_WANT(out && code, API_INVALID_VALUE);
    API_WANT(count <= OPTIONS && (count == 0 || options), API_INVALID_VALUE);
    for (unsigned int i = 0; i < count; i++)
        API_WANT(options[i] < OPTIONS, API_INVALID_VALUE);
    API_TRY(api_jit_read(jit_count, jit_options, jit_values, &jit));
    struct api_library *l = (struct api_library *)api_handle_new(API_KIND_LIBRARY, sizeof *l, NULL, NULL,
                                                                 release_library);
    API_WANT(l, API_OUT_OF_MEMORY);
    l->broken = fill(l, code, &jit);
    if (l->broken == API_OK || (api_loads_lazily() && l->broken != API_OUT_OF_MEMORY)) {
        *out = (struct CUlib_st *)l;
        return API_OK;
    }
    api_result result = l->broken;
    api_handle_delete(&l->handle);
    return result;
}

static struct api_library *library_of(struct CUlib_st *handle)
{
    return (struct api_library *)api_handle_get(API_KIND_LIBRARY, handle);
}

api_result cuLibraryLoadData(struct CUlib_st **library, const void *code, unsigned int *jit_options,
                             void **jit_values, unsigned int jit_count, unsigned int *options, void **values,
                             unsigned int count)
{
    (void)values; /* no option matters here */
    API_CALL(API_INIT, load(library, code, jit_count, jit_options, jit_values, count, options));
}

api_result cuLibraryLoadFromFile(struct CUlib_st **library, const char *path, unsigned int *jit_options,
                                 void **jit_values, unsigned int jit_count, unsigned int *options,
                                 void **values, unsigned int count)
{
    (void)values;
    API_ENTER(API_INIT);
    char  *text = NULL;
    size_t bytes = 0;
    API_TRY(api_file_read(path, &text, &bytes));
    api_result result = bytes ? load(library, text, jit_count, jit_options, jit_values, count, options)
                              : API_INVALID_IMAGE;
    free(text);
    return result;
}

/* A context that has a module of the library, and work that has not ended; NULL: there is none. */
static struct api_context *busy_context(const struct api_library *l)
{
    for (struct api_handle *h = api_handle_next(API_KIND_MODULE, NULL); h != NULL;
         h = api_handle_next(API_KIND_MODULE, h))
        if (h->owner == &l->handle && api_context_busy(h->context))
            return h->context;
    return NULL;
}

api_result cuLibraryUnload(struct CUlib_st *library)
{
    API_ENTER(API_INIT | API_UNSAFE);
    struct api_library *l;
    while ((l = library_of(library)) != NULL && busy_context(l) != NULL)
        api_finish_context(busy_context(l));
    API_WANT(l, API_INVALID_HANDLE);
    api_handle_delete(&l->handle);
    return API_OK;
}

/* ---- its module in a context --------------------------------------------------------------------------- */
static api_result module_in(struct api_library *l, struct api_context *context, struct api_module **out)
{
    const struct api_jit quiet = {.info = NULL};
    API_TRY(l->broken);
    for (struct api_handle *h = api_handle_next(API_KIND_MODULE, NULL); h != NULL;
         h = api_handle_next(API_KIND_MODULE, h))
        if (h->owner == &l->handle && h->context == context) {
            *out = (struct api_module *)h;
            return API_OK;
        }
    return api_module_new(context, l->text, &quiet, &l->handle, out);
}

api_result cuLibraryGetModule(struct CUmod_st **module, struct CUlib_st *library)
{
    API_ENTER(API_CONTEXT);
    struct api_library *l = library_of(library);
    struct api_module  *m = NULL;
    API_WANT(module, API_INVALID_VALUE);
    API_WANT(l, API_INVALID_HANDLE);
    API_TRY(module_in(l, call.context, &m));
    *module = (struct CUmod_st *)m;
    return API_OK;
}

api_result cuLibraryGetGlobal(api_address *address, size_t *bytes, struct CUlib_st *library, const char *name)
{
    API_ENTER(API_CONTEXT);
    struct api_library *l = library_of(library);
    struct api_module  *m = NULL;
    API_WANT(l, API_INVALID_HANDLE);
    API_TRY(module_in(l, call.context, &m));
    return api_module_global(m, name, address, bytes);
}

/* ---- kernels ------------------------------------------------------------------------------------------- */
static struct api_kernel *kernel_of(struct CUkern_st *handle)
{
    return (struct api_kernel *)api_handle_get(API_KIND_KERNEL, handle);
}

api_result api_kernel_function(struct api_context *context, struct CUkern_st *handle, struct api_function **out)
{
    const struct api_kernel *k = kernel_of(handle);
    struct api_module       *m = NULL;
    API_WANT(k, API_INVALID_HANDLE);
    API_TRY(module_in(k->library, context, &m));
    struct emu_function *code = emu_module_entry(m->code, k->name);
    return code != NULL ? api_module_function(m, code, out) : API_NOT_FOUND;
}

/* Attributes are per device: those of its primary context, or of the current one when that is its device. */
static api_result function_on(struct CUkern_st *kernel, int ordinal, struct api_function **out)
{
    const struct api_device *device = api_device(ordinal);
    struct api_context      *context = NULL;
    API_WANT(device, API_INVALID_DEVICE);
    if (api_current(&context) != API_OK || context->device != device)
        context = device->primary;
    API_WANT(context, API_INVALID_CONTEXT);
    API_TRY(context->sticky);
    return api_kernel_function(context, kernel, out);
}

api_result cuLibraryGetKernel(struct CUkern_st **kernel, struct CUlib_st *library, const char *name)
{
    API_ENTER(API_INIT);
    const struct api_library *l = library_of(library);
    API_WANT(kernel && name, API_INVALID_VALUE);
    API_WANT(l, API_INVALID_HANDLE);
    API_TRY(l->broken);
    for (unsigned int i = 0; i < l->kernel_count; i++)
        if (strcmp(l->kernels[i]->name, name) == 0) {
            *kernel = (struct CUkern_st *)l->kernels[i];
            return API_OK;
        }
    return API_NOT_FOUND;
}

api_result cuLibraryGetKernelCount(unsigned int *count, struct CUlib_st *library)
{
    API_ENTER(API_INIT);
    const struct api_library *l = library_of(library);
    API_WANT(count, API_INVALID_VALUE);
    API_WANT(l, API_INVALID_HANDLE);
    API_TRY(l->broken);
    *count = l->kernel_count;
    return API_OK;
}

api_result cuLibraryEnumerateKernels(struct CUkern_st **kernels, unsigned int count, struct CUlib_st *library)
{
    API_ENTER(API_INIT);
    const struct api_library *l = library_of(library);
    API_WANT(kernels || count == 0, API_INVALID_VALUE);
    API_WANT(l, API_INVALID_HANDLE);
    for (unsigned int i = 0; i < count && i < l->kernel_count; i++)
        kernels[i] = (struct CUkern_st *)l->kernels[i];
    return API_OK;
}

api_result cuKernelGetFunction(struct CUfunc_st **function, struct CUkern_st *kernel)
{
    API_ENTER(API_CONTEXT);
    struct api_function *f = NULL;
    API_WANT(function, API_INVALID_VALUE);
    API_TRY(api_kernel_function(call.context, kernel, &f));
    *function = (struct CUfunc_st *)f;
    return API_OK;
}

api_result cuKernelGetLibrary(struct CUlib_st **library, struct CUkern_st *kernel)
{
    API_ENTER(API_INIT);
    const struct api_kernel *k = kernel_of(kernel);
    API_WANT(library, API_INVALID_VALUE);
    API_WANT(k, API_INVALID_HANDLE);
    *library = (struct CUlib_st *)k->library;
    return API_OK;
}

api_result cuKernelGetAttribute(int *value, unsigned int attribute, struct CUkern_st *kernel, int device)
{
    API_ENTER(API_INIT);
    struct api_function *f = NULL;
    API_TRY(function_on(kernel, device, &f));
    return api_function_attribute(f, attribute, value);
}

api_result cuKernelSetAttribute(unsigned int attribute, int value, struct CUkern_st *kernel, int device)
{
    API_ENTER(API_INIT);
    struct api_function *f = NULL;
    API_TRY(function_on(kernel, device, &f));
    return api_function_set_attribute(f, attribute, value);
}

api_result cuKernelSetCacheConfig(struct CUkern_st *kernel, unsigned int config, int device)
{
    API_ENTER(API_INIT);
    struct api_function *f = NULL;
    API_WANT(config <= 3, API_INVALID_VALUE);
    API_TRY(function_on(kernel, device, &f));
    f->cache_config = config;
    return API_OK;
}

api_result cuKernelGetName(const char **name, struct CUkern_st *kernel)
{
    API_ENTER(API_INIT);
    const struct api_kernel *k = kernel_of(kernel);
    API_WANT(name, API_INVALID_VALUE);
    API_WANT(k, API_INVALID_HANDLE);
    *name = k->name;
    return API_OK;
}

api_result cuKernelGetParamInfo(struct CUkern_st *kernel, size_t index, size_t *offset, size_t *bytes)
{
    API_ENTER(API_CONTEXT);
    struct api_function *f = NULL;
    API_TRY(api_kernel_function(call.context, kernel, &f));
    return api_function_parameter(f->code, index, offset, bytes);
}
