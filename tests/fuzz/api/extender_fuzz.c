/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give a request, a filter answer, a list of priorities, or a named error. */
#include <stdint.h>
#include <stdlib.h>

#include "api/extender.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *why[3] = {NULL, NULL, NULL};
    struct kw_extender_args args = {0};
    struct kw_filter_result result = {0};
    struct kw_host_priority *list = NULL;
    size_t n = 0;

    if (kw_extender_args_decode(text, size, &args, &why[0]) < 0 && why[0] == NULL)
        abort();
    if (args.pod.request_mcpu > KW_POD_MCPU_MAX || args.pod.expected_mw > KW_POD_MW_MAX ||
        args.pod.expected_life_ms > KW_POD_LIFE_MS_MAX)
        abort();
    kw_extender_args_clear(&args);
    if (kw_filter_result_decode(text, size, &result, &why[1]) < 0 && why[1] == NULL)
        abort();
    kw_filter_result_clear(&result);
    if (kw_host_priorities_decode(text, size, &list, &n, &why[2]) < 0 && why[2] == NULL)
        abort();
    kw_host_priorities_free(&list, n);
    return 0;
}
