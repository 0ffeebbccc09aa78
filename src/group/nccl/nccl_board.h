/* nccl_board.h: what the members of a group that live in one process have issued. NCCL compares nothing: members that
 * call different things hang, or read and write past the end. So each notes here what it is about to issue, and whoever
 * completes a set of notes compares them, before its own goes to NCCL. */
#ifndef HR_NCCL_BOARD_H
#define HR_NCCL_BOARD_H
#include "group/doing.h"
#include "group/group_ops.h"
#include <pthread.h>

struct hr__nccl_job;
struct hr__nccl_member;

typedef struct hr__nccl_board hr__nccl_board;

/* For n members, of whom each lets go of it. `global` is copied. NULL: no memory. */
hr__nccl_board *hr__nccl_board_create(int n, const int *global);
void hr__nccl_board_leave(hr__nccl_board *b, int me); /* b NULL is fine */
void hr__nccl_board_enter(hr__nccl_board *b, int me, struct hr__nccl_member *m);

/* Member `me` issues its collective number `seq`: with the last of all, ERR_MISMATCH "call_mismatch" or
 * "count_mismatch" if they are not the same. ERR_NOMEM. */
hr_status hr__nccl_board_call(hr__nccl_board *b, int me, uint64_t seq,
                              const hr__call *c, const hr_op_label *label);
/* The messages of its batch number `seq`: ERR_MISMATCH "size_mismatch", ERR_NOMEM. */
hr_status hr__nccl_board_batch(hr__nccl_board *b, int me, uint64_t seq,
                               const hr_p2p *ops, int n, const hr_op_label *label);

/* Has the member issued its collective number `seq`? */
bool hr__nccl_board_issued(hr__nccl_board *b, int member, uint64_t seq);
/* Bytes of messages from `from` to `to` that only one side has issued; -1: there are none. *by_sender: which. */
int64_t hr__nccl_board_unmatched(hr__nccl_board *b, int from, int to, bool *by_sender);
/* Append where a member's rank is: "; rank 1 is in ...". */
void hr__nccl_board_where(hr__nccl_board *b, int member, char *buf, size_t cap);
/* Has it begun its collective number `seq`, or is that over? */
bool hr__nccl_board_begun(hr__nccl_board *b, int member, uint64_t seq);

#endif
