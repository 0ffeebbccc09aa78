/* The loss curve as a picture. */
#ifndef HR_APP_PICTURE_LOSS_H
#define HR_APP_PICTURE_LOSS_H
#include "headrace/base.h"

typedef struct loss_point {
    double step, loss;
} loss_point;

typedef struct picture_loss {
    const char *title, *subtitle; /* subtitle may be NULL */
    const loss_point *train, *validation;
    size_t n_train, n_validation;
    double baseline; /* byte frequencies alone; 0: none */
} picture_loss;

/* SVG, or PNG where `path` ends in .png; replaced whole. */
hr_status hr_app_picture_loss(const picture_loss *p, const char *path);

#endif
