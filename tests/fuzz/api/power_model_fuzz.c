/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give a model or a named error; what a model says is a power; ours can be written, and
 * reads back. */
#include <stdint.h>
#include <stdlib.h>

#include "api/power_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** More of any feature never costs less, by trees as by terms. */
static void check_rising(const struct kw_model *part)
{
    double x[KW_MODEL_FEATURES_MAX] = {0}, last_w = kw_model_watts(part, x);

    for (size_t i = 0; i < part->n; i++) {
        for (double step = 1e-3; step < 1e13; step *= 10) {
            x[i] = step;
            double watts = kw_model_watts(part, x);
            if (watts < last_w)
                abort();
            last_w = watts;
        }
    }
}

static void check_part(const struct kw_model *part)
{
    static const double values[] = {0, 1, 1e5, 1e12, -1};
    double x[KW_MODEL_FEATURES_MAX];

    if (part->present == (part->refused[0] != '\0') && part->present)
        abort();
    for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
        for (size_t i = 0; i < KW_MODEL_FEATURES_MAX; i++)
            x[i] = values[v];
        double watts = kw_model_watts(part, x);
        if (!(watts >= 0 && watts <= KW_MODEL_MAX_W))
            abort();
    }
    if (part->shape == KW_SHAPE_TREES)
        check_rising(part);
    if (!(kw_model_idle_w(part) >= 0) || !(kw_model_top_w(part) >= 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a.json", "ExponentialRegressionTrainer",
                                        "Logarithmic-DynPower"};
    static struct kw_power_model model, again;
    const char *why = NULL;
    char *text = NULL;
    size_t len = 0;

    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        if (kw_power_model_decode((const char *)data, size, names[n], &model, &why) < 0) {
            if (why == NULL)
                abort();
            return 0;
        }
        for (size_t p = 0; p < KW_MODEL__MAX; p++)
            check_part(&model.parts[p]);
    }
    if (model.foreign)
        return 0;
    if (kw_power_model_encode(&model, &text, &len) < 0)
        abort();
    if (kw_power_model_decode(text, len, "", &again, &why) < 0)
        abort();
    free(text);
    return 0;
}
