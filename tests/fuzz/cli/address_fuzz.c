/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cli_address address, again;
    char text[CLI_ADDRESS_MAX];
    char *copy = strndup((const char *)data, size);

    /* what was accepted is written as something that is accepted */
    if (copy != NULL && cli_address_parse(copy, &address, NULL) == 0) {
        cli_address_format(&address, text);
        if (cli_address_parse(text, &again, NULL) < 0)
            abort();
        cli_address_url(&address, text);
    }
    free(copy);
    return 0;
}
