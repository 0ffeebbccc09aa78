/* A made-up mixture-of-experts layer, and its plain one-rank form in double. Every number
 * follows from what it belongs to, so that it does not depend on the number of ranks.
 *
 * Letters: T tokens of all ranks, K choices, C width, D hidden width, E experts, B microbatches.
 */
#ifndef HR_MOE_CASE_H
#define HR_MOE_CASE_H
#include "headrace/moe.h"

enum { CASE_MAX_RANKS = 4, CASE_MICROBATCHES = 2 };

typedef struct moe_case {
    int ranks, experts, top_k, width, hidden;
    int tokens[CASE_MAX_RANKS]; /* of each rank, in a microbatch */
    /* Expert of choice k of token t (counted over all ranks) of microbatch b. */
    int (*choose)(const struct moe_case *c, int b, int t, int k);
    hr_moe_kind kind;
    double capacity_factor; /* of the symmetric kind; 0: nothing overflows */
    hr_dtype type;          /* of rows and weights: f32 or bf16 */
} moe_case;

int choose_spread(const moe_case *c, int b, int t, int k); /* irregular, all experts */
int choose_first_rank(const moe_case *c, int b, int t, int k); /* only rank 0's */
int choose_last(const moe_case *c, int b, int t, int k);       /* the last expert(s) */

int case_tokens(const moe_case *c);                /* T */
int case_most_tokens(const moe_case *c);           /* of a rank, 1 at least */
int case_first_token(const moe_case *c, int rank); /* tokens of the ranks before */

/* Inputs, each between -1 and 1 (probabilities: 0 and 1). */
enum { MADE_X, MADE_PROB, MADE_GRAD, MADE_W1, MADE_W2 };
float made_up(int kind, int b, int64_t i);

/* out, dx [B][T][C]; dprobs [B][T][K]; dw1 [E][2D][C]; dw2 [E][C][D]. */
typedef struct moe_result {
    double *out, *dx, *dprobs, *dw1, *dw2;
    size_t rows, choices, weights1, weights2; /* how many numbers each holds */
} moe_result;

moe_result *result_create(const moe_case *c); /* NULL: no memory */
void result_destroy(moe_result *r);
double result_distance(const moe_result *a, const moe_result *b); /* greatest */
int result_same_bits(const moe_result *a, const moe_result *b);

/* Loops and nothing else. */
void plain_moe(const moe_case *c, moe_result *r);

#endif
