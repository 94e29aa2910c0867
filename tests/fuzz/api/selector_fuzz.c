/* SPDX-License-Identifier: Apache-2.0 */
/* Any text gives a selector whose requirements have a key, or a named error. */
#include <stdint.h>
#include <stdlib.h>

#include "api/selector.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kw_label_pair pairs[] = {{(char *)"app", (char *)"web"}, {(char *)"zone", (char *)"a"}};
    const struct kw_labels labels = {.n = 2, .items = pairs};
    struct kw_selector selector;
    const char *why = NULL;

    if (kw_selector_parse((const char *)data, size, &selector, &why) < 0) {
        if (why == NULL)
            abort();
        return 0;
    }
    for (size_t i = 0; i < selector.n; i++) {
        if (selector.items[i].key[0] == '\0')
            abort();
    }
    (void)kw_selector_match(&selector, &labels);
    kw_selector_clear(&selector);
    return 0;
}
