/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: whatever is taken for one can be claimed, and then it is ours (or nobody's), also once it
 * was read back. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/kube_lease_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kw_cleanup(kw_lease_object_free) struct kw_lease_object *object = NULL;
    struct kw_lease_record before, after;
    struct kw_err err = {0};
    uint64_t wait_ns = 0;

    if (kw_lease_object_parse((const char *)data, size, &object, &err) < 0) {
        require(err.text[0] != '\0' && object == NULL);
        return 0;
    }
    kw_lease_object_read(object, &before);
    (void)kw_lease_decide(&before, "me", 5, 7, 10, &wait_ns);
    for (enum kw_lease_claim claim = KW_LEASE_TAKE; claim <= KW_LEASE_RELEASE; claim++) {
        kw_cleanup(kw_lease_object_free) struct kw_lease_object *claimed = NULL;
        kw_cleanup_free char *text = NULL;
        size_t len = 0;
        require(kw_lease_object_claim(object, claim, "me", 15000000000, 1796015167000089, &text,
                                      &len) == 0);
        require(kw_lease_object_parse(text, len, &claimed, &err) == 0);
        kw_lease_object_read(claimed, &after);
        require(strcmp(after.holder, claim == KW_LEASE_RELEASE ? "" : "me") == 0);
        require(after.duration_ns == (claim == KW_LEASE_RELEASE ? 1000000000 : 15000000000));
        require(after.transitions - before.transitions <= (claim == KW_LEASE_TAKE ? 1 : 0) ||
                after.transitions == 0);
    }
    return 0;
}
