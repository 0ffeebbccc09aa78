/* state_pieces.h: what a rank holds of the state of a run, which is the weights and both moments of the optimiser:
 * ranges of the elements of whole tensors, row by row, and where they lie in memory.
 *
 * The one place that knows how state is spread over ranks. Who saves writes the pieces that are this
 * rank's to write, who loads fills all that it holds, and neither asks for the layout.
 */
#ifndef HR_APP_STATE_PIECES_H
#define HR_APP_STATE_PIECES_H
#include "train.h"

typedef enum state_kind {
    STATE_WEIGHT,
    STATE_MOMENT1,
    STATE_MOMENT2,
    STATE_KINDS
} state_kind;

typedef struct state_piece {
    const hr_app_spec *whole; /* whose state it is; borrowed from the catalog */
    state_kind kind;
    int64_t first, count; /* elements of the whole */
    hr_tensor *flat;      /* f32; borrowed */
    int64_t at;           /* its elements in `flat` begin here */
    bool writes;          /* of the ranks that hold it, this one writes it */
} state_piece;

enum { STATE_NAME = 64 };

/* All pieces of this rank, kind by kind, each in the order of the catalog. *out is the caller's, for free(). Each
 * element of the whole state is in exactly one piece that a rank writes. */
hr_status hr_app_state_pieces(const train_rank *r, state_piece **out, int *n);

/* The name of the whole tensor in a checkpoint: "embedding.weight.adam_m". */
void hr_app_state_name(const state_piece *p, char name[STATE_NAME]);

#endif
