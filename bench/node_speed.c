/* Host time of nodes: nanoseconds that the issuing thread spends on forward and backward of one node
 * that returns a view, and on one overlapped MoE layer pair. The median of several rounds; the
 * streams are empty when a round begins.
 *
 *     bench_node_speed [DEVICE [ROUNDS]] */
#include "bench.h"
#include "node_rounds.h"

enum { MOST_ROUNDS = 201 };

int main(int argc, char **argv)
{
    static double node[MOST_ROUNDS], pair[MOST_ROUNDS];
    static rounds r;
    int n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : MOST_ROUNDS;
    if (n < 1 || n > MOST_ROUNDS) {
        fprintf(stderr, "usage: %s [DEVICE [ROUNDS, at most %d]]\n", argv[0],
                MOST_ROUNDS);
        return 2;
    }
    rounds_begin(&r, argc > 1 ? argv[1] : "host");
    for (int i = 0; i < n; i++) { /* in turns, so that noise meets both */
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
    bench_say("node.forward_backward", bench_median(node, n), "ns");
    bench_say("node.forward_backward.least", node[0], "ns");
    bench_say("node.layer_pair", bench_median(pair, n), "ns");
    bench_say("node.layer_pair.least", pair[0], "ns");
    return 0; /* the device lives as long as the process */
}
