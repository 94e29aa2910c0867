/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are refused, and leave the model as it was, or are a tree that can be written and read
 * back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/power_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kw_power_model model, before;
    struct kw_model *part = &model.parts[KW_MODEL_PACKAGE];
    const char *why = NULL;
    char *text = NULL;
    size_t len = 0;

    memset(&model, 0, sizeof(model));
    *part = (struct kw_model){
        .present = true,
        .shape = KW_SHAPE_TREES,
        .n = 3,
        .features = {{.name = "a", .scale = 1, .beyond = KW_BEYOND_HELD},
                     {.name = "b", .scale = 1, .beyond = KW_BEYOND_HELD},
                     {.name = "c", .scale = 1, .beyond = KW_BEYOND_HELD}},
    };
    before = model;
    if (kw_model_add_xgboost(part, (const char *)data, size) < 0) {
        if (part->trees.n != 0 || part->trees.n_nodes != 0 ||
            memcmp(&part->features, &before.parts[KW_MODEL_PACKAGE].features,
                   sizeof(part->features)) != 0)
            abort();
        return 0;
    }
    part->base_w = 0; /* which a tree may have taken below */
    if (kw_power_model_encode(&model, &text, &len) < 0 ||
        kw_power_model_decode(text, len, "", &before, &why) < 0)
        abort();
    free(text);
    return 0;
}
