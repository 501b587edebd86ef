/* nvrtc.h - what the fake NVRTC tells a test: dlsym(library, "fake_nvrtc"). */
#ifndef FAKE_NVRTC_H
#define FAKE_NVRTC_H

/* About the last compilation, except for the count. */
struct fake_nvrtc {
    unsigned int compilations;
    char         options[2048]; /* each ends with a newline */
    char         text[4096];    /* the source */
    char         headers[4096]; /* "NAME:\nTEXT" of each */
};
#endif
