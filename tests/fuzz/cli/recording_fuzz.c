/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes give rows or a reason; what is given is in range, and can be fitted. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "cli/fit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add(const uint8_t *data, size_t size, const char *group_column)
{
    struct cli_recording recording = {0};
    struct kw_err err = {0};
    struct kw_model model;

    int rc = cli_recording_add(&recording, (const char *)data, size, group_column, "g", &err);
    if (rc < 0 && err.text[0] == '\0')
        abort();
    for (size_t i = 0; rc == 0 && i < recording.n * recording.n_features; i++) {
        if (!(recording.x[i] >= 0) || !isfinite(recording.x[i]))
            abort();
    }
    for (size_t i = 0; rc == 0 && i < recording.n; i++) {
        if (recording.group[i] >= recording.n_groups)
            abort();
    }
    if (rc == 0 && (recording.parts & 1u << KW_MODEL_PACKAGE) != 0 &&
        cli_fit(&recording, KW_MODEL_PACKAGE, NULL, &model) == 0) {
        double mae_w = cli_fit_mae_w(&recording, KW_MODEL_PACKAGE, NULL, &model, NULL);
        if (!(mae_w >= 0 && mae_w <= KW_MODEL_MAX_W))
            abort();
    }
    cli_recording_free(&recording);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    add(data, size, NULL);
    add(data, size, "program");
    return 0;
}
