/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is taken, and from where it is known:
 *
 *   amd_energy       Esocket0 ...        64-bit microjoules of a socket; Ecore000 ... are parts of
 * it amd_hsmp_hwmon   (one chip a socket) power of the socket fam15h_power     (one chip a socket)
 * power of the socket apm_xgene        CPU power           X-Gene; IO power is beside it
 *   power_meter      ACPI: what the machine draws, whatever its OEM information says, but for
 *                    CPU Power Socket 0, Module Power Socket 0   NVIDIA Grace: a package, a module;
 *                    other power sockets there are parts or sums of these
 *
 * Regulators (zenpower's SVI2 rails, INA3221 and other shunts) are not: what hangs on a rail is the
 * board's choice.
 */
#include "node-agent/hwmon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/num.h"
#include "node-agent/domain.h"

#define ACPI_CHIP   "power_meter"
/* Of Grace's meters, each of which says what it measures. */
#define GRACE_LABEL " Power Socket "

struct rule {
    const char *chip;
    bool energy;
    const char *label; /* before the number of the socket; NULL: a sensor without a label */
    bool numbered;
    enum agent_domain_kind kind;
};

static const struct rule rules[] = {
    {"amd_energy", true, "Esocket", true, AGENT_DOMAIN_CPU},
    {"amd_hsmp_hwmon", false, NULL, false, AGENT_DOMAIN_CPU},
    {"fam15h_power", false, NULL, false, AGENT_DOMAIN_CPU},
    {"apm_xgene", false, "CPU power", false, AGENT_DOMAIN_CPU},
    {ACPI_CHIP, false, "CPU Power Socket ", true, AGENT_DOMAIN_CPU},
    {ACPI_CHIP, false, "Module Power Socket ", true, AGENT_DOMAIN_PLATFORM},
};

struct agent_hwmon_what agent_hwmon_classify(const char *chip, const char *label, bool energy)
{
    struct agent_hwmon_what what = {.kind = AGENT_DOMAIN__MAX};

    for (size_t i = 0; i < KW_ARRAY_SIZE(rules); i++) {
        const struct rule *rule = &rules[i];
        uint64_t socket = 0;
        size_t len = rule->label != NULL ? strlen(rule->label) : 0;
        if (strcmp(rule->chip, chip) != 0 || rule->energy != energy ||
            strncmp(label, rule->label != NULL ? rule->label : "", len) != 0)
            continue;
        if (rule->numbered ? kw_parse_u64(label + len, 0, AGENT_PACKAGES_MAX - 1, &socket) < 0
                           : label[len] != '\0')
            continue;
        what = (struct agent_hwmon_what){
            .kind = rule->kind, .numbered = rule->numbered, .socket = (uint32_t)socket};
    }
    if (what.kind == AGENT_DOMAIN__MAX && !energy && strcmp(chip, ACPI_CHIP) == 0 &&
        strstr(label, GRACE_LABEL) == NULL)
        what.kind = AGENT_DOMAIN_PLATFORM;
    return what;
}

bool agent_hwmon_value_file(const char *file, bool *ret_energy, unsigned *ret_number,
                            bool *ret_average)
{
    static const char power[] = "power", energy[] = "energy";
    bool is_energy = strncmp(file, energy, sizeof(energy) - 1) == 0;
    uint64_t number = 0;

    if (!is_energy && strncmp(file, power, sizeof(power) - 1) != 0)
        return false;
    const char *at = file + (is_energy ? sizeof(energy) : sizeof(power)) - 1;
    size_t digits = strspn(at, "0123456789");
    if (kw_parse_u64_span(at, digits, 1, 9999, &number) < 0)
        return false;
    bool average = !is_energy && strcmp(at + digits, "_average") == 0;
    if (!average && strcmp(at + digits, "_input") != 0)
        return false;
    *ret_energy = is_energy;
    *ret_number = (unsigned)number;
    *ret_average = average;
    return true;
}

/** A text of a sensor ("power1_label"), without its line end and the blanks with which firmware
 * fills fields of a fixed width. @return whether there is one. */
static bool read_text(int fd, bool energy, unsigned number, const char *suffix, char *out,
                      size_t size)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "%s%u_%s", energy ? "energy" : "power", number, suffix);
    if (kw_file_read_at(fd, path, out, size) < 0)
        return false;
    size_t len = strcspn(out, "\r\n");
    while (len > 0 && (out[len - 1] == ' ' || out[len - 1] == '\t'))
        len--;
    out[len] = '\0';
    return true;
}

/** What is being looked for. */
struct search {
    const struct agent_topology *topology;
    enum agent_domain_kind kind;
    bool energy;
    struct agent_package_numbers numbers;
    struct agent_hwmon *found;
    uint32_t counted; /* sensors that carry no number, so far */
};

/** Takes a sensor if it is wanted. @param folder below class/hwmon. @return 0 or -ENOMEM. */
static int take_sensor(struct search *search, int fd, const char *class_path, const char *folder,
                       const char *chip, const char *file, unsigned number)
{
    struct agent_hwmon_sensor sensor = {0};
    char label[64] = "", battery[8] = "";

    if (!read_text(fd, search->energy, number, "label", label, sizeof(label)))
        (void)read_text(fd, search->energy, number, "oem_info", label, sizeof(label));
    (void)read_text(fd, search->energy, number, "is_battery", battery, sizeof(battery));
    struct agent_hwmon_what what = agent_hwmon_classify(chip, label, search->energy);
    if (what.kind != search->kind || battery[0] == '1')
        return 0;
    /* chips of packages are one a socket; several meters of one machine are views of it */
    bool counted = !what.numbered && what.kind == AGENT_DOMAIN_CPU;
    uint32_t socket = counted ? search->counted++ : what.socket;
    sensor.domain = (struct agent_domain){
        .kind = what.kind,
        .package_id =
            socket < search->topology->n_packages ? search->topology->package_ids[socket] : socket,
        .max_mw = 2 * agent_domain_bound_mw(what.kind),
        .integrated = !search->energy,
    };
    if (what.kind == AGENT_DOMAIN_CPU)
        (void)snprintf(sensor.domain.name, sizeof(sensor.domain.name), "package-%u",
                       sensor.domain.package_id);
    else
        (void)snprintf(sensor.domain.name, sizeof(sensor.domain.name), "%.60s",
                       label[0] != '\0' ? label : "machine");
    if ((size_t)snprintf(sensor.below, sizeof(sensor.below), "%s/%s", folder, file) >=
            sizeof(sensor.below) ||
        search->found->n == AGENT_HWMON_MAX ||
        (what.kind == AGENT_DOMAIN_CPU &&
         agent_package_number(&search->numbers, search->topology, sensor.domain.package_id,
                              &sensor.domain.package) < 0)) {
        search->found->left_out++;
        return 0;
    }
    agent_domain_set_path(&sensor.domain, class_path, sensor.below);
    struct agent_hwmon_sensor *items =
        reallocarray(search->found->items, search->found->n + 1, sizeof(*search->found->items));
    if (items == NULL)
        return -ENOMEM;
    search->found->items = items;
    items[search->found->n++] = sensor;
    return 0;
}

/** Whether a sensor has a mean beside its present value. */
static bool has_average(int fd, unsigned number)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "power%u_average", number);
    return faccessat(fd, path, F_OK, 0) == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

/** Takes the sensors of one folder of a chip. @return 0 or -ENOMEM. */
static int take_folder(struct search *search, const char *class_path, const char *folder,
                       const char *chip)
{
    char path[PATH_MAX];
    struct dirent **entries = NULL;
    int rc = kw_path_join(path, sizeof(path), class_path, folder);
    kw_cleanup_close int fd = rc < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int n = fd < 0 ? 0 : scandir(path, &entries, NULL, by_name);

    rc = 0;
    for (int i = 0; i < n; i++) {
        bool energy, average;
        unsigned number;
        if (rc == 0 && agent_hwmon_value_file(entries[i]->d_name, &energy, &number, &average) &&
            energy == search->energy && (average || energy || !has_average(fd, number)))
            rc = take_sensor(search, fd, class_path, folder, chip, entries[i]->d_name, number);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

static int compare_sensors(const void *a, const void *b)
{
    const struct agent_hwmon_sensor *x = a, *y = b;

    if (x->domain.package_id != y->domain.package_id)
        return x->domain.package_id < y->domain.package_id ? -1 : 1;
    return strverscmp(x->below, y->below);
}

/** One sensor a package, or for the whole machine: two of a kind are two views of one thing. */
static void drop_twins(struct agent_hwmon *hwmon)
{
    size_t kept = 0;

    for (size_t i = 0; i < hwmon->n; i++) {
        const struct agent_domain *domain = &hwmon->items[i].domain;
        if (kept > 0 && hwmon->items[kept - 1].domain.package_id == domain->package_id)
            continue;
        hwmon->items[kept++] = hwmon->items[i];
    }
    hwmon->n = kept;
}

/** Reads the name of a chip, which drivers of the old kind keep with the device. @return whether
 * it has one. */
static bool read_chip(const char *class_path, const char *folder, char *out, size_t size)
{
    static const char *const files[] = {"name", "device/name"};
    char path[PATH_MAX];

    for (size_t i = 0; i < KW_ARRAY_SIZE(files); i++) {
        if (snprintf(path, sizeof(path), "%s/%s/%s", class_path, folder, files[i]) <
                (int)sizeof(path) &&
            kw_file_read_at(AT_FDCWD, path, out, size) > 0) {
            out[strcspn(out, "\r\n")] = '\0';
            return true;
        }
    }
    return false;
}

int agent_hwmon_scan(const char *sysfs_root, const struct agent_topology *topology,
                     enum agent_domain_kind kind, bool energy, struct agent_hwmon *ret)
{
    char class_path[PATH_MAX], chip[64], folder[80];
    struct agent_hwmon found = {0};
    struct search search = {.topology = topology, .kind = kind, .energy = energy, .found = &found};
    struct dirent **entries = NULL;
    int rc = kw_path_join(class_path, sizeof(class_path), sysfs_root, "class/hwmon");

    if (rc < 0)
        return rc;
    int n = scandir(class_path, &entries, NULL, by_name);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        bool wanted = rc == 0 && strncmp(name, "hwmon", 5) == 0 && strlen(name) < 64;
        if (wanted && read_chip(class_path, name, chip, sizeof(chip))) {
            found.chips++;
            size_t before = found.n;
            rc = take_folder(&search, class_path, name, chip);
            /* older kernels keep the values with the device */
            (void)snprintf(folder, sizeof(folder), "%.63s/device", name);
            if (rc == 0 && found.n == before)
                rc = take_folder(&search, class_path, folder, chip);
        }
        free(entries[i]);
    }
    free(entries);
    if (rc < 0) {
        agent_hwmon_free(&found);
        return rc;
    }
    if (found.n > 0)
        qsort(found.items, found.n, sizeof(*found.items), compare_sensors);
    drop_twins(&found);
    *ret = found;
    return 0;
}

void agent_hwmon_free(struct agent_hwmon *hwmon)
{
    free(hwmon->items);
    *hwmon = (struct agent_hwmon){0};
}

int agent_hwmon_open(const char *sysfs_root, const struct agent_hwmon_sensor *sensor)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/class/hwmon/%s", sysfs_root, sensor->below) >=
        (int)sizeof(path))
        return -ENAMETOOLONG;
    return agent_domain_open_file(path);
}
