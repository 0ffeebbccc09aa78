/* For the tests of the stream checker with real nodes, tensors and groups: small programs that
 * are right, and the same with one mistake in them. A program runs on each rank of a job whose
 * devices are checked; it must pass as it should be, and be found with the right words as it
 * should not. */
#ifndef LAB_H
#define LAB_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h"
#include "headrace/plan.h"

enum { LAB_LAYER = 2, LAB_MICROBATCH = 3, LAB_ROWS = 4, LAB_KEPT = 24 };

typedef struct lab {
    bool right; /* the program without its mistake */
    int rank;
    hr_group *world; /* borrowed */
    hr_device *dev;
    hr_stream *compute, *comm, *counts; /* "compute", "communication", "counts" */
    hr_event *event;
    hr_tensor *kept[LAB_KEPT];
    hr_node *nodes[LAB_KEPT];
    int n_kept, n_nodes;
} lab;

typedef hr_status (*lab_program)(lab *l);

typedef struct mistake {
    const char *name;
    lab_program program;
    int ranks;
    const char *reason;
    const char *words[6]; /* that the sentence must have */
} mistake;

/* The group of tests of a table. */
int lab_main(const mistake *table, int n);
#define LAB_MAIN(table)                                                                \
    int main(void)                                                                     \
    {                                                                                  \
        return lab_main(table, (int)(sizeof(table) / sizeof((table)[0])));             \
    }

/* [LAB_ROWS, TOY_WIDTH] of zeros, written by the current stream; the lab's. */
hr_status lab_tensor(lab *l, const char *name, hr_tensor **out);

/* What a node does: exchange with `group`, or add `side`, or scale by `w`, or bend. */
typedef struct lab_work {
    hr_group *group;
    hr_tensor *side, *w;
    hr_wgrad_queue *queue;
    const char *output; /* its name */
    bool free_input;
    int layer; /* 0: LAB_LAYER */
} lab_work;
/* `work` must outlive the node, which is the lab's. */
hr_status lab_node(lab *l, const char *name, hr_stream *s, hr_event *e, lab_work *work,
                   hr_node **out);
/* Forward and backward of nodes with one input and one output, borrowed. */
hr_status lab_forward(hr_node *node, hr_tensor *x, hr_tensor **y);
hr_status lab_backward(lab *l, hr_node *node, hr_tensor *dy);

/* `then` waits for what `first` has now. */
hr_status lab_order(lab *l, hr_stream *first, hr_stream *then);

#endif
