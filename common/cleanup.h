/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Ownership provable in one function: an owning local carries one of these attributes, and every
 * escape of ownership is a KW_TAKE_PTR or KW_TAKE_FD. The set is closed on purpose; a type with a
 * `x_free(struct x **)` of its own uses kw_cleanup(x_free).
 */

#define kw_cleanup(free_fn) __attribute__((cleanup(free_fn)))
#define kw_cleanup_free     __attribute__((cleanup(kw_cleanup_free_)))
#define kw_cleanup_close    __attribute__((cleanup(kw_cleanup_close_)))
#define kw_cleanup_file     __attribute__((cleanup(kw_cleanup_file_)))

/** Gives up ownership: yields the pointer and leaves NULL in the local. */
#define KW_TAKE_PTR(ptr)                   \
    ({                                     \
        __typeof__(ptr) kw_taken_ = (ptr); \
        (ptr) = NULL;                      \
        kw_taken_;                         \
    })

/** Gives up ownership of a descriptor: yields it and leaves -1 in the local. */
#define KW_TAKE_FD(fd)           \
    ({                           \
        int kw_taken_fd_ = (fd); \
        (fd) = -1;               \
        kw_taken_fd_;            \
    })

#define KW_ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static inline void kw_cleanup_free_(void *ptr)
{
    free(*(void **)ptr);
}

static inline void kw_cleanup_close_(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

static inline void kw_cleanup_file_(FILE **file)
{
    if (*file != NULL)
        (void)fclose(*file);
}
