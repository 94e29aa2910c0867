/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of an answer of the API server, taken as a watch stream (in pieces of a size that the first
 * byte says), as a list and as a Status. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/kube_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_line(void *user, const char *bytes, size_t len)
{
    struct kw_kube_line line;
    struct kw_err err = {0};
    int *lines = user;
    int r = kw_kube_cut_line(bytes, len, &line, &err);

    (*lines)++;
    if (len == 0 || memchr(bytes, '\n', len) != NULL)
        abort();
    if (r < 0 && err.text[0] == '\0')
        abort();
    if (r < 0)
        return r;
    if (line.object < bytes || line.object + line.object_len > bytes + len ||
        line.object[0] != '{' || line.object[line.object_len - 1] != '}')
        abort();
    return 0;
}

static bool on_item(void *user, const char *json, size_t len)
{
    (void)user;
    if (len < 2 || json[0] != '{' || json[len - 1] != '}')
        abort();
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kw_kube_lines lines = {0};
    struct kw_kube_status status;
    struct kw_kube_page page = {0};
    int n = 0;
    int r = 0;

    if (size < 1)
        return 0;
    const char *bytes = (const char *)data + 1;
    size_t len = size - 1;
    size_t step = 1u + data[0];
    for (size_t at = 0; r == 0 && at < len; at += step)
        r = kw_kube_lines_feed(&lines, bytes + at, len - at < step ? len - at : step, on_line, &n);
    kw_kube_lines_free(&lines);
    (void)kw_kube_cut_list(bytes, len, on_item, NULL, &page, NULL);
    kw_kube_page_free(&page);
    (void)kw_kube_items(bytes, len, on_item, NULL, NULL);
    kw_kube_status_parse(bytes, len, &status);
    if (memchr(status.message, '\0', sizeof(status.message)) == NULL)
        abort();
    return 0;
}
