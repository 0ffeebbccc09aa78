set(op_check ops/op_check.c ops/reference.c)
hr_test(unit.products SOURCES ops/test_products.c ${op_check} ROOMS ops LABELS tsan)
hr_test(unit.row_ops SOURCES ops/test_row_ops.c ${op_check} ROOMS ops LABELS tsan)
hr_test(unit.slack SOURCES ops/test_slack.c ${op_check} ROOMS ops LABELS tsan)
hr_test(unit.attention SOURCES ops/test_attention.c ${op_check} ROOMS ops LABELS tsan)
hr_test(unit.routing_ops SOURCES ops/test_routing_ops.c ${op_check} ROOMS ops LABELS tsan)
hr_test(unit.optimizer SOURCES ops/test_optimizer.c ${op_check} ROOMS ops LABELS tsan)
hr_test(unit.op_errors SOURCES ops/test_op_errors.c ${op_check} ROOMS ops)
hr_test(unit.vec SOURCES ops/test_vec.c ${op_check} ROOMS ops)

# The same programs over the CUDA backend: its kernels, run by the test doubles of its libraries.
if(TARGET cublas_double)
  foreach(noun products row_ops slack attention routing_ops optimizer)
    add_test(NAME double.${noun} COMMAND test_unit_${noun} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(double.${noun} PROPERTIES TIMEOUT 300 LABELS cuda ENVIRONMENT
      "HEADRACE_DEVICE=cuda;HEADRACE_CUDART=$<TARGET_FILE:cudart_double>;HEADRACE_CUBLAS=$<TARGET_FILE:cublas_double>")
  endforeach()
endif()
