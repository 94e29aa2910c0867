/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/findings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cli_findings findings = {0};
    struct kw_buf out = {0};
    size_t n;

    if (cli_findings_parse(&findings, (const char *)data, size, &n) == 0) {
        cli_findings_table(&findings, true, &out);
        cli_findings_json(&findings, &out);
    }
    kw_buf_free(&out);
    cli_findings_clear(&findings);
    return 0;
}
