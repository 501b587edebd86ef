/* link.c - linking: one text of PTX, one container, or one fat binary becomes a container. */
#include <stdlib.h>
#include "compile.h"
#include "spare.h"

enum { INPUT_FATBIN = 2, /* after cubin and PTX */ INPUT_KINDS = 6 }; /* CUjitInputType */

struct api_link {
    struct api_handle handle;
    struct api_jit    jit;
    void             *cubin; /* of the added input; NULL: nothing yet */
    size_t            bytes;
};

static void release_link(struct api_handle *h) { free(((struct api_link *)h)->cubin); }

static api_result compile(struct api_link *l, const struct compile_image *image)
{
    struct compile_logs logs;
    unsigned int        result = API_OK;
    struct emu_module  *m = compile_ptx(api_settings(), NULL, image->text, image->bytes, false, NULL, &result,
                                        &logs);
    api_jit_write(&l->jit, &logs);
    compile_logs_free(&logs);
    API_WANT(m, result);
    spare_give(m);
    l->cubin = compile_container(api_settings(), NULL, image->text, image->bytes, &l->bytes);
    return l->cubin != NULL ? API_OK : API_OUT_OF_MEMORY;
}

/* A text must be complete; a second one is not supported. */
static api_result add(struct CUlinkState_st *state, unsigned int type, const void *data, size_t bytes)
{
    struct api_link     *l = (struct api_link *)api_handle_get(API_KIND_LINK, state);
    struct compile_image image;
    API_WANT(l, API_INVALID_HANDLE);
    API_WANT(data && bytes && type < INPUT_KINDS, API_INVALID_VALUE);
    API_WANT(type <= INPUT_FATBIN && !l->cubin, API_NOT_SUPPORTED);
    API_TRY(compile_image_open(data, bytes, &l->jit, &image));
    api_result result = compile(l, &image);
    compile_image_close(&image);
    return result;
}

static api_result add_file(struct CUlinkState_st *state, unsigned int type, const char *path)
{
    char  *text = NULL;
    size_t bytes = 0;
    API_TRY(api_file_read(path, &text, &bytes));
    api_result result = bytes ? add(state, type, text, bytes) : API_INVALID_IMAGE;
    free(text);
    return result;
}

api_result cuLinkCreate_v2(unsigned int count, unsigned int *options, void **values,
                           struct CUlinkState_st **state)
{
    API_ENTER(API_CONTEXT);
    struct api_jit jit;
    API_WANT(state, API_INVALID_VALUE);
    API_TRY(api_jit_read(count, options, values, &jit));
    struct api_link *l = (struct api_link *)api_handle_new(API_KIND_LINK, sizeof *l, call.context, NULL,
                                                           release_link);
    API_WANT(l, API_OUT_OF_MEMORY);
    l->jit = jit;
    *state = (struct CUlinkState_st *)l;
    return API_OK;
}

api_result cuLinkAddData_v2(struct CUlinkState_st *state, unsigned int type, void *data, size_t bytes,
                            const char *name, unsigned int count, unsigned int *options, void **values)
{
    (void)name, (void)options, (void)values; /* the logs are those of cuLinkCreate, as documented */
    API_CALL(API_CONTEXT, count && !options ? API_INVALID_VALUE : add(state, type, data, bytes));
}
api_result cuLinkAddFile_v2(struct CUlinkState_st *state, unsigned int type, const char *path,
                            unsigned int count, unsigned int *options, void **values)
{
    (void)options, (void)values;
    API_CALL(API_CONTEXT, count && !options ? API_INVALID_VALUE : add_file(state, type, path));
}

api_result cuLinkComplete(struct CUlinkState_st *state, void **cubin, size_t *bytes)
{
    API_ENTER(API_CONTEXT);
    const struct api_link *l = (const struct api_link *)api_handle_get(API_KIND_LINK, state);
    API_WANT(l, API_INVALID_HANDLE);
    API_WANT(cubin && l->cubin, API_INVALID_VALUE);
    *cubin = l->cubin;
    if (bytes != NULL)
        *bytes = l->bytes;
    return API_OK;
}

api_result cuLinkDestroy(struct CUlinkState_st *state)
{
    API_ENTER(API_CONTEXT | API_ANY_STATE);
    struct api_link *l = (struct api_link *)api_handle_get(API_KIND_LINK, state);
    API_WANT(l, API_INVALID_HANDLE);
    api_handle_delete(&l->handle);
    return API_OK;
}
