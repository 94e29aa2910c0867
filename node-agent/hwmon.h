/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node-agent/meter.h"

/*
 * Sensors below sysfs_root/class/hwmon that say what a package or the whole machine draws. hwmon
 * numbers chips as they are found: a sensor is recognised by its chip's name and its own label.
 */

/** What a sensor measures. */
struct agent_hwmon_what {
    enum agent_domain_kind kind; /**< AGENT_DOMAIN__MAX: nothing that is wanted */
    bool numbered;               /**< `socket` is in the label; else chips are counted */
    uint32_t socket;             /**< as the driver counts sockets, from 0 */
};

/**
 * What a sensor is. Pure.
 * @param chip the chip's `name`; @param label of the sensor, "" where it has none.
 * @param energy an energy counter (energyN), not a power (powerN).
 */
struct agent_hwmon_what agent_hwmon_classify(const char *chip, const char *label, bool energy);

/** Whether a file is a sensor's value: "power1_average", "power1_input", "energy1_input". Pure.
 * @param ret_number of the sensor; @param ret_average a mean, which is preferred to `input`. */
bool agent_hwmon_value_file(const char *file, bool *ret_energy, unsigned *ret_number,
                            bool *ret_average);

struct agent_hwmon_sensor {
    struct agent_domain domain; /**< path is the file, with the root in front */
    char below[96];             /**< the file below class/hwmon */
};

#define AGENT_HWMON_MAX 256

struct agent_hwmon {
    size_t n;
    struct agent_hwmon_sensor *items; /**< sorted by package and kind */
    size_t left_out;                  /**< there was no room for */
    unsigned chips;                   /**< chips there are, wanted or not */
};

/**
 * Finds the sensors of one kind of domain.
 * @param energy counters, or powers. @param ret free with agent_hwmon_free.
 * @return 0, also where none was found; -ENOMEM, -ENAMETOOLONG.
 */
int agent_hwmon_scan(const char *sysfs_root, const struct agent_topology *topology,
                     enum agent_domain_kind kind, bool energy, struct agent_hwmon *ret);
void agent_hwmon_free(struct agent_hwmon *hwmon);

/** Opens a sensor's file for agent_domain_read_number. @return descriptor or -errno. */
int agent_hwmon_open(const char *sysfs_root, const struct agent_hwmon_sensor *sensor);
