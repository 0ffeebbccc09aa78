/* What the stream checker remembers: bytes with the uses a later one could conflict with. */
#include "device_kit.h"

#include "device/check_shades.h"

static char memory[100];

static hr__use use_of(int stream, uint64_t position, hr_access kind)
{
    return (hr__use){.id = stream, .position = position, .kind = kind};
}

static void add(hr__shades *set, int from, int to, int stream, uint64_t position,
                hr_access kind)
{
    hr__use use = use_of(stream, position, kind);
    hr__shades_add(set, memory + from, memory + to, &use);
}

/* Position of the use that an unordered one of stream 9 meets first, and where; 0: none. */
static uint64_t met(const hr__shades *set, int from, int to, hr_access kind, int *where)
{
    static const hr__clock nothing;
    const char *at = NULL;
    const hr__use *use =
        hr__shades_conflict(set, memory + from, memory + to, kind, 9, &nothing, &at);
    if (where)
        *where = (int)(at - memory);
    return use ? use->position : 0;
}

static void last_write_of_each_byte_is_met(void **state)
{
    hr__shades set = {0};
    int where;
    add(&set, 0, 100, 1, 1, HR_WRITE);
    add(&set, 30, 50, 1, 2, HR_WRITE);
    assert_int_equal(set.n, 3);
    assert_int_equal(met(&set, 0, 30, HR_READ, &where), 1);
    assert_int_equal(met(&set, 30, 50, HR_READ, &where), 2);
    assert_int_equal(met(&set, 49, 90, HR_READ, &where), 2);
    assert_int_equal(where, 49);
    assert_int_equal(met(&set, 50, 51, HR_READ, &where), 1);
    add(&set, 0, 100, 1, 3, HR_WRITE);
    assert_int_equal(set.n, 1);
    hr__shades_fini(&set);
}

static void reads_meet_writes_alone_and_once_a_stream(void **state)
{
    hr__shades set = {0};
    add(&set, 20, 40, 1, 1, HR_READ);
    add(&set, 20, 40, 1, 5, HR_READ);
    add(&set, 30, 60, 2, 7, HR_READ);
    assert_int_equal(met(&set, 0, 100, HR_READ, NULL), 0);
    assert_int_equal(met(&set, 20, 30, HR_WRITE, NULL), 5);
    assert_int_equal(met(&set, 50, 60, HR_WRITE, NULL), 7);
    assert_int_equal(met(&set, 60, 100, HR_WRITE, NULL), 0);
    add(&set, 0, 100, 3, 9, HR_WRITE);
    assert_int_equal(met(&set, 20, 40, HR_WRITE, NULL), 9);
    hr__shades_fini(&set);
}

static void own_stream_and_known_uses_are_no_conflict(void **state)
{
    hr__shades set = {0};
    hr__clock now = {{0}};
    const char *at;
    add(&set, 0, 10, 1, 4, HR_WRITE);
    assert_null(hr__shades_conflict(&set, memory, memory + 10, HR_WRITE, 1, &now, &at));
    now.at[1] = 3;
    assert_non_null(
        hr__shades_conflict(&set, memory, memory + 10, HR_READ, 2, &now, &at));
    now.at[1] = 4;
    assert_null(hr__shades_conflict(&set, memory, memory + 10, HR_READ, 2, &now, &at));
    hr__shades_fini(&set);
}

static void cleared_bytes_have_no_past_and_their_neighbours_do(void **state)
{
    hr__shades set = {0};
    add(&set, 0, 100, 1, 1, HR_WRITE);
    add(&set, 0, 100, 2, 2, HR_READ);
    hr__shades_clear(&set, memory + 40, memory + 60);
    assert_int_equal(met(&set, 40, 60, HR_WRITE, NULL), 0);
    assert_int_equal(met(&set, 39, 40, HR_WRITE, NULL), 1);
    assert_int_equal(met(&set, 60, 61, HR_WRITE, NULL), 1);
    hr__shades_fini(&set);
}

static void settling_forgets_what_everything_is_behind(void **state)
{
    hr__shades set = {0};
    hr__clock known = {{0}};
    for (int i = 0; i < 100; i++)
        add(&set, i, i + 1, i % 2, (uint64_t)i + 1, HR_WRITE);
    assert_true(hr__shades_crowded(&set));
    known.at[0] = 100;
    known.at[1] = 50;
    hr__shades_settle(&set, &known);
    assert_int_equal(set.n, 25); /* those of stream 1 behind its position 50 */
    assert_int_equal(met(&set, 0, 51, HR_WRITE, NULL), 0);
    assert_int_equal(met(&set, 51, 52, HR_WRITE, NULL), 52);
    assert_false(hr__shades_crowded(&set));
    hr__shades_fini(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_write_of_each_byte_is_met),
        cmocka_unit_test(reads_meet_writes_alone_and_once_a_stream),
        cmocka_unit_test(own_stream_and_known_uses_are_no_conflict),
        cmocka_unit_test(cleared_bytes_have_no_past_and_their_neighbours_do),
        cmocka_unit_test(settling_forgets_what_everything_is_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
