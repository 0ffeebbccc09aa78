/* Host time of nodes: nanoseconds that the issuing thread spends on forward and backward of one node
 * that returns a view, and on one overlapped MoE layer pair. The median of several rounds; the
 * streams are empty when a round begins. */
#include "bench.h"
#include "node_rounds.h"

enum { ROUNDS = 201 };

int main(void)
{
    static double node[ROUNDS], pair[ROUNDS];
    static rounds r;
    rounds_begin(&r);
    for (int i = 0; i < ROUNDS; i++) { /* in turns, so that noise meets both */
        nodes_make(&r);
        int64_t start = hr_now_ns();
        nodes_run(&r);
        node[i] = (double)(hr_now_ns() - start) / ROUND_NODES;
        nodes_drop(&r);
        pairs_make(&r);
        start = hr_now_ns();
        pairs_run(&r);
        pair[i] = (double)(hr_now_ns() - start) / ROUND_PAIRS;
        pairs_drop(&r);
    }
    bench_say("node.forward_backward", bench_median(node, ROUNDS), "ns");
    bench_say("node.forward_backward.least", node[0], "ns");
    bench_say("node.layer_pair", bench_median(pair, ROUNDS), "ns");
    bench_say("node.layer_pair.least", pair[0], "ns");
    return 0; /* the device lives as long as the process */
}
