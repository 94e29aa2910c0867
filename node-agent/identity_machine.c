/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/identity_machine.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undoes systemd's \xNN. */
static struct agent_part unescape(struct agent_part part, char out[AGENT_ID_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < part.len && n < AGENT_ID_MAX - 1; i++) {
        char c = part.at[i];
        if (c == '\\' && i + 3 < part.len && part.at[i + 1] == 'x' &&
            hex_digit(part.at[i + 2]) >= 0 && hex_digit(part.at[i + 3]) >= 0) {
            c = (char)(hex_digit(part.at[i + 2]) * 16 + hex_digit(part.at[i + 3]));
            i += 3;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return (struct agent_part){out, n};
}

/* "qemu-3-name" -> "name": libvirt numbers its machines. @param driver "qemu-", "lxc-". */
static bool strip_libvirt(struct agent_part *name, const char *driver)
{
    struct agent_part rest = *name;

    if (!agent_part_strip_prefix(&rest, driver))
        return false;
    while (rest.len > 0 && rest.at[0] >= '0' && rest.at[0] <= '9') {
        rest.at++;
        rest.len--;
    }
    if (rest.len < 2 || rest.at[0] != '-')
        return false;
    name->at = rest.at + 1;
    name->len = rest.len - 1;
    return true;
}

/* Machines of systemd's machine.slice. @param text where an unescaped name is put. */
static bool machine_of_systemd(struct agent_part part, char text[AGENT_ID_MAX],
                               struct agent_machine *ret)
{
    struct agent_part name = part;
    bool service = agent_part_strip_suffix(&name, ".service");

    *ret = (struct agent_machine){.kind = KW_WORKLOAD_CONTAINER, .runtime = "systemd-nspawn"};
    if (service) {
        if (agent_part_strip_prefix(&name, "systemd-vmspawn@"))
            ret->kind = KW_WORKLOAD_VM;
        else if (!agent_part_strip_prefix(&name, "systemd-nspawn@"))
            return false;
    } else if (!agent_part_strip_suffix(&name, ".scope") ||
               !agent_part_strip_prefix(&name, "machine-")) {
        return false;
    }
    ret->name = unescape(name, text);
    if (service)
        return true;
    if (strip_libvirt(&ret->name, "qemu-"))
        ret->kind = KW_WORKLOAD_VM;
    else
        ret->runtime = strip_libvirt(&ret->name, "lxc-") ? "libvirt-lxc" : "";
    return true;
}

/* Machines that stand outside of it. @param top the second component of the path. */
static bool machine_of_others(struct agent_part before, struct agent_part part, bool top,
                              struct agent_machine *ret)
{
    *ret = (struct agent_machine){.name = part, .kind = KW_WORKLOAD_VM, .runtime = "lxc"};
    if (agent_part_strip_suffix(&ret->name, ".libvirt-qemu")) {
        (void)strip_libvirt(&ret->name, "qemu-");
        return true;
    }
    if (before.at != NULL && agent_part_is(before, "qemu.slice")) /* Proxmox: <vmid>.scope */
        return agent_part_strip_suffix(&ret->name, ".scope");
    ret->kind = KW_WORKLOAD_CONTAINER;
    if (agent_part_strip_suffix(&ret->name, ".libvirt-lxc")) {
        ret->runtime = "libvirt-lxc";
        (void)strip_libvirt(&ret->name, "lxc-");
        return true;
    }
    /* LXC from version 4 on, and before that; Proxmox has the latter to this day */
    return agent_part_strip_prefix(&ret->name, "lxc.payload.") ||
           (top && before.at != NULL && agent_part_is(before, "lxc"));
}

bool agent_machine_from_part(struct agent_part before, struct agent_part part, bool top,
                             char text[AGENT_ID_MAX], struct agent_machine *ret)
{
    return machine_of_systemd(part, text, ret) || machine_of_others(before, part, top, ret);
}
