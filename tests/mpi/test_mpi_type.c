/* Counts of MPI go to INT_MAX: what is larger goes as one element of a type of its own. The pieces are small
 * here, so that no memory is needed; MPI itself is asked what the type covers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "group/mpi/mpi_exchange.h"

static void covers(size_t bytes, size_t most)
{
    MPI_Datatype type;
    MPI_Count size, low, extent;
    int count;
    assert_int_equal(hr__mpi_type_of(bytes, most, &type, &count), MPI_SUCCESS);
    MPI_Type_size_x(type, &size);
    MPI_Type_get_extent_x(type, &low, &extent);
    assert_int_equal((size_t)size * (size_t)count, bytes);
    assert_int_equal((size_t)extent * (size_t)count, bytes);
    assert_int_equal(low, 0);
    if (type != MPI_BYTE)
        MPI_Type_free(&type);
}

static void a_type_covers_all_bytes_and_no_more(void **state)
{
    for (size_t bytes = 0; bytes < 40; bytes++)
        for (size_t most = 1; most < 12; most++)
            covers(bytes, most);
    covers((size_t)5 << 30, (size_t)1 << 30);
    covers(((size_t)5 << 30) + 7, (size_t)1 << 30);
}

static void few_bytes_need_no_type(void **state)
{
    MPI_Datatype type;
    int count;
    assert_int_equal(hr__mpi_type_of(1000, 1000, &type, &count), MPI_SUCCESS);
    assert_true(type == MPI_BYTE);
    assert_int_equal(count, 1000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_type_covers_all_bytes_and_no_more),
        cmocka_unit_test(few_bytes_need_no_type),
    };
    MPI_Init(&argc, &argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
