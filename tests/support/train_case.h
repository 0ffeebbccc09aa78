/* train_case.h: a small training run for tests: options, a folder of its own, and what it left. */
#ifndef HR_TEST_TRAIN_CASE_H
#define HR_TEST_TRAIN_CASE_H
#include "commands.h"
#include "safetensors.h"

/* Options of a tiny model that trains on LICENSE for `steps` steps in the fresh folder o->out. */
void train_case_init(train_options *o, int ep, int microbatches, int64_t steps);
/* The two halves of it: without a folder nothing can run. */
void train_case_options(train_options *o, int ep, int microbatches, int64_t steps);
void train_case_folder(train_options *o);
/* Remove the folder. */
void train_case_fini(const train_options *o);

/* All bytes of `out`/`name`; *n bytes, for free(). NULL if it cannot be read. */
char *train_case_read(const train_options *o, const char *name, size_t *n);

/* |a - b| / |b| in the 2-norm; of equal zeros 0. */
double train_case_distance(const float *a, const float *b, int64_t n);

#endif
