/* host_name.c: see host_name.h. */
#include "host_name.h"
#include <string.h>
#include <unistd.h>

void hr_app_host_name(char name[HOST_NAME])
{
    memset(name, 0, HOST_NAME);
    if (gethostname(name, HOST_NAME - 1) != 0)
        name[0] = '?';
}
