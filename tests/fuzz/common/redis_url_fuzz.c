/* SPDX-License-Identifier: Apache-2.0 */
/* Redis URLs: what is taken, its name must be taken, too, and mean the same; what is refused says
 * why, without a word of it. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/redis_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth)
        abort();
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* The user is not in the name. */
static void same(const struct kw_redis_url *a, const struct kw_redis_url *b)
{
    require(a->n_hosts == b->n_hosts && a->db == b->db && a->tls == b->tls);
    require(same_text(a->path, b->path) && same_text(a->master, b->master));
    for (size_t i = 0; i < a->n_hosts; i++)
        require(same_text(a->hosts[i].name, b->hosts[i].name) &&
                a->hosts[i].port == b->hosts[i].port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kw_cleanup_free char *text = strndup((const char *)data, size);
    kw_cleanup(kw_redis_url_free) struct kw_redis_url url = {0}, again = {0};
    struct kw_err err = {0};

    if (text == NULL)
        return 0;
    if (kw_redis_url_parse(text, &url, &err) < 0) {
        require(err.text[0] != '\0' && url.hosts == NULL);
        return 0;
    }
    kw_cleanup_free char *name = kw_redis_url_name(&url);
    require((url.path != NULL) != (url.n_hosts > 0) && name != NULL);
    require(kw_redis_url_parse(name, &again, &err) == 0);
    same(&url, &again);
    return 0;
}
