/* layout_case.h: one training step over some layout of ranks and stages must come to what one rank comes
 * to with the same sequences. Cases are data: options as on the command line.
 *
 *     static const layout_case cases[] = {{"--pp 2 --vp 2", SAME_BITS}, {"--ep 2", CLOSE}};
 */
#ifndef HR_TEST_LAYOUT_CASE_H
#define HR_TEST_LAYOUT_CASE_H

/* Each gradient and the loss: within 1e-5; all that a run leaves to the bit. */
typedef enum layout_agrees { CLOSE, SAME_BITS } layout_agrees;

/* Options that describe the model or the data also hold for the run on one rank. */
typedef struct layout_case {
    const char *options;
    layout_agrees agrees;
} layout_case;

/* Fails the test, naming the options and the worst parameter, or returns. Runs on one rank are done once a
 * model and kept until layout_case_forget(). */
void layout_case_check(const layout_case *c);
void layout_case_forget(void);

/* Two steps as `first` and one as `then`, from the checkpoint, are three steps as `first`. */
void layout_case_resume(const char *first, const char *then, layout_agrees agrees);

#endif
