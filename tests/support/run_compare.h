/* run_compare.h: small training runs that must come to the same. Both fail the test, or return. */
#ifndef HR_TEST_RUN_COMPARE_H
#define HR_TEST_RUN_COMPARE_H
#include "support/train_case.h"

/* Makes of fresh options those of a certain model; NULL: leaves them. */
typedef void (*run_kind)(train_options *o);

/* Runs of three steps over `ep` ranks leave the same checkpoint to the bit, hence every gradient of every
 * step: one after the other, overlapped, with delayed weight gradients, with a link, and again. */
void run_compare_bits(int ep, run_kind kind);

/* One step over `ep` ranks has the gradients of the plain model without nodes: relative distance of each
 * below `limit`. */
void run_compare_plain(int ep, run_kind kind, double limit);

#endif
