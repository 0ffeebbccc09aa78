/* The generators. To add one, write its file beside this and name it here. */
#include "schedule/build/builder.h"

#define BUILDERS(X)                                                                    \
    X(forward_only)                                                                    \
    X(gpipe)                                                                           \
    X(one_f_one_b)                                                                     \
    X(interleaved)                                                                     \
    X(looped_bfs)                                                                      \
    X(combined)                                                                        \
    X(grouped)                                                                         \
    X(interleaved_zb)                                                                  \
    X(zb_h1)                                                                           \
    X(zb_h2)                                                                           \
    X(zbv)                                                                             \
    X(v_half)                                                                          \
    X(v_min)                                                                           \
    X(one_f_one_b_v)                                                                   \
    X(dualpipe)                                                                        \
    X(dualpipev)                                                                       \
    X(seq_1f1b)

#define X(name) extern const hr__builder hr__build_##name;
BUILDERS(X)
#undef X

const hr__builder *const hr__builders[] = {
#define X(name) &hr__build_##name,
    BUILDERS(X)
#undef X
        NULL,
};
