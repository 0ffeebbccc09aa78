/* host_name.h: the name by which this host is told from others. */
#ifndef HR_APP_HOST_NAME_H
#define HR_APP_HOST_NAME_H

enum { HOST_NAME = 64 }; /* a longer one is cut */

/* "?" where the system does not say; behind the name all bytes are 0. */
void hr_app_host_name(char name[HOST_NAME]);

#endif
