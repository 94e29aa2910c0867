/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long pods live, as the recommender learns it: for each owner the time that its pods were
 * there and how many of them ended, those that run included. Nothing fades: a run is shorter than
 * what is learnt lasts.
 */
#include <errno.h>
#include <stdlib.h>

#include "api/profile.h"
#include "extender/outlook.h"
#include "extender/sim_impl.h"

int ext_sim_lives_init(struct ext_sim *sim)
{
    sim->lives = calloc((size_t)sim->input->n_owners + 1, sizeof(*sim->lives));
    return sim->lives == NULL ? -ENOMEM : 0;
}

static void catch_up(struct ext_sim_life *life, double now_s)
{
    life->lived_s += life->running * (now_s - life->at_s);
    life->at_s = now_s;
}

void ext_sim_lives_begin(struct ext_sim *sim, uint32_t pod)
{
    struct ext_sim_life *life = &sim->lives[sim->input->pods[pod].owner];

    catch_up(life, sim->now_s);
    life->running++;
}

void ext_sim_lives_end(struct ext_sim *sim, uint32_t pod)
{
    struct ext_sim_life *life = &sim->lives[sim->input->pods[pod].owner];

    catch_up(life, sim->now_s);
    life->running--;
    life->ended++;
}

double ext_sim_wake_s(struct ext_sim *sim, uint32_t pod)
{
    const struct ext_sim_pod *it = &sim->input->pods[pod];
    struct ext_sim_life *life = &sim->lives[it->owner];

    if (sim->conf.lives == EXT_SIM_LIVES_TOLD)
        return it->end_s - sim->now_s;
    if (sim->conf.lives == EXT_SIM_LIVES_ASSUMED || it->owner == 0)
        return KW_LIFE_ASSUMED_S;
    catch_up(life, sim->now_s);
    double learnt_s =
        kw_profile_life_s((uint64_t)(life->lived_s * 1000), (uint64_t)(life->ended * 1000));
    return sim->conf.lives == EXT_SIM_LIVES_PLAIN ? learnt_s
                                                  : ext_outlook_wake_s(learnt_s, EXT_LIFE_PROFILE);
}
