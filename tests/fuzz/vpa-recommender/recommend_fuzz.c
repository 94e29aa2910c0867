/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a VPA says, its new status is sorted, keeps lower <= target <= upper, and can be
 * written. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vpa-recommender/recommend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"side", "web"};
    struct rec_reading reading = {.epoch = 1, .t_unix_ms = 1000, .memory_bytes = size * 1000003};
    struct rec_scope *scope = rec_scope_new();
    struct kw_vpa_status status;
    struct kw_vpa vpa;

    if (scope == NULL)
        abort();
    for (unsigned i = 0; i < 3; i++) {
        reading.t_unix_ms += 60000;
        reading.cpu_ns += size * 10000019;
        (void)rec_scope_feed(scope, names[size % 2], "c", &reading, 60000, reading.t_unix_ms);
    }
    if (kw_vpa_decode((const char *)data, size, &vpa, NULL) < 0) {
        rec_scope_free(&scope);
        return 0;
    }
    const struct rec_recommend_input input = {.vpa = &vpa,
                                              .scope = scope,
                                              .unsupported = size % 7 == 0 ? "why" : NULL,
                                              .n_pods = size % 3,
                                              .n_names = size % 3 == 0 ? 0 : 2,
                                              .names = names,
                                              .now_unix_ms = reading.t_unix_ms};
    if (rec_recommend(&input, &status) < 0)
        abort();
    for (size_t i = 0; i < status.n_containers; i++) {
        const struct kw_vpa_container *entry = &status.containers[i];
        bool cpu = entry->target.has_mcpu, memory = entry->target.has_bytes;
        if ((!cpu && !memory) || (i > 0 && strcmp(entry[-1].container, entry->container) > 0))
            abort();
        if (cpu && ((entry->lower.has_mcpu && entry->lower.mcpu > entry->target.mcpu) ||
                    (entry->upper.has_mcpu && entry->upper.mcpu < entry->target.mcpu)))
            abort();
        if (memory && ((entry->lower.has_bytes && entry->lower.bytes > entry->target.bytes) ||
                       (entry->upper.has_bytes && entry->upper.bytes < entry->target.bytes)))
            abort();
    }
    char *text = NULL;
    size_t len;
    if (kw_vpa_status_patch(&status, "7", &text, &len) < 0)
        abort();
    free(text);
    kw_vpa_status_clear(&status);
    kw_vpa_clear(&vpa);
    rec_scope_free(&scope);
    return 0;
}
