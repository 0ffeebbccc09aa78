/* The table of the local engine. */
#ifndef HR_LOCAL_GROUP_H
#define HR_LOCAL_GROUP_H
#include "group/group_ops.h"

extern const hr_group_ops hr__local_group_ops;

#endif
