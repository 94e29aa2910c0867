/* SPDX-License-Identifier: Apache-2.0 */
/* Any Accept header gives one of the two formats; one without "openmetrics" gives text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/metrics.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kw_cleanup_free char *text = malloc(size + 1);

    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    enum kw_metrics_format format = kw_metrics_negotiate(text);

    if (format != KW_METRICS_TEXT && format != KW_METRICS_OPENMETRICS)
        abort();
    if (strcasestr(text, "openmetrics") == NULL && format != KW_METRICS_TEXT)
        abort();
    return 0;
}
