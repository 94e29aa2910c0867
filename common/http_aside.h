/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * A thread that answers requests whose body is so large that reading it would hold up the others on
 * a thread of libmicrohttpd; for the HTTP server only. One after the other, in the order they came.
 */

struct kw_http_aside;

enum kw_http_job_stage {
    KW_HTTP_JOB_NONE,
    KW_HTTP_JOB_SEEN,
    KW_HTTP_JOB_QUEUED,
    KW_HTTP_JOB_DONE,
};

/** The answering of one request; part of its connection. Zeroed but for the first two for each
 * request. */
struct kw_http_job {
    void (*run)(struct kw_http_job *job); /**< makes the answer, and queues none */
    void *connection;                     /**< the library's */
    enum kw_http_job_stage stage;
    struct kw_http_job *next;
};

/** @param suspend, resume what the library has for its connections. @return 0 or -ENOMEM. */
int kw_http_aside_new(void (*suspend)(void *connection), void (*resume)(void *connection),
                      struct kw_http_aside **ret);

/**
 * From the last call of libmicrohttpd for a request, again and again until it is true.
 * @return whether the job was run; else nothing is to be queued, and the call comes again.
 */
bool kw_http_aside_step(struct kw_http_aside *aside, struct kw_http_job *job);

/** Runs what waits and ends the thread; from then on jobs are run where they come up, as where no
 * thread can be had. To be called
 * before libmicrohttpd is stopped, which must not hold a waiting one. */
void kw_http_aside_stop(struct kw_http_aside *aside);

/** After kw_http_aside_stop. */
void kw_http_aside_free(struct kw_http_aside **aside);
