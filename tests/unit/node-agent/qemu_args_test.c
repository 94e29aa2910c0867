/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines of QEMU as scripts, units, libvirt, Proxmox and containers write them. */
#include <string.h>

#include "node-agent/qemu_args.h"
#include "tests/support/cmocka.h"

#define UUID "6f1e0b52-8c8f-4d52-9f0e-0f6a3c2b1d44"

struct row {
    const char *line; /* arguments with '|' after each */
    bool qemu;
    const char *name, *uuid;
};

static const struct row rows[] = {
    {"qemu-system-x86_64|-name|guest=web,debug-threads=on|-uuid|" UUID "|", true, "web", UUID},
    {"/usr/bin/qemu-system-aarch64|-name|db|", true, "db", ""},
    {"/usr/libexec/qemu-kvm|--name|db,process=q|--uuid|6F1E0B52-8C8F-4D52-9F0E-0F6A3C2B1D44|", true,
     "db", UUID},
    {"/usr/bin/kvm|-id|100|-name|shop,debug-threads=on|-smbios|type=1,uuid=" UUID "|", true, "shop",
     UUID},
    {"/nix/store/x/bin/.qemu-system-x86_64-wrapped|-name|n|", true, "n", ""},
    {"qemu-system-i386|", true, "", ""},
    {"qemu-system-i386|-name|process=p|", true, "", ""},
    {"qemu-system-i386|-name|debug-threads=on,guest=late|", true, "late", ""},
    {"qemu-system-i386|-name|a,,b,debug-threads=on|", true, "a,b", ""},
    {"qemu-system-i386|-name|first|-name|second|", true, "second", ""},
    /* an SMBIOS UUID is the machine's only where there is no other, and of type 1 */
    {"qemu-system-i386|-uuid|" UUID "|-smbios|type=1,uuid=11111111-2222-3333-4444-555555555555|",
     true, "", UUID},
    {"qemu-system-i386|-smbios|type=3,uuid=" UUID "|", true, "", ""},
    {"qemu-system-i386|-smbios|uuid=" UUID ",type=1|", true, "", UUID},
    /* no UUIDs */
    {"qemu-system-i386|-uuid|6f1e0b528c8f4d529f0e0f6a3c2b1d44|", true, "", ""},
    {"qemu-system-i386|-uuid|6f1e0b52_8c8f_4d52_9f0e_0f6a3c2b1d44|", true, "", ""},
    {"qemu-system-i386|-uuid||-name||", true, "", ""},
    /* cut short */
    {"qemu-system-i386|-name", true, "", ""},
    {"qemu-system-i386|-name|tr", true, "tr", ""},
    /* others */
    {"qemu-x86_64|/bin/ls|", false, NULL, NULL},
    {"qemu-img|convert|", false, NULL, NULL},
    {"qemu-system-|", false, NULL, NULL},
    {"/bin/sh|-c|qemu-system-x86_64 -name x|", false, NULL, NULL},
    {"vim|/etc/qemu-system-x86_64|", false, NULL, NULL},
    {"|-name|x|", false, NULL, NULL},
    {"", false, NULL, NULL},
};

static size_t unfold(const char *line, char *out, size_t size)
{
    size_t len = strlen(line);

    assert_true(len < size);
    for (size_t i = 0; i < len; i++)
        out[i] = line[i] == '|' ? '\0' : line[i];
    return len;
}

static void test_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char bytes[1024];
        struct agent_qemu qemu = {0};
        size_t len = unfold(rows[i].line, bytes, sizeof(bytes));
        if (agent_qemu_from_cmdline(bytes, len, &qemu) != rows[i].qemu)
            fail_msg("%s", rows[i].line);
        if (!rows[i].qemu)
            continue;
        assert_string_equal(qemu.name, rows[i].name);
        assert_string_equal(qemu.uuid, rows[i].uuid);
    }
}

static void test_names_are_cut_at_their_room(void **state)
{
    char bytes[1024] = "qemu-system-x86_64\0-name";
    struct agent_qemu qemu = {0};
    size_t at = sizeof("qemu-system-x86_64") + sizeof("-name");

    (void)state;
    memset(bytes + at, 'x', 700);
    assert_true(agent_qemu_from_cmdline(bytes, at + 700, &qemu));
    assert_int_equal(strlen(qemu.name), sizeof(qemu.name) - 1);
}

static void test_helpers(void **state)
{
    static const char tpm[] = "/usr/bin/swtpm\0socket\0--tpmstate";
    static const char shell[] = "/bin/sh\0swtpm";

    (void)state;
    assert_true(agent_qemu_helper(tpm, sizeof(tpm)));
    assert_false(agent_qemu_helper(shell, sizeof(shell)));
    assert_false(agent_qemu_helper("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_names_are_cut_at_their_room),
        cmocka_unit_test(test_helpers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
