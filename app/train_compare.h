/* train_compare.h: ranks that are processes have been told what to do one by one, perhaps not the same.
 */
#ifndef HR_APP_TRAIN_COMPARE_H
#define HR_APP_TRAIN_COMPARE_H
#include "train.h"

/* ERR_MISMATCH where this rank's options, schedule, data, checkpoint or version are not those of rank 0, with
 * the name and both values. What only says where a rank finds or does the same may differ: --data,
 * --config, --cores. Collective. Blocks. */
hr_status hr_app_compare(hr_group *world, const train_job *job);

/* On how many hosts the ranks are. Collective. Blocks. */
hr_status hr_app_count_hosts(hr_group *world, int *hosts);

#endif
