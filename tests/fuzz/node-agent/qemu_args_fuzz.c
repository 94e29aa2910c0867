/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/qemu_args.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Any bytes are a command line; a name fits its room, a UUID is one or none. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct agent_qemu qemu;

    memset(&qemu, 'x', sizeof(qemu));
    (void)agent_qemu_helper((const char *)data, size);
    if (!agent_qemu_from_cmdline((const char *)data, size, &qemu))
        return 0;
    size_t len = strnlen(qemu.uuid, sizeof(qemu.uuid));
    if (strnlen(qemu.name, sizeof(qemu.name)) == sizeof(qemu.name) || (len != 0 && len != 36))
        abort();
    return 0;
}
