/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** What a QEMU process says of its machine. */
struct agent_qemu {
    char name[256]; /**< as given, bytes as they are; "": it has none */
    char uuid[37];  /**< in lower case; "": it has none */
};

/**
 * Reads the command line of a process (pure): whether it is QEMU running a machine, by what it was
 * started as, and which one (`-name`, `-uuid`, and the UUID of `-smbios type=1` where there is no
 * other, as Proxmox has it).
 * @param bytes `len` bytes as in /proc/PID/cmdline: arguments with a NUL each; may be cut anywhere.
 */
bool agent_qemu_from_cmdline(const char *bytes, size_t len, struct agent_qemu *ret);

/** Whether it is a program that serves one machine from beside QEMU, as its TPM, its file systems
 * and its network. @param bytes as above. */
bool agent_qemu_helper(const char *bytes, size_t len);
