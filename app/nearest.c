/* Edit distance over words that people type: short, so a fixed table does. */
#include "nearest.h"

#include <limits.h>
#include <string.h>

enum { LONGEST = 48 }; /* characters looked at: longer than any option */

static int least(int a, int b)
{
    return a < b ? a : b;
}

int hr_app_edit_distance(const char *a, const char *b)
{
    int na = (int)strnlen(a, LONGEST), nb = (int)strnlen(b, LONGEST);
    int d[LONGEST + 1][LONGEST + 1];
    for (int i = 0; i <= na; i++) {
        for (int j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            int cost = a[i - 1] != b[j - 1];
            int v = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                v = least(v, d[i - 2][j - 2] + 1);
            d[i][j] = v;
        }
    }
    return d[na][nb];
}

int hr_app_nearest(const char *text, const char *const *words, int n)
{
    int best = -1, best_distance = INT_MAX;
    for (int i = 0; i < n; i++) {
        if (!words[i])
            continue;
        int distance = hr_app_edit_distance(text, words[i]);
        if (distance < best_distance) {
            best = i;
            best_distance = distance;
        }
    }
    return best;
}
