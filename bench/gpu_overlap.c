/* How much of a communication stream hides beside compute on one GPU: products of SIDE x SIDE on one stream,
 * copies of a piece of memory within the GPU on another, which stand for transfers; each alone, then both
 * issued in turns. As many copies as take SHARE of the time of the products.
 *
 *     hidden    (products alone + copies alone - both) / copies alone: 1 if the copies cost no time, 0 if
 *               it all took as long as one after the other
 *
 *     bench_gpu_overlap DEVICE [SIDE [MEGABYTES [ROUNDS]]] */
#include "gpu_kit.h"

enum { PRODUCTS = 100, MOST_COPIES = 4000, MOST_ROUNDS = 101 };
static const double SHARE = 0.40;

static hr_device *dev;
static hr_stream *comm;
static hr_tensor *x, *w;
static void *from, *to;
static size_t bytes;

/* So many of each, in turns; milliseconds until both streams are empty. */
static double run(int products, int copies)
{
    int most = products > copies ? products : copies, p = 0, c = 0;
    ok(hr_device_synchronize(dev));
    int64_t start = hr_now_ns();
    for (int i = 1; i <= most; i++) {
        for (; c < (int)((int64_t)copies * i / most); c++)
            ok(hr_copy(comm, to, from, bytes));
        for (; p < (int)((int64_t)products * i / most); p++)
            gpu_product(x, w);
    }
    ok(hr_device_synchronize(dev));
    return (double)(hr_now_ns() - start) * 1e-6;
}

static int copies_for(double ms)
{
    enum { TRIED = 10 };
    run(0, TRIED);
    double wanted = ms / (run(0, TRIED) / TRIED);
    return wanted < 1 ? 1 : wanted > MOST_COPIES ? MOST_COPIES : (int)wanted;
}

static void measure(int rounds)
{
    static double products[MOST_ROUNDS], copies[MOST_ROUNDS], both[MOST_ROUNDS],
        hidden[MOST_ROUNDS];
    run(PRODUCTS, 1); /* what is loaded at the first */
    int n = copies_for(SHARE * run(PRODUCTS, 0));
    for (int r = 0; r < rounds; r++) {
        products[r] = run(PRODUCTS, 0);
        copies[r] = run(0, n);
        both[r] = run(PRODUCTS, n);
        hidden[r] = (products[r] + copies[r] - both[r]) / copies[r];
    }
    bench_say("overlap.products", bench_median(products, rounds), "ms");
    bench_say("overlap.copies", bench_median(copies, rounds), "ms");
    bench_say("overlap.both", bench_median(both, rounds), "ms");
    bench_say("overlap.hidden", bench_median(hidden, rounds), "share");
}

int main(int argc, char **argv)
{
    int side = gpu_number(argc, argv, 2, 2048);
    int megabytes = gpu_number(argc, argv, 3, 64);
    int rounds = gpu_number(argc, argv, 4, 15);
    if (argc < 2 || side < 1 || megabytes < 1 || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: %s DEVICE [SIDE [MEGABYTES [ROUNDS, at most %d]]]\n",
                argv[0], MOST_ROUNDS);
        return 2;
    }
    dev = gpu_open(argv[1]);
    ok(hr_stream_create(
        dev, &(hr_stream_opts){HR_INIT(hr_stream_opts), .name = "communication"},
        &comm));
    bytes = (size_t)megabytes << 20;
    ok(hr_mem_alloc(comm, bytes, &from));
    ok(hr_mem_alloc(comm, bytes, &to));
    ok(hr_fill(comm, from, 0x3b, bytes));
    x = gpu_matrix(side, side);
    w = gpu_matrix(side, side);
    measure(rounds);
    hr_tensor_release(x);
    hr_tensor_release(w);
    hr_mem_free(from, comm);
    hr_mem_free(to, comm);
    hr_device_close(dev);
    return 0;
}
