/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sensors behind I2C, ACPI or a management controller answer in milliseconds, in seconds, or never.
 * The thread alone touches the meter; what it has read is copied under a lock that is never held
 * over a reading. The sample's side has a copy of the domains of its own, exchanged only when it
 * asks for a rescan, so that what it points at stays valid in between.
 *
 * A meter that fails as a whole is asked ever more rarely (a driver without its firmware fills the
 * system log with each reading), up to BACKOFF_MAX_NS.
 */
#include "node-agent/aside.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/clock.h"

/* A thread in the middle of a reading is given this long at the end of the agent. */
#define END_MS 200

#define BACKOFF_MAX_NS (300 * KW_NS_PER_S)

/* What a meter shows: its domains and their readings. */
struct image {
    size_t n;
    struct agent_domain *domains;
    struct agent_reading *readings;
    size_t left_out;
};

struct agent_aside {
    const struct agent_meter_ops *ops;
    void *self;           /* the thread's, once there is one */
    struct image scratch; /* the thread's: what is being read */
    struct image mine;    /* the sample's */
    bool started;
    pthread_t thread;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    struct image shown; /* last that was read whole */
    uint64_t shown_changes, mine_changes;
    int rc; /* of the last reading */
    bool stop, rescan;
    bool done;      /* the thread has ended: who started it frees */
    bool abandoned; /* nobody waits for the thread: it frees */
};

static void image_free(struct image *image)
{
    free(image->domains);
    free(image->readings);
    *image = (struct image){0};
}

/** Makes an image of `n` domains that were not read yet. @return 0 or -ENOMEM, untouched. */
static int image_make(struct image *image, const struct agent_domain *domains, size_t n,
                      size_t left_out)
{
    struct image made = {.n = n, .left_out = left_out};

    made.domains = calloc(n + 1, sizeof(*made.domains));
    made.readings = calloc(n + 1, sizeof(*made.readings));
    if (made.domains == NULL || made.readings == NULL) {
        image_free(&made);
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        made.domains[i] = domains[i];
        made.readings[i].error = -EAGAIN;
    }
    image_free(image);
    *image = made;
    return 0;
}

/** Lays the thread's image out as the meter is now. @return 0 or -ENOMEM. */
static int look(struct agent_aside *aside)
{
    const struct agent_domain *domains = NULL;
    size_t n = aside->ops->domains(aside->self, &domains);
    size_t left_out = aside->ops->left_out != NULL ? aside->ops->left_out(aside->self) : 0;

    return image_make(&aside->scratch, domains, n, left_out);
}

static void free_all(struct agent_aside *aside)
{
    if (aside->self != NULL)
        aside->ops->close(&aside->self);
    image_free(&aside->scratch);
    image_free(&aside->mine);
    image_free(&aside->shown);
    (void)pthread_mutex_destroy(&aside->lock);
    (void)pthread_cond_destroy(&aside->wake);
    free(aside);
}

int agent_aside_open(const struct agent_meter_ops *ops, const struct agent_meter_conf *conf,
                     struct agent_aside **ret, struct kw_err *err)
{
    struct agent_aside *aside = calloc(1, sizeof(*aside));
    pthread_condattr_t attr;

    if (aside == NULL)
        return kw_err_set(err, -ENOMEM, "%s: out of memory", ops->name);
    aside->ops = ops;
    (void)pthread_mutex_init(&aside->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&aside->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    int rc = ops->open(conf, &aside->self, err);
    if (rc < 0) {
        aside->self = NULL;
    } else if (look(aside) < 0 ||
               image_make(&aside->shown, aside->scratch.domains, aside->scratch.n,
                          aside->scratch.left_out) < 0 ||
               image_make(&aside->mine, aside->scratch.domains, aside->scratch.n,
                          aside->scratch.left_out) < 0) {
        rc = kw_err_set(err, -ENOMEM, "%s: out of memory", ops->name);
    }
    if (rc < 0) {
        free_all(aside);
        return rc;
    }
    *ret = aside;
    return 0;
}

/** Shows what was read. The lock is held. A change of domains that finds no memory is shown with
 * the next reading. */
static void show(struct agent_aside *aside, int rc, bool changed)
{
    struct image *scratch = &aside->scratch, *shown = &aside->shown;

    aside->rc = rc;
    if (changed || shown->n != scratch->n) {
        if (image_make(shown, scratch->domains, scratch->n, scratch->left_out) < 0) {
            aside->rc = -ENOMEM;
            return;
        }
        aside->shown_changes++;
    }
    memcpy(shown->readings, scratch->readings, scratch->n * sizeof(*scratch->readings));
}

/** Waits until the next reading is due, or until there is something to do. The lock is held. */
static void wait_period(struct agent_aside *aside, unsigned failures)
{
    uint64_t wait_ns = aside->ops->period_ns;
    uint64_t due_ns = kw_now_ns();

    for (unsigned i = 1; i < failures && wait_ns < BACKOFF_MAX_NS; i++)
        wait_ns *= 2;
    due_ns += wait_ns < BACKOFF_MAX_NS ? wait_ns : BACKOFF_MAX_NS;
    struct timespec due = {.tv_sec = (time_t)(due_ns / KW_NS_PER_S),
                           .tv_nsec = (long)(due_ns % KW_NS_PER_S)};
    while (!aside->stop && !aside->rescan &&
           pthread_cond_timedwait(&aside->wake, &aside->lock, &due) == 0)
        ;
}

/** Reads until it is told to stop. The lock is held, but not over a reading. */
static void run(struct agent_aside *aside)
{
    unsigned failures = 0;

    while (!aside->stop) {
        bool rescan = aside->rescan, changed = false;
        aside->rescan = false;
        (void)pthread_mutex_unlock(&aside->lock);

        int rc = 0;
        if (rescan && aside->ops->rescan != NULL && aside->ops->rescan(aside->self)) {
            changed = true;
            rc = look(aside);
        }
        if (rc == 0)
            rc = aside->ops->read(aside->self, NULL, aside->scratch.readings);
        failures = rc < 0 ? failures + 1 : 0;

        (void)pthread_mutex_lock(&aside->lock);
        show(aside, rc, changed);
        wait_period(aside, failures);
    }
}

static void *run_thread(void *user)
{
    struct agent_aside *aside = user;

    (void)pthread_mutex_lock(&aside->lock);
    run(aside);
    aside->done = true;
    bool abandoned = aside->abandoned;
    (void)pthread_mutex_unlock(&aside->lock);
    if (abandoned)
        free_all(aside);
    return NULL;
}

void agent_aside_close(struct agent_aside **aside)
{
    struct agent_aside *owned = KW_TAKE_PTR(*aside);
    struct timespec end;

    if (owned == NULL)
        return;
    if (!owned->started) {
        free_all(owned);
        return;
    }
    (void)pthread_mutex_lock(&owned->lock);
    owned->stop = true;
    (void)pthread_cond_signal(&owned->wake);
    (void)pthread_mutex_unlock(&owned->lock);
    uint64_t end_ns = kw_now_ns() + END_MS * KW_NS_PER_MS;
    end = (struct timespec){.tv_sec = (time_t)(end_ns / KW_NS_PER_S),
                            .tv_nsec = (long)(end_ns % KW_NS_PER_S)};
    pthread_t thread = owned->thread;
    if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &end) == 0) {
        free_all(owned);
        return;
    }
    (void)pthread_mutex_lock(&owned->lock);
    bool done = owned->done;
    owned->abandoned = !done;
    (void)pthread_mutex_unlock(&owned->lock);
    if (done) {
        (void)pthread_join(thread, NULL);
        free_all(owned);
    } else {
        (void)pthread_detach(thread);
    }
}

size_t agent_aside_domains(const struct agent_aside *aside, const struct agent_domain **ret)
{
    *ret = aside->mine.domains;
    return aside->mine.n;
}

int agent_aside_read(struct agent_aside *aside, struct agent_reading *ret)
{
    if (!aside->started) {
        int rc = pthread_create(&aside->thread, NULL, run_thread, aside);
        if (rc != 0)
            return -rc;
        aside->started = true;
    }
    (void)pthread_mutex_lock(&aside->lock);
    int rc = aside->rc;
    bool same = aside->shown_changes == aside->mine_changes;
    for (size_t i = 0; i < aside->mine.n; i++)
        ret[i] = same ? aside->shown.readings[i] : (struct agent_reading){.error = -EAGAIN};
    (void)pthread_mutex_unlock(&aside->lock);
    return rc;
}

bool agent_aside_rescan(struct agent_aside *aside)
{
    bool changed;

    (void)pthread_mutex_lock(&aside->lock);
    changed =
        aside->shown_changes != aside->mine_changes &&
        image_make(&aside->mine, aside->shown.domains, aside->shown.n, aside->shown.left_out) == 0;
    if (changed)
        aside->mine_changes = aside->shown_changes;
    aside->rescan = true;
    (void)pthread_cond_signal(&aside->wake);
    (void)pthread_mutex_unlock(&aside->lock);
    return changed;
}

size_t agent_aside_left_out(const struct agent_aside *aside)
{
    return aside->mine.left_out;
}
