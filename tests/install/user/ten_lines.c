/* What a stranger writes first: does the installed library answer? */
#include <headrace/headrace.h>
#include <stdio.h>

int main(void)
{
    hr_timeline *t;
    hr_status st = hr_timeline_create(16, &t);
    printf("headrace %s: %s\n", hr_version(), hr_status_name(st));
    hr_timeline_destroy(t);
    return st == HR_OK ? 0 : 1;
}
